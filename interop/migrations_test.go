//go:build unix

package interop

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"holdfast/fence"
	"holdfast/interop/peers"
)

// A migration is psql under holdfast run, on a PostgreSQL with a table gate. Its statement waits for a row that the test has locked.
type migration struct {
	t         *testing.T
	ctx       context.Context
	db        *sql.DB
	env       []string
	dir       string
	statement string
}

func newMigration(t *testing.T, p *peers.PostgreSQL, db *sql.DB, server, table string) *migration {
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
	t.Cleanup(cancel)
	m := &migration{t: t, ctx: ctx, db: db, dir: t.TempDir(), statement: "UPDATE " + table + " SET passed = passed + 1"}
	_, err := db.ExecContext(ctx, `CREATE TABLE `+table+` (passed BIGINT); INSERT INTO `+table+` VALUES (0)`)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(m.dir, "migrate.sql"), []byte(m.statement+";\n"), 0o666))
	real, err := exec.LookPath("psql")
	must(t, err)
	// It tells its process id, and becomes psql.
	must(t, os.WriteFile(filepath.Join(m.dir, "psql"), fmt.Appendf(nil, "#!/bin/sh\necho $$ >%s/pid\nexec %s \"$@\"\n", m.dir, real), 0o777))
	m.env = append(os.Environ(), "PATH="+m.dir+":"+filepath.Dir(holdfastBin(t))+":"+os.Getenv("PATH"), "HOME="+m.dir,
		"DATABASE_URL="+p.URL(), "HOLDFAST_SERVER="+server)
	return m
}

// start runs a script of the page, for a lock of this test.
func (m *migration) start(script string) (ended <-chan error) {
	m.t.Helper()
	cmd := exec.CommandContext(m.ctx, "sh", "-c", strings.ReplaceAll(script, "db/migrate", "db/"+filepath.Base(m.t.Name())))
	cmd.Dir, cmd.Env, cmd.Stderr = m.dir, m.env, os.Stderr
	must(m.t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return done
}

// count returns how many sessions of the database run a statement that begins so.
func (m *migration) count(statement string) (n int) {
	m.t.Helper()
	must(m.t, m.db.QueryRowContext(m.ctx, `SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND starts_with(query, $1)`, statement).Scan(&n))
	return n
}

func (m *migration) await(what string, ok func() bool) {
	m.t.Helper()
	for end := time.Now().Add(stepTime); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("never: %s", what)
		}
	}
}

