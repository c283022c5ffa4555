// Package gooseholdfast lets goose migrate a database under a lock in ZooKeeper. It is a module of its own, so
// programs without it do not get goose.
//
//	l := gooseholdfast.New(holdfast.NewMutex(c, "/db/migrate"), goose.DialectPostgres, slog.Default())
//	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithSessionLocker(l))
//
// The lock works with every database, and for several databases at once. In PostgreSQL, MySQL and MariaDB, the
// session that migrates also holds a lock of the database: see [New]. The package starts a goroutine at the end of
// each tenure. It reports a loss, if there was one, and ends.
package gooseholdfast

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pressly/goose/v3/database"

	"holdfast"
)

// A Locker is the lock.SessionLocker of goose. It is safe for concurrent use, and several Providers can share it.
type Locker struct {
	lock   holdfast.Locker
	own    *sessionLock // of the database; nil: there is none
	logger *slog.Logger
	turn   chan struct{} // has an element while a call of SessionLock or its tenure lasts

	mu   sync.Mutex
	hold *holdfast.Hold // nil while the lock is not held; guarded by mu
}

// New makes a Locker from a lock, usually a holdfast.Mutex. All programs that migrate one database need the same
// lock. The logger gets an error as soon as the lock is lost, and a warning when SessionLock waits for the
// database; nil logs nothing. New sends nothing.
//
// dialect is that of the Provider. The statement of a program that was killed goes on in PostgreSQL, MySQL and
// MariaDB, and can commit after the program's lock has ended. So with goose.DialectPostgres and goose.DialectMySQL,
// the session that migrates also holds a lock of the database: pg_advisory_lock with the number that goose's own
// lock.NewPostgresSessionLocker uses, or GET_LOCK. The database keeps that lock until the statement ends, and the next
// program waits for it. Other dialects have no such lock here. goose.DialectCustom leaves it out: for a pooler
// in transaction mode, such as PgBouncer, where a session has no locks, and for a Galera cluster. Then set
// client_connection_check_interval in PostgreSQL.
func New(l holdfast.Locker, dialect database.Dialect, logger *slog.Logger) *Locker {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Locker{lock: l, own: sessionLocks[dialect], logger: logger, turn: make(chan struct{}, 1)}
}

// SessionLock waits for the lock, and then for the lock of the database, until ctx ends. The error then wraps the cause
// of ctx. It is holdfast.ErrLost if the lock is lost during the wait for the database.
// If the Locker holds the lock itself, SessionLock waits for its SessionUnlock, even if the lock was lost meanwhile.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h, err := l.lock.Lock(ctx)
	if err != nil {
		<-l.turn
		return err
	}
	if l.own != nil {
		if err := l.own.wait(ctx, conn, h, l.logger); err != nil {
			h.Release()
			<-l.turn
			return err
		}
	}
	begun := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = h
	context.AfterFunc(h.Context(), func() { // it ends with the Hold
		if err := context.Cause(h.Context()); errors.Is(err, holdfast.ErrLost) {
			l.logger.Error(l.lossMessage(), "lock", h.Path(), "held", time.Since(begun), "error", err)
		}
	})
	return nil
}

func (l *Locker) lossMessage() string {
	if l.own != nil {
		return "the lock of a migration is lost; only the lock of the database keeps other programs out until the migration ends"
	}
	return "the lock of a migration is lost; another program can migrate at the same time, and the statement that runs cannot be stopped"
}

// SessionUnlock releases both locks, that of the database first. It works if ctx has ended. It waits for an answer of
// the database for ten seconds; then it closes the connection, which ends the lock. For ZooKeeper, it waits at most until the session ends.
//
// The error is holdfast.ErrLost if the lock was lost before. Then another program may have migrated at the same
// time, unless the lock of the database kept it out; goose has finished all the same. The error is holdfast.ErrNotHeld
// if the Locker does not hold the lock.
func (l *Locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	l.mu.Lock()
	h := l.hold
	l.hold = nil
	l.mu.Unlock()
	if h == nil {
		return holdfast.ErrNotHeld
	}
	var err error
	if l.own != nil {
		err = l.own.release(ctx, conn)
	}
	err = errors.Join(err, h.Unlock())
	<-l.turn
	return err
}
