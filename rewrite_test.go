package holdfast_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// heldSince returns the holders' times from the lock's list, and the versions of their nodes.
func heldSince(t *testing.T, c *zk.Client, layout ...holdfast.Layout) (since []time.Time, versions []int32) {
	t.Helper()
	queue, err := holdfast.List(t.Context(), c, lockPath, layout...)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range queue {
		if !e.Held {
			if !e.HeldSince.IsZero() {
				t.Errorf("a waiter is listed as holding since %v", e.HeldSince)
			}
			continue
		}
		_, stat, err := c.Get(t.Context(), e.Path)
		if err != nil {
			t.Fatal(err)
		}
		since, versions = append(since, e.HeldSince), append(versions, stat.Version)
	}
	return since, versions
}

// A server that was slow to create the node of a holder does not hide since when the lock is held.
func TestListTellsSinceWhenALockIsHeldBySlowServers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		c := client(t, srv)
		unlock(t, lock(t, mutexAt(c))) // the directory is there
		resume := srv.Stall()
		w := wait(t.Context(), mutexAt(c))
		time.Sleep(4 * time.Second)
		resume()
		h := w.got(t)
		began := time.Now()
		time.Sleep(2 * time.Second)
		// The holder has written it after a second, and does not know how much of its wait the server took.
		if since, _ := heldSince(t, admin); len(since) != 1 || since[0].Before(began) || since[0].Sub(began) > 1020*time.Millisecond {
			t.Errorf("%v; want %v", since, began)
		}
		unlock(t, h)
	})
}

// A lock that was waited for is held since it was acquired, not since its node was created.
func TestListTellsSinceWhenALockIsHeld(t *testing.T) {
	kinds := map[string]func(c *zk.Client) holdfast.Locker{
		"mutex":  mutexAt,
		"owner":  func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath, holdfast.WithOwner("me")) },
		"writer": writeAt,
		"reader": readAt,
		"permit": func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 1).Locker(1) },
		"node":   func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
		"line":   func(c *zk.Client) holdfast.Locker { return inMemory(c, 3) },
	}
	for name, of := range kinds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				before := of
				if name == "reader" {
					before = writeAt
				}
				first := lock(t, before(client(t, srv)))
				w := wait(t.Context(), of(client(t, srv)))
				time.Sleep(4 * time.Second)
				unlock(t, first)
				h := w.got(t)
				began := time.Now()
				time.Sleep(500 * time.Millisecond)
				atOnce, version := name == "node", int32(1) // a NodeLock is held since its node exists
				if atOnce {
					version = 0
				}
				if since, versions := heldSince(t, admin); len(since) != 1 || since[0].IsZero() == atOnce || versions[0] != 0 {
					t.Errorf("after half a second: %v, version %v", since, versions)
				}
				time.Sleep(time.Second)
				for range 2 {
					since, versions := heldSince(t, admin)
					if len(since) != 1 || since[0].Sub(began).Abs() > 20*time.Millisecond || versions[0] != version {
						t.Errorf("held since %v, listed as %v, version %v", began, since, versions)
					}
					time.Sleep(10 * time.Minute)
				}
				if h.Context().Err() != nil {
					t.Error(context.Cause(h.Context()))
				}
				revoke(t, admin, h.Token()) // the note is still a note
				asked(t, h)
				if since, _ := heldSince(t, admin); len(since) != 1 || since[0].Sub(began).Abs() > 20*time.Millisecond {
					t.Errorf("held since %v, listed as %v after a release request", began, since)
				}
				unlock(t, h)
				wantNoNodes(t, admin)
				unlock(t, lock(t, of(client(t, srv))))
			})
		})
	}
}

// HeldSince has a cost, once per tenure of more than a second: the holder writes, then reads
// again with a watch. Two waiters wake and watch again with one request each: the next one
// and the one that looks ahead. A shorter tenure costs nothing.
func TestHeldSinceWakesNoHerd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		all := standAll(t, srv, 12, mutexAt)
		count := func(d time.Duration) (requests, bytes []int64) {
			synctest.Wait()
			before := make([]int64, len(all))
			heard := make([]int64, len(all))
			for i, s := range all {
				before[i], heard[i] = s.requests.Load(), s.bytes.Load()
			}
			time.Sleep(d)
			synctest.Wait()
			for i, s := range all {
				requests, bytes = append(requests, s.requests.Load()-before[i]), append(bytes, s.bytes.Load()-heard[i])
			}
			return requests, bytes
		}
		time.Sleep(100 * time.Millisecond)
		if requests, _ := count(800 * time.Millisecond); requests[0] != 0 {
			t.Errorf("%v requests before the lock was held for a second; want none", requests)
		}
		requests, bytes := count(500 * time.Millisecond) // no ping is due in this time
		want := make([]int64, len(all))
		want[0], want[1], want[2] = 2, 1, 1
		for i := range all {
			if requests[i] != want[i] {
				t.Errorf("waiter %d made %d requests; want %d", i, requests[i], want[i])
			}
			if i > 2 && bytes[i] != 0 {
				t.Errorf("waiter %d was woken: it received %d bytes", i, bytes[i])
			}
		}
		t.Logf("figure: requests for a tenure of more than a second, besides lock and unlock: %v", requests)
		if requests, _ := count(10 * time.Minute); requests[0] > looksIn(10*time.Minute) || requests[1] > 2*looksIn(10*time.Minute) { // it looks at its own node, too
			t.Errorf("%v requests in the ten minutes after that; want no more than the looks for missed events", requests)
		}
		for i, s := range all {
			if !s.in(t) {
				t.Fatalf("%d does not have the lock in its turn", i)
			}
			unlock(t, s.hold)
		}
	})
}

