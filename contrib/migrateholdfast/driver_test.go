package migrateholdfast_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	databasetesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"holdfast"
	"holdfast/contrib/migrateholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// A db is a database in memory that several drivers share. run, if it is not nil, is called in each migration.
type db struct {
	mu   sync.Mutex
	stub database.Driver
	run  func()
	ran  []string
	lock chan struct{} // has an element while the lock of the database is held
}

func newDB() *db {
	d, _ := stub.WithInstance(nil, &stub.Config{})
	return &db{stub: d, lock: make(chan struct{}, 1)}
}

// A conn is a connection to a db: a driver whose lock waits for ever, as that for PostgreSQL.
type conn struct{ *db }

func (conn) Open(string) (database.Driver, error) { return nil, errors.New("not for URLs") }
func (conn) Close() error                         { return nil }
func (c conn) Lock() error                        { c.lock <- struct{}{}; return nil }
func (c conn) Unlock() error {
	select {
	case <-c.lock:
		return nil
	default:
		return database.ErrNotLocked
	}
}

func (c conn) Run(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if c.run != nil {
		c.run()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = append(c.ran, string(text))
	return nil
}

func (c conn) SetVersion(version int, dirty bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stub.SetVersion(version, dirty)
}

func (c conn) Version() (int, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stub.Version()
}

func (c conn) Drop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stub.Drop()
}

func mutex(c *zk.Client) *holdfast.Mutex { return holdfast.NewMutex(c, "/db/migrate") }

