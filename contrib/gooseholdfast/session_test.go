//go:build unix

package gooseholdfast_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"holdfast"
	"holdfast/contrib/gooseholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// The lock of the database is held beside that of ZooKeeper, and nothing is left of it.
func TestTheLockOfTheDatabase(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := open(t, d, d.start(t))
			conn := func(t *testing.T) *sql.Conn {
				c, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			// free fails unless a new session can have the lock of the database, with a lock in ZooKeeper of its own.
			free := func(t *testing.T) {
				t.Helper()
				srv := zktest.NewServer()
				defer srv.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				l, c := gooseholdfast.New(mutex(srv.Client()), d.dialect, nil), conn(t)
				if err := l.SessionLock(ctx, c); err != nil {
					t.Fatalf("the lock of the database is not free: %v", err)
				}
				if err := l.SessionUnlock(ctx, c); err != nil {
					t.Error(err)
				}
			}
			for name, f := range map[string]func(*testing.T, *zktest.Server, *zk.Client, *gooseholdfast.Locker, *lines){
				"a lock that is lost in ZooKeeper": func(t *testing.T, srv *zktest.Server, c *zk.Client, l *gooseholdfast.Locker, log *lines) {
					first := conn(t)
					if err := l.SessionLock(t.Context(), first); err != nil {
						t.Fatal(err)
					}
					srv.Expire(sessionID(t, c))
					nextLog, logger := newLog()
					next, locked := gooseholdfast.New(mutex(srv.Client()), d.dialect, logger), make(chan error, 1)
					second := conn(t)
					go func() { locked <- next.SessionLock(t.Context(), second) }()
					eventually(t, "the next program says whom it waits for", func() bool { return strings.Contains(nextLog.String(), "session=") })
					select {
					case err := <-locked:
						t.Fatalf("SessionLock returned beside the other session: %v", err)
					default:
					}
					if err := l.SessionUnlock(t.Context(), first); !errors.Is(err, holdfast.ErrLost) {
						t.Errorf("SessionUnlock: %v, want ErrLost", err)
					}
					if err := <-locked; err != nil {
						t.Fatal(err)
					}
					if err := next.SessionUnlock(t.Context(), second); err != nil {
						t.Error(err)
					}
				},
				"a wait for the database ends with its context": func(t *testing.T, srv *zktest.Server, c *zk.Client, l *gooseholdfast.Locker, log *lines) {
					defer holdDatabase(t, d, conn(t))()
					ctx, cancel := context.WithCancelCause(t.Context())
					why, locked := errors.New("the deployment is over"), make(chan error, 1)
					second := conn(t)
					go func() { locked <- l.SessionLock(ctx, second) }()
					eventually(t, "the wait is logged", func() bool { return strings.Contains(log.String(), "session=") })
					cancel(why)
					if err := <-locked; !errors.Is(err, why) {
						t.Errorf("SessionLock: %v", err)
					}
					if err := l.SessionUnlock(t.Context(), second); !errors.Is(err, holdfast.ErrNotHeld) {
						t.Errorf("SessionUnlock: %v, want ErrNotHeld", err)
					}
					h, err := mutex(srv.Client()).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					h.Unlock()
				},
				"a wait for the database ends with the loss of the lock": func(t *testing.T, srv *zktest.Server, c *zk.Client, l *gooseholdfast.Locker, log *lines) {
					defer holdDatabase(t, d, conn(t))()
					locked := make(chan error, 1)
					second := conn(t)
					go func() { locked <- l.SessionLock(t.Context(), second) }()
					eventually(t, "the wait is logged", func() bool { return strings.Contains(log.String(), "session=") })
					srv.Expire(sessionID(t, c))
					if err := <-locked; !errors.Is(err, holdfast.ErrLost) {
						t.Errorf("SessionLock: %v, want ErrLost", err)
					}
				},
				"a release that reaches another session": func(t *testing.T, srv *zktest.Server, c *zk.Client, l *gooseholdfast.Locker, log *lines) {
					first := conn(t)
					if err := l.SessionLock(t.Context(), first); err != nil {
						t.Fatal(err)
					}
					if err := l.SessionUnlock(t.Context(), conn(t)); err == nil || !strings.Contains(err.Error(), "pooler") {
						t.Errorf("SessionUnlock: %v", err)
					}
					if err := first.Raw(func(any) error { return driver.ErrBadConn }); err == nil { // ends the session
						t.Error("the session goes on")
					}
				},
				"a connection that breaks": func(t *testing.T, srv *zktest.Server, c *zk.Client, l *gooseholdfast.Locker, log *lines) {
					first := conn(t)
					if err := l.SessionLock(t.Context(), first); err != nil {
						t.Fatal(err)
					}
					first.Raw(func(any) error { return driver.ErrBadConn })
					if err := l.SessionUnlock(t.Context(), first); err != nil {
						t.Errorf("SessionUnlock: %v", err)
					}
				},
			} {
				t.Run(name, func(t *testing.T) {
					srv := zktest.NewServer()
					defer srv.Close()
					log, logger := newLog()
					c := srv.Client()
					f(t, srv, c, gooseholdfast.New(mutex(c), d.dialect, logger), log)
					free(t)
				})
			}
		})
	}
}

// holdDatabase acquires the lock of the database as a program without holdfast does.
func holdDatabase(t *testing.T, d database, conn *sql.Conn) (release func()) {
	t.Helper()
	if d.dialect != goose.DialectPostgres { // goose has such a lock for PostgreSQL only
		srv := zktest.NewServer()
		l := gooseholdfast.New(mutex(srv.Client()), d.dialect, nil)
		if err := l.SessionLock(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := l.SessionUnlock(t.Context(), conn); err != nil {
				t.Error(err)
			}
			srv.Close()
		}
	}
	l, err := lock.NewPostgresSessionLocker()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SessionLock(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := l.SessionUnlock(t.Context(), conn); err != nil {
			t.Error(err)
		}
	}
}
