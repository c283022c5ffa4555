//go:build unix

package gooseholdfast_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"

	"holdfast/contrib/gooseholdfast"
	"holdfast/zk"
	"holdfast/zkserver"
)

// The statement waits for the row, which the test has locked.
var slow = fstest.MapFS{"00001_slow.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nUPDATE gate SET passed = passed + 1;\n")}}

// TestMain is also the main function of a program that migrates, and that a test kills.
func TestMain(m *testing.M) {
	if server := os.Getenv("MIGRATE_SERVER"); server != "" {
		ctx := context.Background()
		c, err := zk.Dial(ctx, client(server, time.Second)) // its lock soon passes on
		check(err)
		db, err := sql.Open(os.Getenv("MIGRATE_DRIVER"), os.Getenv("MIGRATE_DSN"))
		check(err)
		_, err = migrate(ctx, c, db, goose.Dialect(os.Getenv("MIGRATE_DIALECT")), nil)
		check(err)
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

func migrate(ctx context.Context, c *zk.Client, db *sql.DB, dialect goose.Dialect, logger *slog.Logger) ([]*goose.MigrationResult, error) {
	p, err := goose.NewProvider(dialect, db, slow, goose.WithSessionLocker(gooseholdfast.New(mutex(c), dialect, logger)))
	if err != nil {
		return nil, err
	}
	return p.Up(ctx)
}

// A statement goes on in the database after its program was killed. The next program does not begin beside it.
func TestNobodyMigratesBesideTheStatementOfAKilledProgram(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			dsn := d.start(t)
			db := open(t, d, dsn)
			exec1(t, db, `CREATE TABLE gate (passed BIGINT)`)
			exec1(t, db, `INSERT INTO gate VALUES (0)`)
			gate, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer gate.Rollback()
			exec1(t, gate, `UPDATE gate SET passed = 0`)

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

			first := exec.Command(os.Args[0])
			first.Stderr = os.Stderr
			first.Env = append(os.Environ(), "MIGRATE_SERVER="+server, "MIGRATE_DRIVER="+d.driver, "MIGRATE_DSN="+dsn, "MIGRATE_DIALECT="+string(d.dialect))
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			defer first.Process.Kill()
			running := func() (n int) {
				if err := db.QueryRowContext(ctx, d.running).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			eventually(t, "the first program runs its statement", func() bool { return running() == 1 })
			first.Process.Kill()
			first.Wait()
			if running() != 1 {
				t.Fatal("the statement ended with its program: the test tests nothing")
			}

			c, err := zk.Dial(ctx, client(server, 20*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			log, logger := newLog()
			type result struct {
				done []*goose.MigrationResult
				err  error
			}
			second := make(chan result, 1)
			go func() {
				done, err := migrate(ctx, c, open(t, d, dsn), d.dialect, logger)
				second <- result{done, err}
			}()
			eventually(t, "the second program waits for the database, or runs its statement", func() bool {
				if running() > 1 {
					t.Fatal("two programs migrate at the same time")
				}
				return strings.Contains(log.String(), "UPDATE gate")
			})
			if err := gate.Commit(); err != nil {
				t.Fatal(err)
			}
			if r := <-second; r.err != nil || len(r.done) != 1 {
				t.Errorf("the second program: %d migrations, %v", len(r.done), r.err)
			}
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
