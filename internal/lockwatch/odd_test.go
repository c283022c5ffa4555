package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// A curator is a client that takes a permit of a semaphore step by step, as Curator does.
type curator struct {
	t            *testing.T
	c            *zk.Client
	pool, owner  string
	lease, place string
}

func (k *curator) make(what string) string {
	k.t.Helper()
	path, _, err := k.c.Create(k.t.Context(), fmt.Sprintf("%s/%ss/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-%s-", k.pool, what, what), []byte(k.owner), zk.EphemeralSequential)
	if err != nil {
		k.t.Fatal(err)
	}
	return path
}

func (k *curator) remove(path string) {
	k.t.Helper()
	if err := k.c.Delete(k.t.Context(), path, zk.AnyVersion); err != nil {
		k.t.Fatal(err)
	}
}

func (k *curator) join()  { k.place = k.make("lock") }
func (k *curator) pend()  { k.lease = k.make("lease") } // and waits until there are few enough of them
func (k *curator) own()   { k.remove(k.place) }
func (k *curator) yield() { k.remove(k.lease) }

func makeAll(t *testing.T, c *zk.Client, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
}

// Curator makes the node of a permit before it has the permit. A watcher that begins in between, or reads again,
// does not take the client for a holder.
func TestPendingPermitsAreNotHeld(t *testing.T) {
	inBothWays(t, func(t *testing.T, srv *zktest.Server, polls bool) {
		of := func(owner string) *curator {
			return &curator{t: t, c: srv.Client(), pool: "/locks/pool", owner: owner}
		}
		makeAll(t, srv.Client(), "/locks", "/locks/pool", "/locks/pool/locks", "/locks/pool/leases")
		ann, bob, cem, dee := of("ann"), of("bob"), of("cem"), of("dee")
		ann.join()
		ann.pend()
		r := watch(t, srv.Client(), layout.Curator, polls)
		if s := r.began; s.Held != 0 || s.Waiters != 1 {
			t.Errorf("with a pending permit alone: %+v", s)
		}
		read := func() { time.Sleep(5 * time.Second) }
		// A watcher that polls reads every second. Two changes at the instant of a reading may come before and after
		// it. Then it shows a holder between them, rightly.
		between := func() { time.Sleep(300 * time.Millisecond) }
		between()
		ann.own()
		read()
		r.expect(t, "acquired pool ann 0")
		bob.join()
		bob.pend()
		read()
		r.expect(t, "queued pool bob 1")
		again := watch(t, srv.Client(), layout.Curator, polls)
		if s := again.began; s.Held != 1 || s.Waiters != 1 {
			t.Errorf("with a held and a pending permit: %+v", s)
		}
		between()
		ann.yield()
		read()
		bob.own()
		read()
		r.expect(t, "released pool ann 1", "acquired pool bob 0")
		again.expect(t, "released pool ann 1", "acquired pool bob 0")
		cem.join()
		cem.pend()
		read()
		cem.yield()
		read()
		cem.own()
		read()
		bob.yield()
		read()
		r.expect(t, "queued pool cem 1", "left pool cem 0", "released pool bob 0")
		// Between two readings, a client may have had the permit that it waited for.
		dee.join()
		dee.pend()
		read()
		dee.own()
		dee.yield()
		read()
		if polls {
			r.expect(t, "queued pool dee 1", "gap pool")
		} else {
			r.expect(t, "queued pool dee 1", "acquired pool dee 0", "released pool dee 0")
		}
	})
}

// What comes and goes while the tree is read again leaves a gap, and a name that is given again does not keep the
// former owner.
func TestChangesDuringTheReadAreNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		a, b := srv.Client(), srv.Client()
		hold := must[*holdfast.Hold](t)
		hold(holdfast.NewMutex(a, "/locks/busy", as("ann")).Lock(ctx))
		node := func(c *zk.Client, owner string) {
			if _, _, err := c.Create(ctx, "/locks/node", []byte(`{"owner":"`+owner+`"}`), zk.Ephemeral); err != nil {
				t.Error(err)
			}
		}
		node(a, "ann")
		network := &cable{}
		cfg := srv.Config()
		cfg.Dial = network.through(cfg.Dial)
		mine := must[*zk.Client](t)(zk.Dial(ctx, cfg))
		defer mine.Close()
		r := watch(t, mine, layout.Curator, false)
		network.cut()
		var list, get sync.Once
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action { // the nodes of this level were read
			if path == "/locks/busy" {
				list.Do(func() {
					if err := a.Delete(ctx, "/locks/node", zk.AnyVersion); err != nil {
						t.Error(err)
					}
					node(b, "bob")
				})
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action { // the queue was listed
			if strings.HasPrefix(path, "/locks/busy/") {
				get.Do(func() {
					k := &curator{t: t, c: b, pool: "/locks", owner: "bob"}
					path, _, err := k.c.Create(ctx, "/locks/busy/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", nil, zk.EphemeralSequential)
					if err != nil {
						t.Error(err)
					}
					k.remove(path)
				})
			}
			return zktest.Pass
		})
		network.mend()
		time.Sleep(5 * time.Second)
		r.expect(t, "gap busy", "gap node", "released node ann 0", "acquired node bob 0")
	})
}

