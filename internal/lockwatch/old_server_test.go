package lockwatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// oldServer makes a server one of version 3.5 for as long as it is on: it does not know persistent watches.
func oldServer(srv *zktest.Server, action zktest.Action) (on *atomic.Bool, asked *atomic.Int32) {
	on, asked = new(atomic.Bool), new(atomic.Int32)
	for _, op := range []zkproto.Op{zkproto.OpAddWatch, zkproto.OpSetWatches2} {
		srv.Intercept(op, func(string) zktest.Action {
			if !on.Load() {
				return zktest.Pass
			}
			asked.Add(1)
			return action
		})
	}
	return on, asked
}

// During a rolling upgrade, a session can land on a member without persistent watches, and leave it again. The watcher reads
// the tree meanwhile.
func TestWatchOnAMemberWithoutPersistentWatches(t *testing.T) {
	for name, action := range map[string]zktest.Action{"answers": zktest.Action(zkproto.CodeUnimplemented), "drops": zktest.DropRequest} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				old, asked := oldServer(srv, action)
				c := srv.Client()
				makeAll(t, c, "/locks", "/locks/db")
				r := watch(t, srv.Client(), layout.Curator, false)
				m := holdfast.NewMutex(c, "/locks/db", as("ann"))
				hold := must[*holdfast.Hold](t)
				takeTurn := func() {
					h := hold(m.Lock(t.Context()))
					time.Sleep(5 * time.Second)
					if err := h.Unlock(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
				}
				takeTurn()
				r.expect(t, "acquired db ann 0", "released db ann 0")

				old.Store(true)
				srv.CloseClientConnections()
				time.Sleep(10 * time.Second)
				takeTurn()
				r.expect(t, "acquired db ann 0", "released db ann 0")
				if asked.Load() == 0 {
					t.Error("nobody asked for a persistent watch")
				}
				before := asked.Load()
				time.Sleep(10 * time.Minute)
				if n := asked.Load() - before; n == 0 || n > 10*5 {
					t.Errorf("asked %d times for a watch within 10 minutes", n)
				}

				old.Store(false) // all members are new
				time.Sleep(watchAgain + 5*time.Second)
				h := hold(m.Lock(t.Context()))
				time.Sleep(10 * time.Millisecond) // too short for readings
				if err := h.Unlock(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				r.expect(t, "acquired db ann 0", "released db ann 0")
			})
		})
	}
}

// After an outage, a watcher that polls does not pause for a multiple of the outage.
func TestPollingGoesOnSoonAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		old, _ := oldServer(srv, zktest.Action(zkproto.CodeUnimplemented))
		old.Store(true)
		c := srv.Client()
		makeAll(t, c, "/locks")
		r := watch(t, srv.Client(), layout.Curator, true)
		hold := must[*holdfast.Hold](t)
		hold(holdfast.NewMutex(c, "/locks/before", as("ann")).Lock(t.Context()))
		time.Sleep(5 * time.Second)
		r.expect(t, "acquired before ann 0")
		for range 3 {
			resume := srv.Stall()
			time.Sleep(5 * time.Second)
			resume()
			time.Sleep(5 * time.Second)
			h := hold(holdfast.NewMutex(c, "/locks/after", as("bob")).Lock(t.Context()))
			time.Sleep(3 * time.Second)
			r.expect(t, "acquired after bob 0")
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			r.expect(t, "released after bob 0")
		}
	})
}

func TestPace(t *testing.T) {
	for _, tt := range []struct {
		took []time.Duration
		want time.Duration // after the last
	}{
		{[]time.Duration{time.Hour}, time.Second},
		{[]time.Duration{time.Millisecond, time.Hour}, time.Second},
		{[]time.Duration{time.Hour, time.Millisecond}, time.Second},
		{[]time.Duration{2 * time.Second, 3 * time.Second}, 18 * time.Second},
		{[]time.Duration{3 * time.Second, 2 * time.Second}, 18 * time.Second},
	} {
		t.Run(fmt.Sprint(tt.took), func(t *testing.T) {
			var p Pace
			var got time.Duration
			for _, took := range tt.took {
				got = p.Pause(time.Second, took)
			}
			if got != tt.want {
				t.Errorf("got %v; want %v", got, tt.want)
			}
		})
	}
}

// The same for the copy that the page shows.
func TestAMirrorOnAMemberWithoutPersistentWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		old, _ := oldServer(srv, zktest.Action(zkproto.CodeUnimplemented))
		c := srv.Client()
		makeAll(t, c, "/locks")
		polls := make(chan bool, 10_000)
		var mu sync.Mutex
		m := &Mirror{Base: "/locks", Hold: func(change func()) {
			mu.Lock()
			defer mu.Unlock()
			change()
		}, Lost: func(error) {},
			Reset: func(p bool) { polls <- p }, Changed: func(string, time.Time) {}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Follow(ctx, srv.Client()) }()
		has := func(path string, polled bool) {
			t.Helper()
			if _, _, err := c.Create(ctx, path, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			last := false
			for len(polls) > 0 {
				last = <-polls
			}
			mu.Lock()
			defer mu.Unlock()
			if m.Nodes[path] == nil || last != polled {
				t.Errorf("%s: in the copy %v, polls %v", path, m.Nodes[path] != nil, last)
			}
		}
		has("/locks/a", false)
		old.Store(true)
		srv.CloseClientConnections()
		time.Sleep(5 * time.Second)
		has("/locks/b", true)
		time.Sleep(5 * time.Minute)
		has("/locks/c", true)
		old.Store(false)
		time.Sleep(watchAgain + 5*time.Second)
		has("/locks/d", false)
		cancel()
		<-done
	})
}