// kill kills the psql that runs the statement, and returns when holdfast run has ended.
func (m *migration) kill(ended <-chan error) {
	m.t.Helper()
	m.await("the statement runs", func() bool { return m.count(m.statement) == 1 })
	text, err := os.ReadFile(filepath.Join(m.dir, "pid"))
	must(m.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(m.t, err)
	must(m.t, syscall.Kill(pid, syscall.SIGKILL))
	if err := <-ended; err == nil {
		m.t.Error("the command was killed, and holdfast run exits with 0")
	}
}

// The page about migrations says that a statement goes on after its command was killed, and what helps.
func TestStatementOutlivesItsCommand(t *testing.T) {
	need(t, peers.NeedCommand("psql", "postgresql"))
	bin := holdfastBin(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
	defer cancel()
	p, err := peers.StartPostgreSQL(ctx)
	closing(t, p, err)
	db, err := sql.Open("postgres", p.URL())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	h, err := peers.StartHoldfast(ctx, bin, t.TempDir())
	closing(t, h, err)
	server := "zk://" + h.Addr()

	page, err := os.ReadFile("../docs/howto/migrations.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n## A statement outlives its command\n")
	section, _, _ = strings.Cut(section, "\n## ")
	block := func(with string) string {
		t.Helper()
		for _, b := range strings.Split(section, "```sh\n")[1:] {
			if b, _, _ = strings.Cut(b, "```"); strings.Contains(b, with) {
				return strings.ReplaceAll(b, "zk://zk1:2181,zk2:2181,zk3:2181", server)
			}
		}
		t.Fatalf("the page has no script with %s", with)
		return ""
	}
	const alone = `holdfast run db/migrate -- psql -q -v ON_ERROR_STOP=1 "$DATABASE_URL" -f migrate.sql`
	interval := strings.Split(block("PGOPTIONS="), "\n")[1]

	gate := func(m *migration, table string) *sql.Tx {
		tx, err := db.BeginTx(m.ctx, nil)
		must(m.t, err)
		m.t.Cleanup(func() { tx.Rollback() })
		_, err = tx.ExecContext(m.ctx, `UPDATE `+table+` SET passed = 0`)
		must(m.t, err)
		return tx
	}
	t.Run("alone", func(t *testing.T) {
		m := newMigration(t, p, db, server, "alone")
		tx := gate(m, "alone")
		m.kill(m.start(alone))
		next := m.start(alone)
		m.await("two commands migrate at the same time: the page would be wrong", func() bool { return m.count(m.statement) == 2 })
		must(t, tx.Commit())
		must(t, <-next)
	})
	t.Run("lock", func(t *testing.T) {
		m := newMigration(t, p, db, server, "lock")
		tx := gate(m, "lock")
		script := block("pg_advisory_lock")
		m.kill(m.start(script))
		next := m.start(script)
		m.await("the next command waits for the database", func() bool {
			if m.count(m.statement) > 1 {
				t.Fatal("two commands migrate at the same time")
			}
			return m.count("SELECT pg_advisory_lock(42)") == 1
		})
		must(t, tx.Commit())
		must(t, <-next)
	})
	t.Run("fence", func(t *testing.T) { // as docs/howto/fencing.md says
		m := newMigration(t, p, db, server, "fenced")
		must(t, fence.CreateTable(m.ctx, db, fence.PostgreSQL))
		tx := gate(m, "fenced")
		const check = "INSERT INTO holdfast_fence VALUES ('fenced', "
		must(t, os.WriteFile(filepath.Join(m.dir, "fenced.sh"), []byte(`psql -q -v ON_ERROR_STOP=1 "$DATABASE_URL" -c BEGIN -c "`+check+
			`$HOLDFAST_TOKEN) ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE holdfast_fence.token <= excluded.token" -f migrate.sql -c COMMIT`), 0o666))
		const script = "holdfast run db/migrate -- sh fenced.sh"
		m.kill(m.start(script))
		next := m.start(script)
		m.await("the next command waits for the token", func() bool {
			if m.count(m.statement) > 1 {
				t.Fatal("two commands change the table at the same time")
			}
			return m.count(check) == 1
		})
		must(t, tx.Commit())
		must(t, <-next)
		var passed int
		must(t, db.QueryRowContext(m.ctx, "SELECT passed FROM fenced").Scan(&passed))
		if passed != 1 {
			t.Errorf("%d transactions were committed, want that of the next command", passed)
		}
	})
	t.Run("interval", func(t *testing.T) {
		m := newMigration(t, p, db, server, "interval")
		gate(m, "interval")
		m.kill(m.start(interval + "\n" + alone))
		m.await("the statement ends", func() bool { return m.count(m.statement) == 0 })
	})
	t.Run("check", func(t *testing.T) {
		m := newMigration(t, p, db, server, "checked")
		check := block("SHOW client_connection_check_interval")
		for _, tt := range []struct {
			script string
			finds  bool
		}{{interval + "\n" + check, false}, {check, true}} {
			// The script has pauses, which can be too short on a busy machine.
			for try := 1; ; try++ {
				cmd := exec.CommandContext(m.ctx, "sh", "-c", tt.script)
				cmd.Dir, cmd.Env = m.dir, m.env
				out, err := cmd.Output()
				must(t, err)
				if strings.Contains(string(out), "|SELECT pg_sleep(600)") == tt.finds {
					break
				}
				if try == 5 {
					t.Fatalf("%s\nprints\n%s", tt.script, out)
				}
			}
		}
	})
}
