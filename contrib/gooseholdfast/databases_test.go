//go:build unix

package gooseholdfast_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/lib/pq"
	"github.com/pressly/goose/v3"
)

// A database is a server that these tests start.
type database struct {
	name    string
	driver  string
	dialect goose.Dialect
	running string // counts the sessions that run the migration of the tests
	start   func(*testing.T) (dsn string)
}

var databases = []database{
	{"PostgreSQL", "postgres", goose.DialectPostgres,
		`SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'UPDATE gate%' AND state = 'active'`, startPostgreSQL},
	{"MariaDB", "mysql", goose.DialectMySQL,
		`SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE gate%'`, startMariaDB},
}

// missing leaves the test out, or fails in CI.
func missing(t *testing.T, what, pkg string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("there is no %s: install %s", what, pkg)
	}
	t.Skipf("there is no %s: install %s", what, pkg)
}

// launch starts a server, and stops it at the end of the test. It returns when the server accepts connections.
func launch(t *testing.T, cmd *exec.Cmd, stop syscall.Signal, driver, dsn string) string {
	t.Helper()
	log, err := os.CreateTemp(cmd.Dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own copy
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(stop)
		_ = cmd.Wait()
	})
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := db.PingContext(t.Context())
		if err == nil {
			return dsn
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%s does not answer: %v\n%s", cmd.Path, err, text)
		}
	}
}

// startPostgreSQL starts a server on a new cluster. PostgreSQL refuses to run as root, so then it runs as the user postgres.
func startPostgreSQL(t *testing.T) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		missing(t, "/usr/lib/postgresql/*/bin/postgres", "postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir := shortDir(t)
	var as *syscall.Credential
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "--auth=trust", "--username=app", "--no-sync", "-D", data).CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	cmd := command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	return launch(t, cmd, syscall.SIGQUIT, "postgres", fmt.Sprintf("host=%s user=app dbname=postgres sslmode=disable", dir))
}

// startMariaDB starts a server without users. Everybody who can enter the directory may do everything.
func startMariaDB(t *testing.T) string {
	const program = "/usr/sbin/mariadbd"
	if _, err := os.Stat(program); err != nil {
		missing(t, program, "mariadb-server-core")
	}
	dir := shortDir(t)
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	if err := os.MkdirAll(filepath.Join(data, "test"), 0o700); err != nil { // a directory is a database
		t.Fatal(err)
	}
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--socket=" + socket, "--pid-file=" + filepath.Join(dir, "pid"),
		"--skip-grant-tables", "--skip-networking", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-use-native-aio=0"}
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // it refuses root unless it is told so
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	return launch(t, cmd, syscall.SIGKILL, "mysql", "root@unix("+socket+")/test?multiStatements=true")
}

// shortDir makes a directory in which the path of a socket is short, and that other users may enter.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "goose")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func open(t *testing.T, d database, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec1(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
