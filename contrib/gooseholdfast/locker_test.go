package gooseholdfast_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"

	"holdfast"
	"holdfast/contrib/gooseholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

var _ lock.SessionLocker = (*gooseholdfast.Locker)(nil)

// lines is a buffer that a test can read while others write. written gets an element with every line.
type lines struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	written chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newLog() (*lines, *slog.Logger) {
	l := &lines{written: make(chan struct{}, 1)}
	return l, slog.New(slog.NewTextHandler(l, nil))
}

func mutex(c *zk.Client) *holdfast.Mutex { return holdfast.NewMutex(c, "/db/migrate") }

func newLocker(m *holdfast.Mutex, logger *slog.Logger) *gooseholdfast.Locker {
	return gooseholdfast.New(m, goose.DialectSQLite3, logger)
}

// withoutConn makes a lock.Locker of a Locker for a database that has no lock.
type withoutConn struct{ *gooseholdfast.Locker }

func (l withoutConn) Lock(ctx context.Context, _ *sql.DB) error   { return l.SessionLock(ctx, nil) }
func (l withoutConn) Unlock(ctx context.Context, _ *sql.DB) error { return l.SessionUnlock(ctx, nil) }

// sessionID returns the id of the client's present session.
func sessionID(t *testing.T, c *zk.Client) int64 {
	t.Helper()
	s, err := c.Session(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

func TestGooseConcurrentLocking(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	locktesting.TestConcurrentLocking(t, nil, func(*testing.T) lock.Locker {
		return withoutConn{newLocker(mutex(srv.Client()), nil)}
	}, 500*time.Millisecond)
}

// Five providers migrate one database at once: goose's own test of a locker.
func TestGooseProviderLocking(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "app.db")
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		return newProvider(t, file, newLocker(mutex(srv.Client()), nil))
	})
}

// Several providers of one program can share a Locker.
func TestProvidersShareALocker(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	file, l := filepath.Join(t.TempDir(), "app.db"), newLocker(mutex(srv.Client()), nil)
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider { return newProvider(t, file, l) })
}

func newProvider(t *testing.T, file string, l lock.SessionLocker, more ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	db, err := sql.Open("sqlite3", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, append(more, goose.WithSessionLocker(l))...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// during makes fault happen in the middle of a migration, and returns what Up returns.
func during(t *testing.T, l lock.SessionLocker, fault func()) error {
	t.Helper()
	p := newProvider(t, filepath.Join(t.TempDir(), "app.db"), l, goose.WithGoMigrations(
		goose.NewGoMigration(3, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error { fault(); return nil }}, nil)))
	done, err := p.Up(context.Background())
	if len(done) != 3 && err == nil {
		t.Errorf("%d migrations were done, want 3", len(done))
	}
	return err
}

func TestAMigrationOutlastsItsConnections(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	faults := map[string]func(){"closed": srv.CloseClientConnections, "restarted": srv.Restart}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			log, logger := newLog()
			if err := during(t, newLocker(mutex(srv.Client()), logger), fault); err != nil || log.String() != "" {
				t.Errorf("Up: %v, log: %s", err, log)
			}
		})
	}
}

// The log has the loss while the migration still runs, Up reports it at the end, and the Locker works again.
func TestALossInAMigrationIsReported(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	log, logger := newLog()
	l := newLocker(mutex(c), logger)
	err := during(t, l, func() {
		srv.Expire(sessionID(t, c))
		select {
		case <-log.written:
		case <-time.After(20 * time.Second):
			t.Error("the loss is not logged while the migration runs")
		}
	})
	if !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Up: %v, want ErrLost", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "/db/migrate") {
		t.Errorf("log:\n%s", got)
	}
	if err := during(t, l, func() {}); err != nil {
		t.Errorf("Up after the loss: %v", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 {
		t.Errorf("log after a good run:\n%s", got)
	}
}

func TestAWaitOutlastsItsSession(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, c := context.Background(), srv.Client()
	h, err := mutex(srv.Client()).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l, locked := newLocker(mutex(c), nil), make(chan error, 1)
	go func() { locked <- l.SessionLock(ctx, nil) }()
	waiting(t, srv, 2)
	srv.Expire(sessionID(t, c))
	srv.CloseClientConnections()
	select {
	case err := <-locked:
		t.Fatalf("Lock returned beside the holder: %v", err)
	default:
	}
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	if err := l.SessionUnlock(ctx, nil); err != nil {
		t.Error(err)
	}
}

// waiting returns when the queue has n places.
func waiting(t *testing.T, srv *zktest.Server, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if names, _, err := srv.Client().Children(context.Background(), "/db/migrate"); err == nil && len(names) >= n {
			return
		}
	}
	t.Fatalf("the queue never had %d places", n)
}

// Unlock works with a context that has ended, and a Lock that has given up holds nothing.
func TestContextsThatHaveEnded(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ended, cancel := context.WithCancelCause(context.Background())
	why := errors.New("the deployment is over")
	cancel(why)
	a, b := newLocker(mutex(srv.Client()), nil), newLocker(mutex(srv.Client()), nil)
	if err := a.SessionLock(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*gooseholdfast.Locker{a, b} {
		if err := l.SessionLock(ended, nil); !errors.Is(err, why) {
			t.Errorf("Lock: %v", err)
		}
	}
	if err := b.SessionUnlock(context.Background(), nil); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("Unlock of a lock that is not held: %v", err)
	}
	waits, stop := context.WithCancelCause(context.Background())
	waited := make(chan error, 1)
	go func() { waited <- b.SessionLock(waits, nil) }()
	waiting(t, srv, 2)
	stop(why)
	if err := <-waited; !errors.Is(err, why) {
		t.Errorf("Lock that waits: %v", err)
	}
	if err := a.SessionUnlock(ended, nil); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := a.SessionUnlock(ended, nil); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("second Unlock: %v", err)
	}
	again, cancelAgain := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancelAgain()
	if err := b.SessionLock(again, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.SessionUnlock(context.Background(), nil); err != nil {
		t.Error(err)
	}
}

// After a loss, the next Lock of the same Locker waits for the Unlock of the first. Otherwise that Unlock would
// release the lock of the second.
func TestAfterALossTheNextTenureWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, c := context.Background(), srv.Client()
		l := newLocker(mutex(c), nil)
		if err := l.SessionLock(ctx, nil); err != nil {
			t.Fatal(err)
		}
		srv.Expire(sessionID(t, c))
		second := make(chan error, 1)
		go func() { second <- l.SessionLock(ctx, nil) }()
		time.Sleep(time.Minute)
		select {
		case err := <-second:
			t.Fatalf("the second Lock returned before the first Unlock: %v", err)
		default:
		}
		if err := l.SessionUnlock(ctx, nil); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		if err := l.SessionUnlock(ctx, nil); err != nil {
			t.Error(err)
		}
	})
}

// Without an answer from the server, Unlock returns when the session ends.
func TestUnlockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, c := context.Background(), srv.Client()
		log, logger := newLog()
		l := newLocker(mutex(c), logger)
		if err := l.SessionLock(ctx, nil); err != nil {
			t.Fatal(err)
		}
		defer srv.Stall()()
		begun := time.Now()
		l.SessionUnlock(ctx, nil)
		if took := time.Since(begun); took > zk.DefaultSessionTimeout {
			t.Errorf("Unlock took %v", took)
		}
		synctest.Wait()
		if log.String() != "" {
			t.Errorf("an Unlock is no loss, but the log has:\n%s", log)
		}
	})
}
