package atlasholdfast_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ariga.io/atlas/sql/schema"

	"holdfast"
	"holdfast/contrib/atlasholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

var _ schema.Locker = (*atlasholdfast.Locker)(nil)

func expire(t *testing.T, srv *zktest.Server, c *zk.Client) {
	t.Helper()
	s, err := c.Session(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	srv.Expire(s.ID())
}

// What Lock does beside a holder, by timeout, and with faults meanwhile.
func TestTimeouts(t *testing.T) {
	for _, fault := range []string{"none", "connections break", "session expires", "server restarts"} {
		for _, tc := range []struct {
			timeout, held time.Duration // held: how long the other holds the lock
			want          error
			took          time.Duration
		}{
			{0, time.Minute, schema.ErrLocked, 0},
			{10 * time.Second, time.Minute, schema.ErrLocked, 10 * time.Second},
			{30 * time.Minute, time.Minute, nil, time.Minute},
			{-1, time.Hour, nil, time.Hour},
		} {
			t.Run(fault+" "+tc.timeout.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.NewServer()
					defer srv.Close()
					ctx, c := context.Background(), srv.Client()
					other, err := atlasholdfast.New(srv.Client(), "/db/atlas").Lock(ctx, "shop", 0)
					if err != nil {
						t.Fatal(err)
					}
					go func() {
						time.Sleep(tc.held)
						if err := other(); err != nil {
							t.Error(err)
						}
					}()
					if tc.timeout != 0 {
						go func() {
							time.Sleep(time.Second)
							switch fault {
							case "connections break":
								srv.CloseClientConnections()
							case "session expires":
								expire(t, srv, c)
							case "server restarts":
								srv.Restart()
							}
						}()
					}
					begun := time.Now()
					unlock, err := atlasholdfast.New(c, "/db/atlas").Lock(ctx, "shop", tc.timeout)
					took := time.Since(begun)
					if !errors.Is(err, tc.want) || (err == nil) != (unlock != nil) || (err == nil) != (tc.want == nil) {
						t.Errorf("Lock: %v, want %v", err, tc.want)
					}
					if took < tc.took || took > tc.took+2*time.Second {
						t.Errorf("Lock took %v, want %v", took, tc.took)
					}
					if unlock != nil {
						if err := unlock(); err != nil {
							t.Errorf("unlock: %v", err)
						}
					}
					time.Sleep(2 * time.Hour) // the other has unlocked
					again, err := atlasholdfast.New(srv.Client(), "/db/atlas").Lock(ctx, "shop", 0)
					if err != nil {
						t.Fatalf("the lock is not free afterwards: %v", err)
					}
					if err := again(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// The end of the caller's context is not ErrLocked, though a stalled server with a timeout is.
func TestContextsAndStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		l := atlasholdfast.New(srv.Client(), "/db/atlas")
		defer srv.Stall()()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, timeout := range []time.Duration{-1, 0, time.Minute} {
			if _, err := l.Lock(ctx, "shop", timeout); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, schema.ErrLocked) {
				t.Errorf("Lock with timeout %v: %v", timeout, err)
			}
		}
		if _, err := l.Lock(context.Background(), "shop", time.Second); !errors.Is(err, schema.ErrLocked) {
			t.Errorf("Lock of a server that does not answer: %v", err)
		}
	})
}

func TestALossIsReportedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, c := context.Background(), srv.Client()
		unlock, err := atlasholdfast.New(c, "/db/atlas").Lock(ctx, "shop", -1)
		if err != nil {
			t.Fatal(err)
		}
		expire(t, srv, c)
		synctest.Wait()
		next, err := atlasholdfast.New(srv.Client(), "/db/atlas").Lock(ctx, "shop", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("unlock: %v, want ErrLost", err)
		}
		if err := unlock(); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("second unlock: %v, want ErrNotHeld", err)
		}
		if err := next(); err != nil {
			t.Errorf("unlock of the next holder: %v", err)
		}
	})
}

// Names are locks of their own, whatever is in them, and one name excludes across programs.
func TestNames(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	a, b := atlasholdfast.New(srv.Client(), "/db/atlas"), atlasholdfast.New(srv.Client(), "/db/atlas")
	var unlocks []schema.UnlockFunc
	for _, name := range []string{"shop", "a/b", "a%2Fb", "..", ".", "ü \x00", "atlas_migrate_execute"} {
		unlock, err := a.Lock(ctx, name, 0)
		if err != nil {
			t.Errorf("Lock of %q: %v", name, err)
			continue
		}
		unlocks = append(unlocks, unlock)
		if _, err := b.Lock(ctx, name, 0); !errors.Is(err, schema.ErrLocked) {
			t.Errorf("Lock of %q beside its holder: %v", name, err)
		}
	}
	for _, unlock := range unlocks {
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
}

func TestOneAtATime(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	var group sync.WaitGroup
	inside, count := make(chan struct{}, 1), 0
	for range 8 {
		l := atlasholdfast.New(srv.Client(), "/db/atlas")
		group.Go(func() {
			unlock, err := l.Lock(context.Background(), "shop", -1)
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case inside <- struct{}{}:
			default:
				t.Error("two holders")
			}
			count++
			srv.CloseClientConnections()
			<-inside
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if count != 8 {
		t.Errorf("%d holders, want 8", count)
	}
}
