// Package gooseholdfast lets goose migrate a database under a lock in ZooKeeper. It is a module of its own, so
// programs without it do not get goose.
//
//	l := gooseholdfast.New(holdfast.NewMutex(c, "/db/migrate"), slog.Default())
//	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(l))
//
// The lock works with every database, through connection poolers such as PgBouncer, and for several databases at
// once. The package starts a goroutine at the end of each tenure. It reports a loss, if there was one, and ends.
package gooseholdfast

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"holdfast"
)

// A Locker is the lock.Locker of goose. It is safe for concurrent use, and several Providers can share it.
type Locker struct {
	lock   holdfast.Locker
	logger *slog.Logger
	turn   chan struct{} // has an element while a call of Lock or its tenure lasts

	mu   sync.Mutex
	hold *holdfast.Hold // nil while the lock is not held; guarded by mu
}

// New makes a Locker from a lock, usually a holdfast.Mutex. All programs that migrate one database need the same
// lock. The logger gets an error as soon as the lock is lost; nil logs nothing. New sends nothing.
func New(l holdfast.Locker, logger *slog.Logger) *Locker {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Locker{lock: l, logger: logger, turn: make(chan struct{}, 1)}
}

// Lock waits for the lock until ctx ends; the error then wraps the cause of ctx. It does not use the database.
// If the Locker holds the lock itself, Lock waits for its Unlock, even if the lock was lost meanwhile.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
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
	begun := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = h
	context.AfterFunc(h.Context(), func() { // it ends with the Hold
		if err := context.Cause(h.Context()); errors.Is(err, holdfast.ErrLost) {
			l.logger.Error("the lock of a migration is lost; another program can migrate at the same time, and the statement that runs cannot be stopped",
				"lock", h.Path(), "held", time.Since(begun), "error", err)
		}
	})
	return nil
}

// Unlock releases the lock. It does not use the database, and works if ctx has ended. It waits at most until the
// session ends.
//
// The error is holdfast.ErrLost if the lock was lost before. Then another program may have migrated at the same
// time; goose has finished all the same. The error is holdfast.ErrNotHeld if the Locker does not hold the lock.
func (l *Locker) Unlock(context.Context, *sql.DB) error {
	l.mu.Lock()
	h := l.hold
	l.hold = nil
	l.mu.Unlock()
	if h == nil {
		return holdfast.ErrNotHeld
	}
	err := h.Unlock()
	<-l.turn
	return err
}