// Without permission to read the locks, Watch fails. If only some are not readable, it says so.
func TestWatchSaysWhatItMayNotRead(t *testing.T) {
	inBothWays(t, func(t *testing.T, srv *zktest.Server, polls bool) {
		ctx := t.Context()
		c := srv.Client()
		secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
		open := zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}
		make := func(path string, acl zk.ACL) {
			if _, _, err := c.Create(ctx, path, nil, zk.Persistent, acl); err != nil {
				t.Fatal(err)
			}
		}
		allow := func(path string, acl zk.ACL) {
			if _, err := c.SetACL(ctx, path, []zk.ACL{acl}, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		make("/locks", secret)
		w := &watcher{client: srv.Client(), cfg: Config{Every: time.Second}}
		w.model = newModel(grammar(layout.Curator), "/locks/", func(Event) {})
		for _, f := range []func(context.Context) error{w.follow, func(ctx context.Context) error { return w.poll(ctx, time.Hour) }} {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			if err := f(ctx); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		allow("/locks", open)
		make("/locks/secret", secret)
		r := watch(t, srv.Client(), layout.Curator, polls)
		r.expect(t, "gap secret")
		make("/locks/hidden", secret)
		time.Sleep(5 * time.Second)
		if polls { // servers report no event of a node that may not be read
			r.expect(t, "gap hidden")
		}
		hold := must[*holdfast.Hold](t)
		hold(holdfast.NewMutex(c, "/locks/a", as("ann")).Lock(ctx))
		time.Sleep(5 * time.Second)
		if !polls { // the count of changes says so later
			r.expect(t, "gap /locks", "acquired a ann 0")
			return
		}
		r.expect(t, "acquired a ann 0")
		allow("/locks/a", secret)
		time.Sleep(5 * time.Second)
		r.expect(t, "gap a")
		allow("/locks/a", open)
		time.Sleep(5 * time.Second)
		r.expect(t, "acquired a ann 0")
	})
}

// New locks with the name of a turnstile do not hold up each other, nor the locks behind them.
func TestManyLocksThatMayBeTurnstiles(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		r := watch(t, srv.Client(), layout.Curator, false)
		var want []string
		for i := range 20 {
			name := fmt.Sprintf("l%02d/locks", i)
			must[*holdfast.Hold](t)(holdfast.NewMutex(c, "/locks/"+name, as("ann")).Lock(t.Context()))
			want = append(want, "acquired "+name+" ann 0")
		}
		time.Sleep(2 * permitPatience)
		r.expect(t, want...)
	})
}

// The first pending event, which the watcher is at, is kept when there are too many.
func TestTooManyPendingEventsAskForAResync(t *testing.T) {
	c := make(chan zk.Event)
	close(c)
	w := &watcher{pump: newPump(c)}
	<-w.pump.ended
	w.pending = []arrival{{Event: zk.Event{Type: zk.EventNodeDeleted, Path: "/first"}}}
	w.pump.all = slices.Repeat([]arrival{{Event: zk.Event{Type: zk.EventNodeCreated, Path: "/x"}}}, pendingLimit)
	w.drain()
	if len(w.pending) != 2 || w.pending[0].Path != "/first" || !w.missed() {
		t.Errorf("%d events are pending, and missed is %v", len(w.pending), w.missed())
	}
}

// A server that throttles does not end a watch.
func TestWatchGoesOnWhenTheServerThrottles(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var refused atomic.Int32
		srv.Intercept(zkproto.OpAddWatch, func(string) zktest.Action {
			if refused.Add(1) < 4 {
				return zktest.Throttle
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpExists, func(string) zktest.Action {
			if refused.Add(1)%5 == 0 {
				return zktest.Throttle
			}
			return zktest.Pass
		})
		r := watch(t, srv.Client(), layout.Curator, false)
		c := srv.Client()
		h := must[*holdfast.Hold](t)(holdfast.NewSemaphore(c, "/locks/pool", 1, as("ann")).Acquire(t.Context(), 1))
		time.Sleep(5 * time.Second)
		h.Unlock()
		time.Sleep(5 * time.Second)
		r.expect(t, "queued pool ann 1", "acquired pool ann 0", "released pool ann 0")
	})
}

