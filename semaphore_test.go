package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zkserver"
	"holdfast/zktest"
)

func semaphore(t *testing.T, srv *zktest.Server, limit int, opts ...holdfast.Option) *holdfast.Semaphore {
	return holdfast.NewSemaphore(client(t, srv), lockPath, limit, opts...)
}

var semaphoreLayouts = []holdfast.Layout{holdfast.LayoutCurator, holdfast.LayoutKazoo}

// Waiters for few permits do not overtake a waiter for many, which gets all at once.
func TestAcquireOfSeveralIsAtomicAndInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 3)
		a, b := lock(t, s.Locker(1)), lock(t, s.Locker(1))
		three := wait(t.Context(), semaphore(t, srv, 3).Locker(3))
		one := wait(t.Context(), semaphore(t, srv, 3).Locker(1))
		unlock(t, a)
		if !three.waiting() || !one.waiting() {
			t.Fatal("a waiter was admitted out of turn, or with too few permits")
		}
		wantOf(t, s, 2, 3) // a waiter does not hoard
		unlock(t, b)
		h := three.got(t)
		wantOf(t, s, 0, 3)
		unlock(t, h)
		unlock(t, one.got(t))
		wantOf(t, s, 3, 3)
	})
}

func TestSemaphoreLimitChangesLive(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 0)
		if err := s.SetLimit(t.Context(), 1); err != nil { // the path does not exist yet
			t.Fatal(err)
		}
		a := lock(t, s.Locker(1))
		w := wait(t.Context(), semaphore(t, srv, 0).Locker(1))
		if !w.waiting() {
			t.Fatal("two permits of one are out")
		}
		if err := s.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		b := w.got(t)
		if err := s.SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if a.Context().Err() != nil || b.Context().Err() != nil {
			t.Error("lowering the limit took a permit away")
		}
		w = wait(t.Context(), semaphore(t, srv, 0).Locker(1))
		unlock(t, a)
		if !w.waiting() {
			t.Fatal("a waiter was admitted though the only permit is out")
		}
		unlock(t, b)
		unlock(t, w.got(t))
		// A request for more permits than the limit fails, even while it waits.
		if err := s.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		a = lock(t, s.Locker(1))
		w = wait(t.Context(), semaphore(t, srv, 0).Locker(2))
		if err := s.SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		<-w.done
		wantErr(t, w.err, holdfast.ErrLimit)
		unlock(t, a)
		for _, n := range []int{0, 2} {
			_, err := s.Acquire(t.Context(), n)
			wantErr(t, err, holdfast.ErrLimit)
		}
	})
}

// A caller reads the permits when it joins the turnstile. If it has to wait there, it reads them again in its
// turn: others have taken permits meanwhile.
func TestPermitsAreCountedInTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 2)
		a := lock(t, s.Locker(1))
		two := wait(t.Context(), semaphore(t, srv, 2).Locker(2))
		one := wait(t.Context(), semaphore(t, srv, 2).Locker(1)) // one permit is free now
		unlock(t, a)
		h := two.got(t)
		if !one.waiting() {
			t.Error("three permits of two are out")
		}
		unlock(t, h)
		unlock(t, one.got(t))
	})
}

func TestBreakTakesAllPermitsOfOneToken(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				in := holdfast.WithLayout(layout)
				c, s := client(t, srv), semaphore(t, srv, 3, holdfast.WithOwner("api-7"), in)
				h, one := lock(t, s.Locker(2)), lock(t, s.Locker(1))
				w := wait(t.Context(), s.Locker(1))
				entries, err := holdfast.List(t.Context(), c, lockPath, layout)
				if err != nil || len(entries) != 4 {
					t.Fatal(entries, err)
				}
				for i, e := range entries {
					if e.Held != (i < 3) || e.Owner != "api-7" || i < 2 && e.Token != h.Token() || i == 2 && e.Token != one.Token() {
						t.Errorf("%d: %+v", i, e)
					}
					if _, ok, err := c.Exists(t.Context(), e.Path); !ok || err != nil {
						t.Errorf("%s: %t, %v", e.Path, ok, err)
					}
				}
				if err := holdfast.Break(t.Context(), c, lockPath, h.Token()); err != nil {
					t.Fatal(err)
				}
				<-h.Lost()
				unlock(t, w.got(t))
				if one.Context().Err() != nil {
					t.Error("Break hit another token")
				}
				unlock(t, one)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
				wantOf(t, s, 3, 3)
			})
		})
	}
}

