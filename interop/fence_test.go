//go:build unix

package interop

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"

	"holdfast"
	"holdfast/fence"
	"holdfast/interop/peers"
	"holdfast/zktest"
)

// databases are the ones for which package fence has a dialect.
var databases = []struct {
	name    string
	dialect fence.Dialect
	tells   bool // pg_stat_activity shows who waits for a lock
	open    func(*testing.T) *sql.DB
}{
	{"PostgreSQL", fence.PostgreSQL, true, func(t *testing.T) *sql.DB {
		ctx, cancel := context.WithTimeout(t.Context(), stepTime)
		defer cancel()
		p, err := peers.StartPostgreSQL(ctx)
		closing(t, p, err)
		return openDatabase(t, "postgres", p.URL())
	}},
	{"SQLite", fence.SQLite, false, func(t *testing.T) *sql.DB {
		return openDatabase(t, "sqlite3", "file:"+filepath.Join(t.TempDir(), "db")+"?_busy_timeout=10000&_journal_mode=wal&_txlock=deferred")
	}},
}

func openDatabase(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := fence.CreateTable(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE account (balance BIGINT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO account VALUES (0)`); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestFence(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			db := d.open(t)
			t.Run("tokens only grow", func(t *testing.T) { fenceOrder(t, db, d.dialect) })
			t.Run("a paused holder that wakes up changes nothing", func(t *testing.T) { fencePaused(t, db, d.dialect) })
			t.Run("a younger holder waits for an older one's transaction", func(t *testing.T) { fenceOverlap(t, db, d.dialect, d.tells) })
			t.Run("what fails is rolled back", func(t *testing.T) { fenceRollback(t, db, d.dialect) })
			t.Run("a lock that is lost stops its transaction", func(t *testing.T) { fenceLost(t, db, d.dialect) })
		})
	}
}

func fenceOrder(t *testing.T, db *sql.DB, d fence.Dialect) {
	for _, c := range []struct {
		resource string
		token    int64
		stale    bool
	}{{"a", 5, false}, {"a", 5, false}, {"a", 1 << 40, false}, {"a", 5, true}, {"a", 1<<40 - 1, true}, {"b", 5, false}, {"a", 1 << 40, false}} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = fence.Check(t.Context(), tx, d, c.resource, c.token)
		if errors.Is(err, fence.ErrStale) != c.stale || err != nil && !c.stale {
			t.Errorf("%+v: %v", c, err)
		}
		end := tx.Commit
		if err != nil {
			end = tx.Rollback
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

func balance(t *testing.T, db *sql.DB) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func set(ctx context.Context, tx *sql.Tx, value string) error {
	_, err := tx.ExecContext(ctx, `UPDATE account SET balance = `+value)
	return err
}

func lockFor(t *testing.T, srv *zktest.Server, name string) *holdfast.Hold {
	t.Helper()
	h, err := holdfast.NewMutex(srv.Client(), "/locks/"+name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // does nothing if it is over
	return tx
}

// The first holder's process is stopped, and does not learn that its session is over.
func fencePaused(t *testing.T, db *sql.DB, d fence.Dialect) {
	srv := zktest.NewServer()
	defer srv.Close()
	first := lockFor(t, srv, t.Name())
	srv.Expire(first.SessionID())
	second := lockFor(t, srv, t.Name())
	err := fence.InTx(t.Context(), db, d, second, func(ctx context.Context, tx *sql.Tx) error { return set(ctx, tx, "8") })
	if err != nil {
		t.Fatal(err)
	}
	late := begin(t, db)
	if err := fence.Check(t.Context(), late, d, "/locks/"+t.Name(), first.Token()); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the first holder's check: %v; want ErrStale", err)
	}
	if err := late.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := balance(t, db); got != 8 {
		t.Errorf("the balance is %d; want the second holder's 8", got)
	}
	// The same without a fence, to show what the fence prevents.
	late = begin(t, db)
	if err := errors.Join(set(t.Context(), late, "9"), late.Commit()); err != nil {
		t.Fatal(err)
	}
	if got := balance(t, db); got != 9 {
		t.Errorf("unfenced, the balance is %d; want the first holder's 9, and the second's update lost", got)
	}
}

func fenceOverlap(t *testing.T, db *sql.DB, d fence.Dialect, tells bool) {
	older := begin(t, db)
	if err := errors.Join(fence.Check(t.Context(), older, d, t.Name(), 1), set(t.Context(), older, "1")); err != nil {
		t.Fatal(err)
	}
	younger := make(chan error, 1)
	go func() {
		tx, err := db.BeginTx(t.Context(), nil)
		if err == nil {
			err = fence.Check(t.Context(), tx, d, t.Name(), 2)
		}
		if err == nil {
			err = set(t.Context(), tx, "balance * 10")
		}
		if err == nil {
			err = tx.Commit()
		}
		younger <- err
	}()
	for waiting := 0; tells && waiting == 0; {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := older.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-younger; err != nil {
		t.Fatal(err)
	}
	if got := balance(t, db); got != 10 {
		t.Errorf("the balance is %d; want 10: the younger after the older", got)
	}
}

func fenceRollback(t *testing.T, db *sql.DB, d fence.Dialect) {
	srv := zktest.NewServer()
	defer srv.Close()
	h := lockFor(t, srv, t.Name())
	before, failure := balance(t, db), errors.New("not today")
	for _, end := range []func() error{func() error { return failure }, func() error { panic(failure) }} {
		var err error
		func() {
			defer func() {
				if r := recover(); r != nil {
					err = r.(error)
				}
			}()
			err = fence.InTx(t.Context(), db, d, h, func(ctx context.Context, tx *sql.Tx) error {
				if err := set(ctx, tx, "77"); err != nil {
					t.Error(err)
				}
				return end()
			})
		}()
		if !errors.Is(err, failure) {
			t.Errorf("got %v; want the function's own error", err)
		}
	}
	if got := balance(t, db); got != before {
		t.Errorf("the balance is %d; want %d as before", got, before)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
	// A token whose transaction was rolled back was never seen.
	tx := begin(t, db)
	if err := errors.Join(fence.Check(t.Context(), tx, d, "/locks/"+t.Name(), 1), tx.Rollback()); err != nil {
		t.Error(err)
	}
}

func fenceLost(t *testing.T, db *sql.DB, d fence.Dialect) {
	srv := zktest.NewServer()
	defer srv.Close()
	h := lockFor(t, srv, t.Name())
	before := balance(t, db)
	err := fence.InTx(t.Context(), db, d, h, func(ctx context.Context, tx *sql.Tx) error {
		if err := set(ctx, tx, "99"); err != nil {
			t.Error(err)
		}
		srv.Expire(h.SessionID())
		<-ctx.Done()
		return nil // it does not check its context
	})
	if !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("got %v; want ErrLost", err)
	}
	called := false
	err = fence.InTx(t.Context(), db, d, h, func(context.Context, *sql.Tx) error { called = true; return nil })
	if !errors.Is(err, holdfast.ErrLost) || called {
		t.Errorf("after the loss: %v, called %v; want ErrLost, and no call", err, called)
	}
	if got := balance(t, db); got != before {
		t.Errorf("the balance is %d; want %d as before", got, before)
	}
}