func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(migrations, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "app", d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func expire(t *testing.T, srv *zktest.Server, c *zk.Client) {
	t.Helper()
	s, err := c.Session(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	srv.Expire(s.ID())
}

func TestMigratesOwnTestsOfADriver(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	databasetesting.Test(t, migrateholdfast.New(conn{newDB()}, mutex(srv.Client()), 0, nil), []byte("SELECT 1"))
}

// The same, with a second program that holds the lock for a while, and a server whose connections break.
func TestMigratesOwnTestsOfADriverBesideFaults(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	h, err := mutex(srv.Client()).Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		srv.CloseClientConnections()
		srv.Restart()
		h.Unlock()
	}()
	databasetesting.Test(t, migrateholdfast.New(conn{newDB()}, mutex(srv.Client()), 0, nil), []byte("SELECT 1"))
}

// Eight programs migrate one database at once: each migration runs once.
func TestProgramsMigrateAtOnce(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	shared := newDB()
	inside := make(chan struct{}, 1)
	shared.run = func() {
		select {
		case inside <- struct{}{}:
			<-inside
		default:
			t.Error("two migrations run at once")
		}
		srv.CloseClientConnections()
	}
	var group sync.WaitGroup
	for range 8 {
		c := srv.Client()
		group.Go(func() {
			if err := newMigrate(t, migrateholdfast.New(conn{shared}, mutex(c), 0, nil)).Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(shared.ran) != 2 {
		t.Errorf("these migrations ran: %q", shared.ran)
	}
}

// golang-migrate forgets a Lock that takes longer than LockTimeout. The Driver gives up before that. A wrapper
// with a plain Lock acquires the lock later, and holds it for good.
func TestALockThatMigrateForgotIsNotAcquiredLater(t *testing.T) {
	for _, fault := range []string{"held", "stalled", "stalled and held"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				var h *holdfast.Hold
				resume := func() {}
				d := migrateholdfast.New(conn{newDB()}, mutex(srv.Client()), 0, nil)
				if strings.Contains(fault, "held") {
					var err error
					if h, err = mutex(srv.Client()).Lock(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
				if strings.Contains(fault, "stalled") {
					resume = srv.Stall()
				}
				begun := time.Now()
				err := newMigrate(t, d).Up()
				if !errors.Is(err, database.ErrLocked) || errors.Is(err, migrate.ErrLockTimeout) {
					t.Errorf("Up: %v, want ErrLocked", err)
				}
				if took := time.Since(begun); took < migrate.DefaultLockTimeout/2 || took >= migrate.DefaultLockTimeout {
					t.Errorf("Up gave up after %v", took)
				}
				time.Sleep(10 * time.Second) // golang-migrate's timeout has passed
				resume()
				if h != nil {
					h.Unlock()
				}
				time.Sleep(time.Minute)
				next, err := mutex(srv.Client()).TryLock(context.Background())
				if err != nil {
					t.Fatalf("somebody holds the lock that golang-migrate forgot: %v", err)
				}
				if err := next.Unlock(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lock that is lost in a migration is logged at once, the next migration does not begin, and the database is
// not left dirty.
func TestALossInAMigrationStopsTheNext(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c, shared := srv.Client(), newDB()
	pipe, write := io.Pipe()
	defer write.Close()
	logged := make(chan string, 10)
	go func() {
		defer close(logged)
		for b := make([]byte, 4096); ; {
			n, err := pipe.Read(b)
			if err != nil {
				return
			}
			logged <- string(b[:n])
		}
	}()
	shared.run = func() {
		expire(t, srv, c)
		select {
		case line := <-logged:
			if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "/db/migrate") {
				t.Errorf("log: %s", line)
			}
		case <-time.After(20 * time.Second):
			t.Error("the loss is not logged while the migration runs")
		}
	}
	d := migrateholdfast.New(conn{shared}, mutex(c), 0, slog.New(slog.NewTextHandler(write, nil)))
	if err := newMigrate(t, d).Up(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Up: %v, want ErrLost", err)
	}
	version, dirty, _ := conn{shared}.Version()
	if len(shared.ran) != 1 || version != 1 || dirty {
		t.Errorf("%q ran, version %d, dirty %v", shared.ran, version, dirty)
	}
	shared.run = nil
	if err := newMigrate(t, d).Up(); err != nil {
		t.Errorf("Up after the loss: %v", err)
	}
	if len(shared.ran) != 2 {
		t.Errorf("these migrations ran: %q", shared.ran)
	}
}

func TestWithoutTheLockNothingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c := srv.Client()
		d := migrateholdfast.New(conn{newDB()}, mutex(c), 0, nil)
		if err := d.SetVersion(7, false); err != nil {
			t.Fatal(err)
		}
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		expire(t, srv, c)
		synctest.Wait()
		if err := d.Drop(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Drop: %v, want ErrLost", err)
		}
		if version, _, _ := d.Version(); version != 7 {
			t.Errorf("version %d, want 7", version)
		}
		if err := d.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		if err := d.Unlock(); !errors.Is(err, database.ErrNotLocked) {
			t.Errorf("second Unlock: %v, want ErrNotLocked", err)
		}
	})
}

// A second Lock of one driver would wait for itself.
func TestASecondLockFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		d := migrateholdfast.New(conn{newDB()}, mutex(srv.Client()), 0, nil)
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("second Lock: %v, want ErrLocked", err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the second Lock took %v", took)
		}
		if err := d.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseReleasesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		var log bytes.Buffer
		d := migrateholdfast.New(conn{newDB()}, mutex(srv.Client()), 0, slog.New(slog.NewTextHandler(&log, nil)))
		if err := d.Close(); err != nil {
			t.Errorf("Close without the lock: %v", err)
		}
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		h, err := mutex(srv.Client()).TryLock(context.Background())
		if err != nil {
			t.Fatalf("Close kept the lock: %v", err)
		}
		h.Unlock()
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("a release is no loss, but the log has:\n%s", log.String())
		}
		if _, err := d.Open("stub://"); !errors.Is(err, migrateholdfast.ErrOpen) {
			t.Errorf("Open: %v", err)
		}
	})
}

// A closing is a conn whose Close calls f.
type closing struct {
	conn
	f func() error
}

func (c closing) Close() error { return c.f() }

// The driver is closed under the lock, and the lock is released even if Close fails.
func TestTheDriverIsClosedUnderTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		other := mutex(srv.Client())
		errClose := errors.New("the connection is gone")
		d := migrateholdfast.New(closing{conn{newDB()}, func() error {
			if _, err := other.TryLock(context.Background()); !errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("while the driver is closed, another program gets %v; want ErrLocked", err)
			}
			return errClose
		}}, mutex(srv.Client()), 0, nil)
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); !errors.Is(err, errClose) {
			t.Errorf("Close: %v", err)
		}
		if _, err := other.TryLock(context.Background()); err != nil {
			t.Errorf("Close kept the lock: %v", err)
		}
	})
}

