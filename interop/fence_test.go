//go:build unix

package interop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"

	"holdfast"
	"holdfast/fence"
	"holdfast/interop/peers"
	"holdfast/zktest"
)

// A database is one for which package fence has a dialect.
type database struct {
	name    string
	dialect fence.Dialect
	open    func(*testing.T) *sql.DB
	waiting string               // counts the transactions that wait for a row; "": the database locks as a whole
	levels  []sql.IsolationLevel // at which a younger holder's transaction goes on after it has waited
}

var databases = []database{
	{
		name: "PostgreSQL", dialect: fence.PostgreSQL,
		waiting: `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`,
		levels:  []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted},
		open: func(t *testing.T) *sql.DB {
			ctx, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			p, err := peers.StartPostgreSQL(ctx)
			closing(t, p, err)
			return openDatabase(t, "postgres", p.URL(), fence.PostgreSQL)
		},
	},
	{
		name: "SQLite", dialect: fence.SQLite,
		levels: []sql.IsolationLevel{sql.LevelDefault},
		open: func(t *testing.T) *sql.DB {
			return openDatabase(t, "sqlite3", "file:"+filepath.Join(t.TempDir(), "db")+"?_busy_timeout=10000&_journal_mode=wal&_txlock=deferred", fence.SQLite)
		},
	},
	{
		name: "MariaDB", dialect: fence.MySQL,
		waiting: `SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'`,
		levels:  []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		open:    func(t *testing.T) *sql.DB { return openMariaDB(t, "") },
	},
	{ // as many programs set it up; then an update that changes nothing is a changed row
		name: "MariaDB that counts rows found", dialect: fence.MySQL,
		waiting: `SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'`,
		levels:  []sql.IsolationLevel{sql.LevelDefault},
		open:    func(t *testing.T) *sql.DB { return openMariaDB(t, "?clientFoundRows=true&interpolateParams=true") },
	},
}

func openMariaDB(t *testing.T, params string) *sql.DB {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	m, err := peers.StartMariaDB(ctx)
	closing(t, m, err)
	return openDatabase(t, "mysql", m.URL()+params, fence.MySQL)
}

func openDatabase(t *testing.T, driver, dsn string, d fence.Dialect) *sql.DB {
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
	for range 2 { // the second call finds the table
		if err := fence.CreateTable(t.Context(), db, d); err != nil {
			t.Fatal(err)
		}
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
			t.Run("every name is a resource of its own", func(t *testing.T) { fenceNames(t, db, d.dialect) })
			t.Run("a paused holder that wakes up changes nothing", func(t *testing.T) { fencePaused(t, db, d.dialect) })
			for _, level := range d.levels {
				t.Run("a younger holder waits for an older one's transaction, "+level.String(), func(t *testing.T) { fenceOverlap(t, db, d, level) })
				if d.waiting != "" {
					t.Run("a token that came between two checks, "+level.String(), func(t *testing.T) { fenceBetween(t, db, d.dialect, level) })
				}
			}
			t.Run("many at once", func(t *testing.T) { fenceCrowd(t, db, d.dialect) })
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

func fenceOverlap(t *testing.T, db *sql.DB, d database, level sql.IsolationLevel) {
	older := begin(t, db)
	if err := errors.Join(fence.Check(t.Context(), older, d.dialect, t.Name(), 1), set(t.Context(), older, "1")); err != nil {
		t.Fatal(err)
	}
	var read int64
	younger := make(chan error, 1)
	go func() {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		if err == nil {
			err = fence.Check(t.Context(), tx, d.dialect, t.Name(), 2)
		}
		if err == nil {
			err = tx.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&read)
		}
		if err == nil {
			err = set(t.Context(), tx, "balance * 10")
		}
		if err == nil {
			err = tx.Commit()
		}
		younger <- err
	}()
	for waiting := 0; d.waiting != "" && waiting == 0; {
		if err := db.QueryRowContext(t.Context(), d.waiting).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-younger:
			t.Fatalf("the younger holder did not wait: %v", err)
		default:
		}
	}
	if err := older.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-younger; err != nil {
		t.Fatal(err)
	}
	if got := balance(t, db); read != 1 || got != 10 {
		t.Errorf("the younger read %d and the balance is %d; want 1 and 10: the younger after the older", read, got)
	}
}

// The holder of two locks is paused between the checks of their tokens, and loses the second lock.
func fenceBetween(t *testing.T, db *sql.DB, d fence.Dialect, level sql.IsolationLevel) {
	a, b := t.Name()+" a", t.Name()+" b"
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := fence.Check(t.Context(), tx, d, a, 1); err != nil {
		t.Fatal(err)
	}
	other := begin(t, db)
	if err := errors.Join(fence.Check(t.Context(), other, d, b, 2), other.Commit()); err != nil {
		t.Fatal(err)
	}
	if err := fence.Check(t.Context(), tx, d, b, 1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("token 1 after 2: %v; want ErrStale", err)
	}
}

// Names that a collation may take for one, and a name of the largest length.
func fenceNames(t *testing.T, db *sql.DB, d fence.Dialect) {
	long := strings.Repeat("n", 766)
	names := []string{"", " ", "x", "X", "x ", " x", "é", "e", "E\u0301", "ß", "ss", "'\"`\\%", "名", long + "1", long + "2"}
	for i, name := range names { // the first has the largest token
		tx := begin(t, db)
		if err := errors.Join(fence.Check(t.Context(), tx, d, name, int64(100-i)), tx.Commit()); err != nil {
			t.Errorf("%.10q: %v", name, err)
		}
	}
}

// Many transactions with tokens in no order. None that commits sees the balance of a larger token.
func fenceCrowd(t *testing.T, db *sql.DB, d fence.Dialect) {
	const clients, each = 4, 25
	if _, err := db.ExecContext(t.Context(), `UPDATE account SET balance = 0`); err != nil {
		t.Fatal(err)
	}
	// Before the crowd: InnoDB can end some of several first inserts with a deadlock.
	first := begin(t, db)
	if err := errors.Join(fence.Check(t.Context(), first, d, t.Name(), 1), first.Commit()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range each {
				token := int64(1 + (i*clients+client)*7%(clients*each)) // each number once
				if err := fenceRaise(t, db, d, token); err != nil && !errors.Is(err, fence.ErrStale) {
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	if got := balance(t, db); got != clients*each {
		t.Errorf("the balance is %d; want the largest token %d", got, clients*each)
	}
}

// fenceRaise sets the balance to the token.
func fenceRaise(t *testing.T, db *sql.DB, d fence.Dialect, token int64) error {
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.Check(t.Context(), tx, d, t.Name(), token); err != nil {
		return err
	}
	var seen int64
	if err := tx.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&seen); err != nil {
		return err
	}
	if seen >= token {
		return fmt.Errorf("the balance is %d already", seen)
	}
	return errors.Join(set(t.Context(), tx, strconv.FormatInt(token, 10)), tx.Commit())
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
