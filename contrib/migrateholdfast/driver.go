// Package migrateholdfast lets golang-migrate migrate a database under a lock in ZooKeeper, and under the lock of the
// database's driver. It is a module of its own, so programs without it do not get golang-migrate.
//
//	d := migrateholdfast.New(driver, holdfast.NewMutex(c, "/db/migrate"), 0, slog.Default())
//	m, err := migrate.NewWithInstance("iofs", source, "app", d)
//
// The package starts a goroutine for each call of the driver's Lock, and one at the end of each tenure. The latter
// reports a loss, if there was one, and ends.
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

// A Driver is a database.Driver of golang-migrate that also takes another lock. It is safe for concurrent use if the
// driver that it wraps is.
type Driver struct {
	database.Driver // everything except Open, Close, Lock, Unlock, SetVersion and Drop

	lock   holdfast.Locker
	wait   time.Duration
	logger *slog.Logger
	calls  chan struct{} // has an element while a call of the wrapped driver's Lock lasts
	alone  bool          // the lock of the wrapped driver is left out

	mu      sync.Mutex
	hold    *holdfast.Hold // nil while the lock is not held; guarded by mu
	locking bool           // guarded by mu
}

// An Option configures a Driver.
type Option func(*Driver)

// WithoutDriverLock leaves out the lock of the wrapped driver. Use it where that lock does not work: through a pooler
// in transaction mode, such as PgBouncer, on a Galera cluster, and for drivers whose lock is a row that a program leaves
// behind when it is killed. Those are the drivers of CockroachDB and YugabyteDB, MongoDB's with its lock enabled, and
// pgx's with its lock in a table.
func WithoutDriverLock() Option { return func(d *Driver) { d.alone = true } }

// New makes a Driver that uses d and also takes the lock l, usually a holdfast.Mutex. All programs
// that migrate one database need the same lock. The logger gets an error as soon as the lock is lost; nil logs
// nothing. New sends nothing.
//
// The statement of a program that was killed goes on in the database, and can commit after the program's lock has
// ended. So Lock also takes the lock of d. That of PostgreSQL, MySQL and SQL Server belongs to the session that
// migrates, and the database keeps it until the statement ends.
//
// wait is how long Lock waits; zero is two thirds of migrate.DefaultLockTimeout. It must be shorter than the field LockTimeout of
// migrate.Migrate: when LockTimeout has passed, golang-migrate forgets a call of Lock that still waits, and
// never unlocks what that call acquires. So leave some seconds between the two.
func New(d database.Driver, l holdfast.Locker, wait time.Duration, logger *slog.Logger, opts ...Option) *Driver {
	if wait == 0 {
		wait = migrate.DefaultLockTimeout * 2 / 3
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	driver := &Driver{Driver: d, lock: l, wait: wait, logger: logger, calls: make(chan struct{}, 1)}
	for _, o := range opts {
		o(driver)
	}
	return driver
}

// Open fails with ErrOpen. It would return a driver without this lock.
func (d *Driver) Open(string) (database.Driver, error) { return nil, ErrOpen }

// Lock waits for the lock, and then for that of the wrapped driver, for at most the time that was given to New. The error
// is database.ErrLocked if somebody else holds one of them for so long, or no server can be reached, and at once if the Driver
// holds the lock itself. It is holdfast.ErrLost if the lock is lost during the wait for the database.
// Whatever error Lock returns, it does not acquire the lock later. A call of the wrapped driver's Lock that
// outlasts the wait is undone when it returns.
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
	if err == nil && !d.alone {
		if err = d.lockDriver(ctx, h); err != nil {
			h.Release()
		}
	}

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
			d.logger.Error(d.lossMessage(), "lock", h.Path(), "held", time.Since(begun), "error", err)
		}
	})
	return nil
}

func (d *Driver) lossMessage() string {
	if !d.alone {
		return "the lock of a migration is lost; only the lock of the database's driver keeps other programs out until the migration ends"
	}
	return "the lock of a migration is lost; another program can migrate at the same time, and the statement that runs cannot be stopped"
}

// lockDriver calls the wrapped driver's Lock, which has no context and may wait for ever. When ctx ends or h is lost,
// lockDriver returns all the same, and the call goes on in its goroutine.
func (d *Driver) lockDriver(ctx context.Context, h *holdfast.Hold) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })()
	fail := func(err error) error { return fmt.Errorf("migrateholdfast: lock of the database's driver: %w", err) }
	const session = "another session holds it, for example one that still runs the statement of a killed program"
	select {
	case d.calls <- struct{}{}:
	case <-ctx.Done(): // an earlier call still waits
		return fail(fmt.Errorf("%w: "+session, context.Cause(ctx)))
	}
	result := make(chan error, 1)
	go func() { result <- d.Driver.Lock() }()
	select {
	case err := <-result:
		<-d.calls
		if err != nil {
			return fail(err)
		}
		return nil
	case <-ctx.Done():
		go func() {
			if <-result == nil {
				if err := d.Driver.Unlock(); err != nil {
					d.logger.Error("the lock of a database's driver is not released", "error", err)
				}
			}
			<-d.calls
		}()
		return fail(fmt.Errorf("%w: "+session, context.Cause(ctx)))
	}
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

// Unlock releases the lock of the wrapped driver, and then the other one. For ZooKeeper, it waits at most until the session ends.
//
// The error is holdfast.ErrLost if the lock was lost before. Then another program may have migrated at the same
// time, unless the lock of the wrapped driver kept it out. The error is database.ErrNotLocked if the Driver does not hold the lock.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	h := d.hold
	d.hold = nil
	d.mu.Unlock()
	if h == nil {
		return database.ErrNotLocked
	}
	return errors.Join(d.unlockDriver(), h.Unlock())
}

func (d *Driver) unlockDriver() error {
	if d.alone {
		return nil
	}
	return d.Driver.Unlock()
}

// errCloseLater means that Close could not close the wrapped driver yet.
var errCloseLater = errors.New("migrateholdfast: the driver still waits for the lock of the database; it is closed when that wait ends")

// Close closes the wrapped driver, and then releases the lock if it is held. In this order, nothing that the
// driver still does to the database is without the lock. If a call of the wrapped driver's Lock still waits, Close
// does not wait for it: the driver is closed after that call.
func (d *Driver) Close() error {
	d.mu.Lock()
	h := d.hold
	d.hold = nil
	d.mu.Unlock()
	var err error
	if h != nil {
		err = d.unlockDriver() // a connection of a pool can outlive Close
	}
	select {
	case d.calls <- struct{}{}:
		err = errors.Join(err, d.Driver.Close())
		<-d.calls
	default:
		go func() {
			d.calls <- struct{}{}
			if err := d.Driver.Close(); err != nil {
				d.logger.Error("the driver of a database is not closed", "error", err)
			}
			<-d.calls
		}()
		err = errors.Join(err, errCloseLater)
	}
	if h != nil {
		err = errors.Join(err, h.Unlock())
	}
	return err
}