// Locks beside those of the prefix come and go without a gap.
func TestSiblingsOfThePrefixAreNoGap(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := srv.Client()
		makeAll(t, c, "/locks", "/locks/old")
		network := &cable{}
		cfg := srv.Config()
		cfg.Dial = network.through(cfg.Dial)
		mine := must[*zk.Client](t)(zk.Dial(ctx, cfg))
		defer mine.Close()
		r := watchPrefix(t, mine, "/locks/db", layout.Curator, false)
		makeAll(t, c, "/locks/other", "/locks/new")
		for _, path := range []string{"/locks/other", "/locks/old"} {
			if err := c.Delete(ctx, path, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		network.cut()
		synctest.Wait()
		must[*holdfast.Hold](t)(holdfast.NewMutex(c, "/locks/db1", as("ann")).Lock(ctx))
		network.mend()
		time.Sleep(5 * time.Second)
		r.expect(t, "acquired db1 ann 0")
	})
}

// A permit is of a turn that has just gone only if both are of one client and one semaphore, and if the turn was the
// first.
func TestAPermitBehindATurnThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		of := func(c *zk.Client, pool, owner string) *curator { return &curator{t: t, c: c, pool: pool, owner: owner} }
		makeAll(t, srv.Client(), "/locks", "/locks/pool", "/locks/pool/locks", "/locks/pool/leases", "/locks/other", "/locks/other/locks", "/locks/other/leases")
		shared := srv.Client()
		ann, bob, cem := of(srv.Client(), "/locks/pool", "ann"), of(shared, "/locks/pool", "bob"), of(shared, "/locks/pool", "cem")
		r := watch(t, srv.Client(), layout.Curator, false)
		// replace removes the turn of one client and makes the permit of another one, so that both events come together.
		replace := func(gone, comes *curator) {
			t.Helper()
			res, err := comes.c.Multi(t.Context(), zk.DeleteOp(gone.place, zk.AnyVersion),
				zk.CreateOp(comes.pool+"/leases/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lease-", []byte(comes.owner), zk.EphemeralSequential))
			if err != nil {
				t.Fatal(err)
			}
			comes.lease = res[1].Path
			synctest.Wait()
		}
		ann.join()
		ann.pend()
		ann.own()
		bob.join()
		cem.join()
		r.expect(t, "queued pool ann 1", "acquired pool ann 0", "queued pool bob 1", "queued pool cem 2")
		replace(cem, bob)
		r.expect(t, "left pool cem 1")
		ann.yield()
		bob.own()
		r.expect(t, "released pool ann 1", "acquired pool bob 0")
		// Of another client.
		dee, eve := of(srv.Client(), "/locks/pool", "dee"), of(srv.Client(), "/locks/pool", "eve")
		dee.join()
		eve.join()
		r.expect(t, "queued pool dee 1", "queued pool eve 2")
		replace(dee, eve)
		r.expect(t, "left pool dee 1")
		bob.yield()
		eve.own()
		r.expect(t, "released pool bob 1", "acquired pool eve 0")
		// Of another semaphore.
		fay, gus := of(shared, "/locks/pool", "fay"), of(shared, "/locks/other", "gus")
		fay.join()
		gus.join()
		r.expect(t, "queued pool fay 1", "queued other gus 1")
		replace(fay, gus)
		r.expect(t, "left pool fay 0")
		gus.own()
		r.expect(t, "acquired other gus 0")
	})
}

// Where events are missing behind the end of a turn, the next reading tells whether the client has a permit.
func TestATurnThatIsGoneBeforeMissedEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		makeAll(t, srv.Client(), "/locks", "/locks/pool", "/locks/pool/locks", "/locks/pool/leases")
		ann := &curator{t: t, c: srv.Client(), pool: "/locks/pool", owner: "ann"}
		ann.join()
		over := make(chan zk.Event)
		close(over)
		var r recorder
		w := &watcher{client: srv.Client(), pump: newPump(over)}
		<-w.pump.ended
		w.model = newModel(grammar(layout.Curator), "/locks/", func(e Event) { r.events = append(r.events, e) })
		if err := w.resync(t.Context()); err != nil {
			t.Fatal(err)
		}
		ann.pend()
		ann.own()
		w.pending = []arrival{
			{Event: zk.Event{Type: zk.EventNodeDeleted, Path: ann.place}, at: time.Now()},
			{Event: zk.Event{Err: zk.ErrEventsMissed}, at: time.Now()},
		}
		if err := w.handle(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "acquired pool ann 0")
	})
}