// Curator makes the node of a permit, and then waits for it at the head of the turnstile. List returns the waiter
// only, also if another client has stored the limit.
func TestListLeavesOutPendingPermits(t *testing.T) {
	for _, tt := range []struct {
		limit string
		want  string
	}{{"", "leases/1 held, locks/2"}, {"1", "leases/1 held, locks/2"}, {"2", "leases/1 held, leases/2 held, locks/2"}} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			const form = "_c_6266cbe9-453b-4a50-8718-b39f57879b6e-"
			a, b := client(t, srv), client(t, srv)
			for _, path := range []string{"/holdfast", "/holdfast/locks", lockPath, lockPath + "/leases", lockPath + "/locks"} {
				if _, _, err := a.Create(t.Context(), path, []byte(tt.limit), zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
					t.Fatal(err)
				}
			}
			for _, n := range []struct {
				c    *zk.Client
				name string
			}{{a, "leases/" + form + "lease-0000000001"}, {b, "locks/" + form + "lock-0000000002"}, {b, "leases/" + form + "lease-0000000002"}} {
				if _, _, err := n.c.Create(t.Context(), lockPath+"/"+n.name, nil, zk.Ephemeral); err != nil {
					t.Fatal(err)
				}
			}
			entries, err := holdfast.List(t.Context(), a, lockPath)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				dir, name, _ := strings.Cut(e.Name, "/")
				text := dir + "/" + name[len(name)-1:]
				if e.Held {
					text += " held"
				}
				got = append(got, text)
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("limit %q: %s; want %s", tt.limit, text, tt.want)
			}
		})
	}
}

// An event starts a waiter's turn, and its session continues at a server that has not applied
// the end of the turn before. Permits given in that turn may be missing there. Here, the node
// of that turn is made anew, so that the server shows it.
func TestPermitsAreCountedOnlyWhereTheTurnBeforeIsOver(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				turnstile := lockPath + "/locks"
				if layout.Name == holdfast.LayoutKazoo.Name {
					turnstile = lockPath + "-__lock__"
				}
				admin := client(t, srv)
				both := lock(t, semaphore(t, srv, 2, use).Locker(2))
				first := wait(t.Context(), semaphore(t, srv, 2, use).Locker(1))
				turns, _, err := admin.Children(t.Context(), turnstile)
				if err != nil || len(turns) != 1 {
					t.Fatal(turns, err)
				}
				second := wait(t.Context(), semaphore(t, srv, 2, use).Locker(1))
				turn := turnstile + "/" + turns[0]
				var looks atomic.Int32
				srv.Intercept(zkproto.OpExists, func(path string) zktest.Action {
					if path == turn && looks.Add(1) == 1 {
						if _, _, err := admin.Create(t.Context(), turn, nil, zk.Persistent); err != nil {
							t.Error(err)
						}
					}
					return zktest.Pass
				})
				unlock(t, both)
				a := first.got(t)
				time.Sleep(5 * time.Second)
				if !second.waiting() {
					t.Error("permits were counted at a server that may miss some")
				}
				if n := looks.Load(); n < 2 || n > 500 {
					t.Errorf("the waiter looked %d times in 5 s; want several, with pauses", n)
				}
				admin.Delete(t.Context(), turn, zk.AnyVersion)
				b := second.got(t)
				wantOf(t, semaphore(t, srv, 2, use), 0, 2)
				unlock(t, a)
				unlock(t, b)
			})
		})
	}
}

// A waiter for permits watches the limit and the permits, and removes these watches however
// the wait ends. Otherwise they would add up over all semaphores that a program ever waited
// for, and servers limit watches. The limit here is low, so a leftover watch soon fails the
// next wait.
func TestGivenUpAcquireLeavesNoWatch(t *testing.T) {
	const limit = 8
	ends := map[string]func(t *testing.T, c *zk.Client, path string, cancel context.CancelFunc){
		"its context ends": func(_ *testing.T, _ *zk.Client, _ string, cancel context.CancelFunc) { cancel() },
		"it loses its place first": func(t *testing.T, c *zk.Client, path string, cancel context.CancelFunc) {
			turns, _, err := c.Children(t.Context(), path+"/locks")
			if err != nil || len(turns) != 1 {
				t.Fatalf("at the turnstile: %q, %v", turns, err)
			}
			if err := c.Delete(t.Context(), path+"/locks/"+turns[0], zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // it queues again
			cancel()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer(func(c *zkserver.Config) { c.Limits.WatchesPerConnection = limit })
				defer srv.Close()
				c, other := client(t, srv), srv.Client()
				for i := range limit {
					path := fmt.Sprintf("%s-%d", lockPath, i)
					holder := srv.Client() // on another client, so that its own watches do not count
					h := lock(t, holdfast.NewSemaphore(holder, path, 1).Locker(1))
					ctx, cancel := context.WithCancel(t.Context())
					w := wait(ctx, holdfast.NewSemaphore(c, path, 1).Locker(1))
					if !w.waiting() {
						t.Fatalf("semaphore %d: %v", i, w.err)
					}
					end(t, other, path, cancel)
					if <-w.done; !errors.Is(w.err, context.Canceled) {
						t.Fatalf("semaphore %d: %v", i, w.err)
					}
					unlock(t, h)
				}
			})
		})
	}
}

func TestSemaphoreTakesAMarkForNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		if err := holdfast.NewSemaphore(c, lockPath, 0).SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(t.Context(), lockPath, []byte("holdfast: passed 17"), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		h, err := holdfast.NewSemaphore(c, lockPath, 3).Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		if got := directoryData(t, c); got != "3" {
			t.Errorf("the limit is %q; want it unchanged", got)
		}
	})
}
