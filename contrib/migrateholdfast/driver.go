// Package migrateholdfast lets golang-migrate migrate a database under a lock in ZooKeeper, in place of the lock of
// the database's driver. It is a module of its own, so programs without it do not get golang-migrate.
//
//	d := migrateholdfast.New(driver, holdfast.NewMutex(c, "/db/migrate"), 0, slog.Default())
//	m, err := migrate.NewWithInstance("iofs", source, "app", d)
//
// The package starts a goroutine at the end of each tenure. It reports a loss, if there was one, and ends.
package migrateholdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"

	"holdfast"
)

// ErrOpen means that Open was called. A URL cannot describe a lock: make the Driver with New.
var ErrOpen = errors.New("make the driver with migrateholdfast.New")

// A Driver is a database.Driver of golang-migrate that has another lock. It is safe for concurrent use if the
// driver that it wraps is.
type Driver struct {
	database.Driver // everything except Open, Close, Lock, Unlock, SetVersion and Drop

	lock   holdfast.Locker
	wait   time.Duration
	logger *slog.Logger

	mu      sync.Mutex
	hold    *holdfast.Hold // nil while the lock is not held; guarded by mu
	locking bool           // guarded by mu
}

// New makes a Driver that uses d for everything but its lock, which is l, usually a holdfast.Mutex. All programs
// that migrate one database need the same lock. The logger gets an error as soon as the lock is lost; nil logs
// nothing. New sends nothing.
//
// wait is how long Lock waits; zero is two thirds of migrate.DefaultLockTimeout. It must be shorter than the field LockTimeout of
// migrate.Migrate: when LockTimeout has passed, golang-migrate forgets a call of Lock that still waits, and
// never unlocks what that call acquires. So leave some seconds between the two.
func New(d database.Driver, l holdfast.Locker, wait time.Duration, logger *slog.Logger) *Driver {
	if wait == 0 {
		wait = migrate.DefaultLockTimeout * 2 / 3
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Driver{Driver: d, lock: l, wait: wait, logger: logger}
}

// Open fails with ErrOpen. It would return a driver without this lock.
func (d *Driver) Open(string) (database.Driver, error) { return nil, ErrOpen }

// Lock waits for the lock, for at most the time that was given to New. The error is database.ErrLocked if somebody
// else holds the lock for so long, or no server can be reached, and at once if the Driver holds the lock itself.
// Whatever error Lock returns, it does not acquire the lock later.
func (d *Driver) Lock() error {
	d.mu.Lock()
	if d.hold != nil || d.locking {
		d.mu.Unlock()
		return database.ErrLocked
	}
	d.locking = true
	d.mu.Unlock()

	ctx, cancel := context.WithTimeoutCause(context.Background(), d.wait, fmt.Errorf("%w within %v", database.ErrLocked, d.wait))
	defer cancel()
	h, err := d.lock.Lock(ctx)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.locking = false
	if err != nil {
		return err
	}
	begun := time.Now()
	d.hold = h
	context.AfterFunc(h.Context(), func() { // it ends with the Hold
		if err := context.Cause(h.Context()); errors.Is(err, holdfast.ErrLost) {
			d.logger.Error("the lock of a migration is lost; another program can migrate at the same time, and the statement that runs cannot be stopped",
				"lock", h.Path(), "held", time.Since(begun), "error", err)
		}
	})
	return nil
}

// SetVersion records the version, and whether a migration has begun (dirty) or ended. If the lock is lost, a
// migration does not begin: SetVersion changes nothing, and the error is holdfast.ErrLost. The end of a migration
// that ran while the lock was lost is recorded.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if dirty {
		if err := d.lost(); err != nil {
			return fmt.Errorf("begin the migration to version %d: %w", version, err)
		}
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop deletes everything in the database, unless the lock is lost. Then the error is holdfast.ErrLost.
func (d *Driver) Drop() error {
	if err := d.lost(); err != nil {
		return fmt.Errorf("drop: %w", err)
	}
	return d.Driver.Drop()
}

// lost returns why the lock is lost. It is nil while the lock is held, and for calls that take no lock.
func (d *Driver) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hold == nil {
		return nil
	}
	return d.hold.Err()
}

// Unlock releases the lock. It waits at most until the session ends.
//
// The error is holdfast.ErrLost if the lock was lost before. Then another program may have migrated at the same
// time. The error is database.ErrNotLocked if the Driver does not hold the lock.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	h := d.hold
	d.hold = nil
	d.mu.Unlock()
	if h == nil {
		return database.ErrNotLocked
	}
	return h.Unlock()
}

// Close closes the wrapped driver, and then releases the lock if it is held. In this order, nothing that the
// driver still does to the database is without the lock.
func (d *Driver) Close() error {
	closed := d.Driver.Close()
	err := d.Unlock()
	if errors.Is(err, database.ErrNotLocked) {
		err = nil
	}
	return errors.Join(closed, err)
}
