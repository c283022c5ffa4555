package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast"
)

// Table is the table that keeps the largest token of each resource. Create it with
// [CreateTable], or in your own migrations:
//
//	CREATE TABLE holdfast_fence (resource TEXT PRIMARY KEY, token BIGINT NOT NULL)
//
// and for MySQL and MariaDB:
//
//	CREATE TABLE holdfast_fence (resource VARBINARY(767) PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB
const Table = "holdfast_fence"

// A Dialect is a database's dialect of SQL. Use one of the constants.
type Dialect int

const (
	// PostgreSQL is for PostgreSQL 9.5 and later, and compatible databases. Above the isolation
	// level read committed, a transaction that waited for another's token fails with a
	// serialization error, and must be retried as usual there.
	PostgreSQL Dialect = iota + 1
	// SQLite is for SQLite 3.24 and later. The statement of Check acquires the database's write
	// lock. While another connection writes, it fails with SQLITE_BUSY unless the connection
	// has a busy timeout.
	SQLite
	// MySQL is for MySQL and MariaDB, with tables of InnoDB, at any isolation level. A resource's
	// name has at most 767 bytes. A transaction can fail with a deadlock error, and must be
	// retried as usual there. All writers must use one server: in a Galera cluster, or a
	// replication group with several primaries, the server does not lock the row for clients of
	// the other servers.
	MySQL
)

// longestMySQL is the bound of InnoDB for a key's bytes, in every row format and page size. A
// server that is not in strict mode would cut a longer name off.
const longestMySQL = 767

// statements are the dialect's. The upsert locks the resource's row until the transaction ends. So
// a younger holder waits for it, and an older holder that comes later finds the younger one's token.
type statements struct {
	create string
	upsert string
	// reread reads the token after the upsert. It is for a dialect whose upsert always succeeds;
	// the others change no row if the token is stale.
	reread string
}

const createTable = `CREATE TABLE IF NOT EXISTS holdfast_fence (resource TEXT PRIMARY KEY, token BIGINT NOT NULL)`

var dialects = map[Dialect]statements{
	PostgreSQL: {
		create: createTable,
		upsert: `INSERT INTO holdfast_fence (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token WHERE holdfast_fence.token <= EXCLUDED.token`,
	},
	SQLite: {
		create: createTable,
		upsert: `INSERT INTO holdfast_fence (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE holdfast_fence.token <= excluded.token`,
	},
	// Bytes as the key: the usual collations take "a", "A" and "a " for one name. The number of changed
	// rows says nothing: an equal token changes none, nor does a stale one, and clientFoundRows counts
	// both. Without FOR UPDATE, the read would begin the transaction's snapshot, in which the next
	// Check could not see the tokens that it has waited for.
	MySQL: {
		create: `CREATE TABLE IF NOT EXISTS holdfast_fence (resource VARBINARY(767) PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB`,
		upsert: `INSERT INTO holdfast_fence (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`,
		reread: `SELECT token FROM holdfast_fence WHERE resource = ? FOR UPDATE`,
	},
}

// CreateTable creates the table of tokens if it does not exist.
func CreateTable(ctx context.Context, db *sql.DB, d Dialect) error {
	statement, ok := dialects[d]
	if !ok {
		return fmt.Errorf("fence: create table %s: %w", Table, d.unknown())
	}
	if _, err := db.ExecContext(ctx, statement.create); err != nil {
		return fmt.Errorf("fence: create table %s: %w", Table, err)
	}
	return nil
}

func (d Dialect) unknown() error {
	return fmt.Errorf("unknown dialect %d: want PostgreSQL, SQLite or MySQL", d)
}

// Check fails with ErrStale if the resource has seen a larger token than this one; then roll
// back. Otherwise it stores the token. It must be the first statement of the transaction that
// changes the resource. It blocks other transactions that check the resource until the database has ended this one, also if
// its client was killed. Data read before it may be out of date.
//
// The name of the resource is any text (see [MySQL] for its length); the lock's path is a good
// choice. Errors of the database come wrapped, also that of a missing table (see CreateTable).
func Check(ctx context.Context, tx *sql.Tx, d Dialect, resource string, token int64) error {
	statement, ok := dialects[d]
	switch {
	case !ok:
		return fmt.Errorf("fence: check %q: %w", resource, d.unknown())
	case token <= 0:
		return fmt.Errorf("fence: check %q: token %d: a Hold's token is above zero", resource, token)
	case d == MySQL && len(resource) > longestMySQL:
		return fmt.Errorf("fence: check %q: the name has %d bytes; in MySQL it can have %d", resource, len(resource), longestMySQL)
	}
	stale, err := statement.store(ctx, tx, resource, token)
	switch {
	case err != nil:
		return fmt.Errorf("fence: check %q: %w", resource, err)
	case stale:
		return fmt.Errorf("%w (%q, token %d)", ErrStale, resource, token)
	}
	return nil
}

// store stores the token, or reports that it is stale.
func (s *statements) store(ctx context.Context, tx *sql.Tx, resource string, token int64) (stale bool, err error) {
	result, err := tx.ExecContext(ctx, s.upsert, resource, token)
	if err != nil {
		return false, err
	}
	if s.reread != "" {
		var largest int64
		err := tx.QueryRowContext(ctx, s.reread, resource).Scan(&largest)
		return largest > token, err
	}
	rows, err := result.RowsAffected()
	return rows == 0, err
}

// Resource returns the name that InTx uses for the resource of a lock: the lock's path,
// followed by # and the layout for locks that can share a directory with others.
func Resource(t holdfast.LockToken) string {
	if strings.Contains(t.Layout, ":") {
		return t.Path + "#" + t.Layout
	}
	return t.Path
}

// InTx runs f in a transaction that is fenced with h's token, for the resource that Resource
// names. For a MultiLock, it checks the token of every lock. For a path of a Tree, use Check
// instead (see [holdfast.Tree]). InTx commits if f returns nil. It rolls back if f fails, or if
// ctx ends or the lock is lost before the commit. f should use the context that it gets, which
// ends with ctx and with the lock.
//
// The error is ErrStale (then f was not called), f's own, or the database's. If the Hold has ended
// before, the error is holdfast.ErrLost or holdfast.ErrNotHeld. As with every commit, if the commit
// itself fails, it may have happened or not.
func InTx(ctx context.Context, db *sql.DB, d Dialect, h *holdfast.Hold, f func(context.Context, *sql.Tx) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })
	defer stop()
	if err := context.Cause(h.Context()); err != nil {
		return fmt.Errorf("fence: transaction for %s: %w", h.Path(), err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence: transaction for %s: %w", h.Path(), err)
	}
	// After a commit the rollback does nothing. It also runs if f panics.
	defer func() {
		if rollback := tx.Rollback(); err != nil && rollback != nil && !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("fence: roll back: %w", rollback))
		}
	}()
	tokens := h.Tokens()
	// All transactions use one order, so that no two wait for each other.
	slices.SortFunc(tokens, func(a, b holdfast.LockToken) int { return strings.Compare(Resource(a), Resource(b)) })
	for _, t := range tokens {
		if err := Check(ctx, tx, d, Resource(t), t.Token); err != nil {
			return err
		}
	}
	if err := f(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if ctx.Err() != nil { // sql says only that it was canceled
			err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		return fmt.Errorf("fence: commit for %s: %w", h.Path(), err)
	}
	return nil
}