// All permits of a tenure record the time, in one transaction.
func TestAllPermitsSaySinceWhen(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		multis := 0
		h, err := holdfast.NewSemaphore(client(t, srv), lockPath, 5).Acquire(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
			if strings.HasPrefix(path, lockPath+"/") { // else it is a barrier of a List
				multis++
			}
			return zktest.Pass
		})
		began := time.Now()
		time.Sleep(5 * time.Second)
		since, versions := heldSince(t, admin)
		if len(since) != 3 || multis != 1 {
			t.Fatalf("%v, %d transactions", since, multis)
		}
		for i := range since {
			if since[i].Sub(began).Abs() > 20*time.Millisecond || versions[i] != 1 {
				t.Errorf("%v, version %d", since[i], versions[i])
			}
		}
		unlock(t, h)
		wantNoNodes(t, admin)
	})
}

// A client that does not know the time in the node replaces it by a request. The holder writes it back.
func TestTheTimeSurvivesARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		h := lock(t, mutexAt(client(t, srv)))
		time.Sleep(3 * time.Second)
		before := dataOf(t, admin, h.Path())
		if since, versions := heldSince(t, admin); since[0].IsZero() || versions[0] != 1 {
			t.Fatalf("%v, version %v", since, versions)
		}
		if _, err := admin.Set(t.Context(), h.Path(), []byte(request), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		<-h.Revoked()
		time.Sleep(3 * time.Second)
		if got := dataOf(t, admin, h.Path()); got != before {
			t.Errorf("the node has the data %q; want %q", got, before)
		}
		unlock(t, h)
	})
}

// Data that a program has chosen stay as they are.
func TestChosenDataSayNothingElse(t *testing.T) {
	for name, of := range map[string]func(c *zk.Client) holdfast.Locker{
		"value":     func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath, holdfast.WithValue(nil)) },
		"candidate": func(c *zk.Client) holdfast.Locker { return candidate{holdfast.NewElection(c, lockPath), "a"} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				h := lock(t, of(client(t, srv)))
				time.Sleep(time.Minute)
				if since, versions := heldSince(t, admin); len(since) != 1 || !since[0].IsZero() || versions[0] != 0 {
					t.Errorf("%v, version %v", since, versions)
				}
				unlock(t, h)
			})
		})
	}
	t.Run("somebody else's", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			admin := client(t, srv)
			h := lock(t, mutexAt(client(t, srv)))
			if _, err := admin.Set(t.Context(), h.Path(), []byte("hands off"), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got := dataOf(t, admin, h.Path()); got != "hands off" {
				t.Errorf("the node has data %q", got)
			}
			unlock(t, h)
		})
	})
}

// The answer to the create is lost, and the search for the node takes seconds. That time does
// not count as held.
func TestHeldSinceCountsNoTimeOfDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		unlock(t, lock(t, mutexAt(admin)))
		th := newThrottle(srv, zkproto.OpMulti) // the search for its node
		th.on.Store(true)
		lost := false
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
			if !lost {
				lost = true
				return zktest.DropReply
			}
			return zktest.Pass
		})
		w := wait(t.Context(), mutexAt(client(t, srv)))
		time.Sleep(4 * time.Second)
		th.on.Store(false)
		h := w.got(t)
		began := time.Now()
		time.Sleep(2 * time.Second)
		if since, _ := heldSince(t, admin); len(since) != 1 || since[0].Sub(began).Abs() > 20*time.Millisecond {
			t.Errorf("held since %v, listed as %v", began, since)
		}
		unlock(t, h)
	})
}

