//go:build unix

package migrateholdfast_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"holdfast/contrib/migrateholdfast"
	"holdfast/zk"
	"holdfast/zkserver"
)

// The statement waits for the row, which the test has locked.
var slow = fstest.MapFS{"1_slow.up.sql": {Data: []byte("UPDATE gate SET passed = passed + 1")}}

// TestMain is also the main function of a program that migrates, and that a test kills.
func TestMain(m *testing.M) {
	if server := os.Getenv("MIGRATE_SERVER"); server != "" {
		ctx := context.Background()
		c, err := zk.Dial(ctx, client(server, time.Second)) // its lock soon passes on
		check(err)
		m, err := program(ctx, c, os.Getenv("MIGRATE_DSN"))
		check(err)
		check(m.Up())
		return
	}
	os.Exit(m.Run())
}

// client is the configuration for a server of short ticks.
func client(server string, timeout time.Duration) zk.Config {
	return zk.Config{Servers: []string{server}, SessionTimeout: timeout, TickTime: 100 * time.Millisecond}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func program(ctx context.Context, c *zk.Client, dsn string) (*migrate.Migrate, error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, err
	}
	driver, err := postgres.WithInstance(db, &postgres.Config{})
	if err != nil {
		return nil, err
	}
	source, err := iofs.New(slow, ".")
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("iofs", source, "app", migrateholdfast.New(driver, mutex(c), 2*time.Second, slog.Default()))
}

// A statement goes on in the database after its program was killed. Until it ends, nobody migrates, and nobody says
// that the database is in order.
func TestNobodyMigratesBesideTheStatementOfAKilledProgram(t *testing.T) {
	ctx := t.Context()
	dsn := startPostgreSQL(t)
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE gate (passed BIGINT); INSERT INTO gate VALUES (0)`); err != nil {
		t.Fatal(err)
	}
	gate, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Rollback()
	if _, err := gate.ExecContext(ctx, `UPDATE gate SET passed = 0`); err != nil {
		t.Fatal(err)
	}
	running := func() (n int) {
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'UPDATE gate%' AND state = 'active'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	srv, err := zkserver.Open(zkserver.Config{TickTime: 100 * time.Millisecond, MaxSessionTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	socket := filepath.Join(shortDir(t), "zk")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	server := "unix://" + socket

	c, err := zk.Dial(ctx, client(server, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Before the first one: WithInstance of the driver for PostgreSQL takes the lock of the database, too.
	second, err := program(ctx, c, dsn)
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Command(os.Args[0])
	first.Stderr = os.Stderr
	first.Env = append(os.Environ(), "MIGRATE_SERVER="+server, "MIGRATE_DSN="+dsn)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer first.Process.Kill()
	for end := time.Now().Add(30 * time.Second); running() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first program never runs its statement")
		}
	}
	first.Process.Kill()
	first.Wait()

	if err := second.Up(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("Up beside the statement: %v, want ErrLocked", err)
	}
	if err := second.Force(database.NilVersion); !errors.Is(err, database.ErrLocked) {
		t.Errorf("Force beside the statement: %v, want ErrLocked", err)
	}
	if running() != 1 {
		t.Fatal("the statement ended with its program: the test tests nothing")
	}
	if err := gate.Commit(); err != nil {
		t.Fatal(err)
	}
	// The killed program has marked the database, so somebody has to look at it.
	// A busy machine may need several waits.
	eventually := func(do func() error) (err error) {
		for end := time.Now().Add(30 * time.Second); ; {
			if err = do(); !errors.Is(err, database.ErrLocked) || time.Now().After(end) {
				return err
			}
		}
	}
	if err := eventually(second.Up); !errors.As(err, new(migrate.ErrDirty)) {
		t.Errorf("Up after the statement: %v, want ErrDirty", err)
	}
	if err := eventually(func() error { return second.Force(database.NilVersion) }); err != nil {
		t.Fatal(err)
	}
	if err := eventually(second.Up); err != nil {
		t.Error(err)
	}
	if a, b := second.Close(); a != nil || b != nil {
		t.Error(a, b)
	}
}