// The lock of the wrapped driver is held while that of the Driver is, and nobody else's wait for it is forgotten.
func TestTheLockOfTheWrappedDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		shared := newDB()
		d := migrateholdfast.New(conn{shared}, mutex(srv.Client()), 0, nil)
		shared.run = func() {
			if len(shared.lock) == 0 {
				t.Error("a migration runs without the lock of the database")
			}
		}
		if err := newMigrate(t, d).Up(); err != nil {
			t.Fatal(err)
		}
		if len(shared.lock) > 0 {
			t.Fatal("the lock of the database stays held")
		}

		shared.lock <- struct{}{} // the session of a killed program
		for range 2 {
			begun := time.Now()
			if err := d.Lock(); !errors.Is(err, database.ErrLocked) || !strings.Contains(err.Error(), "killed program") {
				t.Errorf("Lock beside another session: %v, want ErrLocked and a reason", err)
			}
			if took := time.Since(begun); took >= migrate.DefaultLockTimeout {
				t.Errorf("Lock took %v", took)
			}
			synctest.Wait() // the release is in the background
			h, err := mutex(srv.Client()).TryLock(context.Background())
			if err != nil {
				t.Fatalf("a Lock that failed keeps the lock in ZooKeeper: %v", err)
			}
			h.Unlock()
		}
		<-shared.lock
		synctest.Wait()
		if len(shared.lock) > 0 {
			t.Error("a Lock that failed keeps the lock of the database")
		}
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := d.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// The loss of the lock ends a wait for the wrapped driver.
func TestALossEndsTheWaitForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c, shared := srv.Client(), newDB()
		shared.lock <- struct{}{}
		d, locked := migrateholdfast.New(conn{shared}, mutex(c), time.Hour, nil), make(chan error, 1)
		go func() { locked <- d.Lock() }()
		time.Sleep(time.Minute)
		expire(t, srv, c)
		synctest.Wait()
		select {
		case err := <-locked:
			if !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Lock: %v, want ErrLost", err)
			}
		default:
			t.Error("Lock still waits")
		}
		<-shared.lock
	})
}

// A driver whose Lock still waits is closed when it returns, and Close does not wait for it.
func TestCloseDoesNotWaitForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		shared, closed := newDB(), false
		shared.lock <- struct{}{}
		d := migrateholdfast.New(closing{conn{shared}, func() error { closed = true; return nil }}, mutex(srv.Client()), 0, nil)
		if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Fatalf("Lock: %v, want ErrLocked", err)
		}
		if err := d.Close(); err == nil || closed {
			t.Errorf("Close beside a call of Lock: %v, closed: %v", err, closed)
		}
		<-shared.lock
		synctest.Wait()
		if !closed || len(shared.lock) > 0 {
			t.Errorf("after the call of Lock, the driver is closed: %v, and the lock is held: %v", closed, len(shared.lock) > 0)
		}
	})
}

// A row is a driver whose lock is a row, which a program that was killed has left.
type row struct{ conn }

func (row) Lock() error { return database.ErrLocked }

func TestWithoutDriverLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		d := migrateholdfast.New(row{conn{newDB()}}, mutex(srv.Client()), 0, nil)
		if err := d.Lock(); !errors.Is(err, database.ErrLocked) || !strings.Contains(err.Error(), "database's driver") {
			t.Errorf("Lock: %v, want ErrLocked and whose lock it is", err)
		}
		d = migrateholdfast.New(row{conn{newDB()}}, mutex(srv.Client()), 0, nil, migrateholdfast.WithoutDriverLock())
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := d.Unlock(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A program that is killed in a migration leaves the database marked as dirty, and the README says so.
func TestAKilledMigrationLeavesTheDatabaseDirty(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c, shared, killed, over := srv.Client(), newDB(), make(chan struct{}), make(chan struct{})
	defer close(over)
	shared.run = func() { close(killed); <-over }
	go newMigrate(t, migrateholdfast.New(conn{shared}, mutex(c), 0, nil)).Up()
	<-killed
	expire(t, srv, c)
	<-shared.lock // the database ends the session
	shared.run = nil
	next := newMigrate(t, migrateholdfast.New(conn{shared}, mutex(srv.Client()), 0, nil))
	err := next.Up()
	if !errors.As(err, new(migrate.ErrDirty)) {
		t.Fatalf("Up: %v, want ErrDirty", err)
	}
	readme, readErr := os.ReadFile("README.md")
	if text := strings.ReplaceAll(err.Error(), "1", "N"); readErr != nil || !strings.Contains(string(readme), text) {
		t.Errorf("the README does not have the error that everybody gets: %s (%v)", text, readErr)
	}
	if err := next.Force(database.NilVersion); err != nil {
		t.Fatal(err)
	}
	if err := next.Up(); err != nil {
		t.Error(err)
	}
}