// The write is lost, refused, throttled, or races with a release request. The tenure goes on,
// and its node has all its data in the end.
func TestHeldSinceUnderFaults(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, srv *zktest.Server, admin *zk.Client, h *holdfast.Hold) (told bool){
		"request lost": func(t *testing.T, srv *zktest.Server, _ *zk.Client, _ *holdfast.Hold) bool {
			dropOnce(srv, zkproto.OpMulti, zktest.DropRequest)
			return true
		},
		"answer lost": func(t *testing.T, srv *zktest.Server, _ *zk.Client, _ *holdfast.Hold) bool {
			dropOnce(srv, zkproto.OpMulti, zktest.DropReply)
			return true
		},
		"throttled": func(t *testing.T, srv *zktest.Server, _ *zk.Client, _ *holdfast.Hold) bool {
			th := newThrottle(srv, zkproto.OpMulti)
			th.on.Store(true)
			time.AfterFunc(20*time.Second, func() { th.on.Store(false) })
			return true
		},
		"revoked at the same time": func(t *testing.T, srv *zktest.Server, admin *zk.Client, h *holdfast.Hold) bool {
			done := false
			srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
				if !done {
					done = true
					revoke(t, admin, h.Token())
				}
				return zktest.Pass
			})
			return true
		},
		"asked by Curator at the same time": func(t *testing.T, srv *zktest.Server, admin *zk.Client, h *holdfast.Hold) bool {
			done := false
			srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
				if !done {
					done = true
					if _, err := admin.Set(t.Context(), h.Path(), []byte(request), zk.AnyVersion); err != nil {
						t.Error(err)
					}
				}
				return zktest.Pass
			})
			return true
		},
		"not allowed": func(t *testing.T, srv *zktest.Server, admin *zk.Client, h *holdfast.Hold) bool {
			if _, err := admin.SetACL(t.Context(), h.Path(), []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				line := newLine(t, srv)
				h := lock(t, holdfast.NewMutex(line.Client, lockPath, holdfast.WithOwner("me")))
				began := time.Now()
				time.Sleep(100 * time.Millisecond)
				told := fault(t, srv, admin, h)
				time.Sleep(time.Minute)
				since, _ := heldSince(t, admin)
				if len(since) != 1 || told != (since[0].Sub(began).Abs() < 20*time.Millisecond) {
					t.Errorf("held since %v, listed as %v", began, since)
				}
				if data := dataOf(t, admin, h.Path()); !strings.Contains(data, `"owner":"me"`) {
					t.Errorf("the node has data %s", data)
				}
				if strings.Contains(name, "same time") {
					asked(t, h)
				}
				before := line.requests.Load()
				time.Sleep(10 * time.Minute)
				if n := line.requests.Load() - before; n > looksIn(10*time.Minute) {
					t.Errorf("%d requests in ten minutes; want no more than the looks for missed events", n)
				}
				if h.Context().Err() != nil {
					t.Error(context.Cause(h.Context()))
				}
				unlock(t, h)
			})
		})
	}
}

// dropOnce makes one request fail.
func dropOnce(srv *zktest.Server, op zkproto.Op, how zktest.Action) {
	done := false
	srv.Intercept(op, func(string) zktest.Action {
		if done {
			return zktest.Pass
		}
		done = true
		return how
	})
}

// A release around the write, at every millisecond, removes the node and passes the lock on.
func TestReleaseWhileItIsSaidSinceWhen(t *testing.T) {
	for ms := range 8 {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			h := lock(t, mutexAt(c))
			began := time.Now()
			next := wait(t.Context(), mutexAt(client(t, srv)))
			var err error
			srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
				go func() { err = h.Unlock() }()
				time.Sleep(time.Duration(ms) * time.Millisecond)
				return zktest.Pass
			})
			got := next.got(t)
			if d := time.Since(began); d < time.Second || d > 2*time.Second {
				t.Errorf("after %v", d)
			}
			srv.Intercept(zkproto.OpMulti, nil)
			synctest.Wait()
			if err != nil {
				t.Error(err)
			}
			unlock(t, got)
			wantNoNodes(t, c)
		})
	}
}

// Many may wait for one node: the readers behind a writer, and every waiter of a NodeLock.
// Neither the holder's own writes to that node nor a release request wake them.
func TestChangesOfTheDataWakeNoCrowd(t *testing.T) {
	for name, kind := range map[string]struct {
		holder, waiter func(c *zk.Client) holdfast.Locker
	}{
		"readers behind a writer": {writeAt, readAt},
		"node": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
			func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				h := lock(t, kind.holder(client(t, srv)))
				var lines []*line
				var waiters []*waiter
				for range 5 {
					lines = append(lines, newLine(t, srv))
					waiters = append(waiters, wait(t.Context(), kind.waiter(lines[len(lines)-1].Client)))
				}
				before := make([]int64, len(lines))
				for i, l := range lines {
					before[i] = l.requests.Load()
				}
				time.Sleep(2 * time.Second)
				revoke(t, admin, h.Token())
				time.Sleep(time.Second)
				if data := dataOf(t, admin, h.Path()); !strings.Contains(data, "revoke") || strings.Contains(data, "since") == (name == "node") {
					t.Errorf("the node has data %s: the test shows nothing", data)
				}
				for i, l := range lines {
					if n := l.requests.Load() - before[i]; n != 0 {
						t.Errorf("waiter %d made %d requests; want none", i, n)
					}
				}
				unlock(t, h)
				for range waiters { // a NodeLock's waiters get it in any order
					for i, w := range waiters {
						if w != nil && !w.waiting() {
							unlock(t, w.got(t))
							waiters[i] = nil
							break
						}
					}
				}
				for i, w := range waiters {
					if w != nil {
						t.Errorf("waiter %d did not get its turn", i)
					}
				}
			})
		})
	}
}

// looksIn returns how often a waiter or a holder looks at most whether it has missed an event: see queue.LookAgain.
func looksIn(d time.Duration) int64 { return int64(d / (30 * time.Second)) }
