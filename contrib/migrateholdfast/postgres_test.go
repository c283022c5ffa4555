//go:build unix

package migrateholdfast_test

import (
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

	_ "github.com/lib/pq"
)

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

// shortDir makes a directory in which the path of a socket is short, and that other users may enter.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "migrate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