// A semaphore that came while the watcher was there is known after a lost connection, too.
func TestANewSemaphoreIsKeptOverALostConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := srv.Client()
		network := &cable{}
		cfg := srv.Config()
		cfg.Dial = network.through(cfg.Dial)
		mine := must[*zk.Client](t)(zk.Dial(ctx, cfg))
		defer mine.Close()
		r := watch(t, mine, layout.Curator, false)
		h := must[*holdfast.Hold](t)(holdfast.NewSemaphore(c, "/locks/pool", 1, as("ann")).Acquire(ctx, 1))
		time.Sleep(5 * time.Second)
		network.cut()
		synctest.Wait()
		network.mend()
		time.Sleep(5 * time.Second)
		r.expect(t, "queued pool ann 1", "acquired pool ann 0")
		h.Unlock()
		time.Sleep(5 * time.Second)
		r.expect(t, "released pool ann 0")
	})
}

// A server reports no event of a place that the watcher may not read. The watcher says so, and does not guess who
// holds the lock.
func TestPlacesThatMayNotBeRead(t *testing.T) {
	inBothWays(t, func(t *testing.T, srv *zktest.Server, polls bool) {
		c := srv.Client()
		secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
		open := zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}
		join := func(lock, owner string, acl zk.ACL) string {
			t.Helper()
			path, _, err := c.Create(t.Context(), "/locks/"+lock+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte(owner), zk.EphemeralSequential, acl)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			return path
		}
		leave := func(path string) {
			t.Helper()
			if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		makeAll(t, c, "/locks", "/locks/before", "/locks/after", "/locks/behind", "/locks/open")
		hidden := join("before", "ann", secret)
		r := watch(t, srv.Client(), layout.Curator, polls)
		time.Sleep(5 * time.Second)
		join("before", "bob", open)
		leave(hidden)
		if polls { // a list has the names of all nodes
			r.expect(t, "queued before bob 1", "released before ? 1", "acquired before bob 0")
		} else {
			r.expect(t, "gap before")
		}
		hidden = join("after", "cem", secret)
		join("after", "dee", open)
		leave(hidden)
		if polls {
			r.expect(t, "acquired after ? 0", "queued after dee 1", "released after ? 1", "acquired after dee 0")
		} else {
			r.expect(t, "gap after")
		}
		first := join("behind", "eve", open)
		join("behind", "fay", secret)
		leave(first)
		if polls {
			r.expect(t, "acquired behind eve 0", "queued behind ? 1", "released behind eve 1", "acquired behind ? 0")
		} else {
			r.expect(t, "acquired behind eve 0", "gap behind")
		}
		leave(join("open", "gus", open)) // the other locks are reported
		r.expect(t, "acquired open gus 0", "released open gus 0")
	})
}

// The token of an event is that of the node, whatever the client has written into it.
func TestATokenIsNotForged(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		makeAll(t, c, "/locks", "/locks/a")
		r := watch(t, srv.Client(), layout.Curator, false)
		path, _, err := c.Create(t.Context(), "/locks/a/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte(`{"owner":"ann","token":1}`), zk.EphemeralSequential)
		if err != nil {
			t.Fatal(err)
		}
		_, stat, err := c.Get(t.Context(), path)
		synctest.Wait()
		if err != nil || len(r.events) != 1 || r.events[0].Token != stat.Czxid {
			t.Errorf("got %+v, %v; want the token %d", r.events, err, stat.Czxid)
		}
	})
}

// A place in a queue of another layout is no NodeLock.
func TestPlacesOfOtherLayoutsAreNoLocks(t *testing.T) {
	inBothWays(t, func(t *testing.T, srv *zktest.Server, polls bool) {
		c := srv.Client()
		makeAll(t, c, "/locks", "/locks/a")
		join := func() {
			t.Helper()
			if _, _, err := c.Create(t.Context(), "/locks/a/6266cbe9453b4a508718b39f57879b6e__lock__", nil, zk.EphemeralSequential); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		join()
		r := watch(t, srv.Client(), layout.Curator, polls)
		join()
		if r.began.Held != 0 {
			t.Errorf("%+v", r.began)
		}
		r.expect(t)
	})
}

// A client gets its permit between the reads of the turns and of the permits, or before both. It has not left.
func TestPermitsDuringTheRead(t *testing.T) {
	for _, polls := range []bool{false, true} {
		for _, at := range []string{"/locks/pool/locks", "/locks/pool/leases"} {
			for _, first := range []bool{false, true} { // in the first reading, or in a later one
				if polls && first {
					continue
				}
				t.Run(fmt.Sprintf("polls %v at %s first %v", polls, at, first), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						ctx := t.Context()
						sem := func(owner string) *holdfast.Semaphore {
							return holdfast.NewSemaphore(srv.Client(), "/locks/pool", 1, as(owner))
						}
						a := must[*holdfast.Hold](t)(sem("ann").Acquire(ctx, 1))
						b := later(func() (*holdfast.Hold, error) { return sem("bob").Acquire(ctx, 1) })
						cem := later(func() (*holdfast.Hold, error) { return sem("cem").Acquire(ctx, 1) })
						_ = cem
						network := &cable{}
						cfg := srv.Config()
						cfg.Dial = network.through(cfg.Dial)
						mine := must[*zk.Client](t)(zk.Dial(ctx, cfg))
						defer mine.Close()
						var held *holdfast.Hold
						handOff := func() {
							var once sync.Once
							srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
								if path == at {
									once.Do(func() {
										srv.Intercept(zkproto.OpGetChildren2, nil)
										a.Unlock()
										held = <-b
									})
								}
								return zktest.Pass
							})
						}
						if first {
							handOff()
						}
						r := watch(t, mine, layout.Curator, polls)
						if !first {
							network.cut()
							synctest.Wait()
							handOff()
							network.mend()
						}
						time.Sleep(10 * time.Second)
						for _, e := range r.all() {
							if strings.HasPrefix(e, "left") || strings.HasPrefix(e, "gap") || strings.HasPrefix(e, "acquired pool cem") {
								t.Errorf("got %q", r.all())
								break
							}
						}
						r.events = nil
						held.Unlock()
						time.Sleep(10 * time.Second)
						if got := r.all(); polls && len(got) == 2 && got[0] == "released pool bob 0" { // both were seen together
							r.expect(t, "released pool bob 0", "acquired pool cem 0")
						} else {
							r.expect(t, "released pool bob 1", "acquired pool cem 0")
						}
					})
				})
			}
		}
	}
}

// A reading has the turn of a client and, since it lists permits after turns, the permit that the client has got for
// it. The client does not wait any more.
func TestAHolderIsNoWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		sem := func(owner string) *holdfast.Semaphore {
			return holdfast.NewSemaphore(srv.Client(), "/locks/pool", 1, as(owner))
		}
		ann := must[*holdfast.Hold](t)(sem("ann").Acquire(ctx, 1))
		bob := later(func() (*holdfast.Hold, error) { return sem("bob").Acquire(ctx, 1) })
		time.Sleep(time.Second)
		r := watch(t, srv.Client(), layout.Curator, true)
		synctest.Wait()
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
			if path == "/locks/pool/leases" {
				srv.Intercept(zkproto.OpGetChildren2, nil)
				ann.Unlock()
				<-bob
			}
			return zktest.Pass
		})
		time.Sleep(10 * time.Second)
		if got := r.all(); len(got) == 2 && got[0] == "released pool ann 0" { // both were seen together
			r.expect(t, "released pool ann 0", "acquired pool bob 0")
		} else {
			r.expect(t, "released pool ann 1", "acquired pool bob 0")
		}
	})
}

// An event that comes between a count of changes and the comparison may be in the count or not. A directory whose
// number is not certain stays so, and no change is missed later.
func TestLateEventsDoNotSpoilTheCount(t *testing.T) {
	const pool = "/locks/pool/leases"
	for _, test := range []struct {
		name          string
		before, count int32
		unsure        bool
		want          int32
	}{
		{"the event came after the answer", 0, 4, true, 2},
		{"the event came before the request", 1, 5, false, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &watcher{model: newModel(grammar(layout.Curator), "/locks/", func(e Event) { t.Errorf("got %v", e) })}
			d := &dir{cversion: 2, unsure: true, children: make(map[string]*place)}
			w.model.dirs[pool] = d
			w.pending = []arrival{{Event: zk.Event{Type: zk.EventNodeCreated, Path: pool + "/a"}}}
			w.compare([]string{pool}, []zk.Result{{Stat: zk.Stat{Cversion: test.count}}}, map[string]int32{pool: test.before})
			if d.unsure != test.unsure || d.cversion != test.want {
				t.Errorf("cversion %d, unsure %v; want %d, %v", d.cversion, d.unsure, test.want, test.unsure)
			}
		})
	}
}
