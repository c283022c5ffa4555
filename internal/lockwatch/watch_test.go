package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"holdfast"
	layouts "holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f with its own server and fake time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

// inBothWays is inBubble for a watcher that has persistent watches, and for one that polls.
func inBothWays(t *testing.T, f func(t *testing.T, srv *zktest.Server, polls bool)) {
	for _, polls := range []bool{false, true} {
		t.Run(fmt.Sprintf("polls %v", polls), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) { f(t, srv, polls) })
		})
	}
}

// A recorder watches /locks/ and keeps what it is told.
type recorder struct {
	mu     sync.Mutex // guards events
	events []Event
	began  Summary
	stop   func() error
}

// watch begins to watch, and returns when the watch has begun. If polls is true, the watcher takes the server
// for one without persistent watches.
func watch(t *testing.T, c *zk.Client, layout holdfast.Layout, polls bool) *recorder {
	t.Helper()
	return watchPrefix(t, c, "/locks/", layout, polls)
}

func watchPrefix(t *testing.T, c *zk.Client, prefix string, layout holdfast.Layout, polls bool) *recorder {
	t.Helper()
	r := new(recorder)
	ready := make(chan Summary, 1)
	cfg := Config{Prefix: prefix, Layout: layout, Ready: func(s Summary) { ready <- s }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	report := func(e Event) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
		return nil
	}
	go func() {
		if !polls {
			ended <- Watch(ctx, c, cfg, report)
			return
		}
		cfg.Every = time.Second
		w := &watcher{client: c, cfg: cfg}
		w.model = newModel(grammar(layout), cfg.Prefix, func(e Event) { w.failed = report(e) })
		ended <- w.poll(ctx, time.Hour)
	}()
	r.began = <-ready
	if s := r.began; s.Polls != polls {
		t.Errorf("polls: %v; want %v", s.Polls, polls)
	}
	r.stop = func() error {
		cancel()
		return <-ended
	}
	t.Cleanup(cancel)
	return r
}

// all returns the events so far: each as TYPE LOCK OWNER WAITERS.
func (r *recorder) all() (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		owner := e.Owner
		if !e.Known {
			owner = "?"
		}
		if e.Type == Gap {
			texts = append(texts, fmt.Sprintf("gap %s", strings.TrimPrefix(e.Lock, "/locks/")))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s %s %s %d", e.Type, strings.TrimPrefix(e.Lock, "/locks/"), owner, e.Waiters))
	}
	return texts
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := r.all()
	same := func(got, want string) bool {
		if what, rest, ok := strings.Cut(got, " ? "); ok && strings.HasPrefix(got, "queued ") { // it was quick
			return strings.HasPrefix(want, what+" ") && strings.HasSuffix(want, " "+rest)
		}
		return got == want
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	r.mu.Lock()
	r.events = nil
	r.mu.Unlock()
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func as(owner string) holdfast.Option { return holdfast.WithOwner(owner) }

func later(f func() (*holdfast.Hold, error)) <-chan *holdfast.Hold {
	got := make(chan *holdfast.Hold, 1)
	go func() {
		h, _ := f()
		got <- h
	}()
	synctest.Wait()
	return got
}

func TestWatchTellsWhatHappens(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		ctx := t.Context()
		hold := must[*holdfast.Hold](t)
		r := watch(t, srv.Client(), layouts.Curator, false)

		// A mutex: three clients, one of which gives up.
		a := hold(holdfast.NewMutex(c, "/locks/db/a", as("ann")).Lock(ctx))
		r.expect(t, "acquired db/a ann 0")
		b := later(func() (*holdfast.Hold, error) { return holdfast.NewMutex(c, "/locks/db/a", as("bob")).Lock(ctx) })
		r.expect(t, "queued db/a bob 1")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		gone := later(func() (*holdfast.Hold, error) { return holdfast.NewMutex(c, "/locks/db/a", as("cem")).Lock(short) })
		r.expect(t, "queued db/a cem 2")
		<-gone
		time.Sleep(time.Second)
		r.expect(t, "left db/a cem 1")
		if err := a.Unlock(); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "released db/a ann 1", "acquired db/a bob 0")
		if err := (<-b).Unlock(); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "released db/a bob 0")

		// A lock that is held for no time at all.
		for range 3 {
			h := hold(holdfast.NewMutex(c, "/locks/quick", as("dee")).Lock(ctx))
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		acquired := 0
		for _, text := range r.all() {
			if strings.HasPrefix(text, "acquired quick ") {
				acquired++
			}
		}
		if got := r.all(); len(got) != 6 || acquired != 3 {
			t.Errorf("three short tenures are %q", got)
		}
		r.events = nil

		// Readers, and a writer that becomes a reader.
		rw := func(owner string) *holdfast.RWMutex { return holdfast.NewRWMutex(c, "/locks/rw", as(owner)) }
		r1 := hold(rw("r1").RLock(ctx))
		r2 := hold(rw("r2").RLock(ctx))
		w := later(func() (*holdfast.Hold, error) { return rw("w").Lock(ctx) })
		r3 := later(func() (*holdfast.Hold, error) { return rw("r3").RLock(ctx) })
		r.expect(t, "acquired rw r1 0", "acquired rw r2 0", "queued rw w 1", "queued rw r3 2")
		r1.Unlock()
		r2.Unlock()
		writer := <-w
		r.expect(t, "released rw r1 2", "released rw r2 2", "acquired rw w 1")
		reader := hold(rw("w").RLock(writer.Context()))
		writer.Unlock()
		r.expect(t, "acquired rw r3 0") // and no release: the writer holds the lock still, as a reader
		(<-r3).Unlock()
		reader.Unlock()
		r.expect(t, "released rw r3 0", "released rw w 0")

		// A NodeLock.
		n := hold(holdfast.NewNodeLock(c, "/locks/node", as("eve")).Lock(ctx))
		r.expect(t, "acquired node eve 0")
		n.Unlock()
		r.expect(t, "released node eve 0")

		// A session that ends takes its locks and its places with it.
		d := srv.Client()
		hold(holdfast.NewMutex(d, "/locks/x", as("fay")).Lock(ctx))
		hold(holdfast.NewMutex(c, "/locks/y", as("gus")).Lock(ctx))
		later(func() (*holdfast.Hold, error) { return holdfast.NewMutex(d, "/locks/y", as("fay")).Lock(ctx) })
		r.expect(t, "acquired x fay 0", "acquired y gus 0", "queued y fay 1")
		session := must[*zk.Session](t)(d.Session(ctx))
		srv.Expire(session.ID())
		synctest.Wait()
		got := r.all()
		slices.Sort(got[:min(2, len(got))])
		if len(got) < 2 || got[0] != "left y fay 0" || got[1] != "released x fay 0" {
			t.Errorf("the end of a session is %q", got)
		}
		d.Close()
		if err := r.stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// allLayouts makes a watch tell the layout by the names of the nodes.
var allLayouts holdfast.Layout

// Without a layout, a watch follows all of them. Two in one directory are two locks.
func TestWatchOfAllLayouts(t *testing.T) {
	inBothWays(t, func(t *testing.T, srv *zktest.Server, polls bool) {
		c := srv.Client()
		ctx := t.Context()
		hold := must[*holdfast.Hold](t)
		mutex := func(name, owner string, layout holdfast.Layout) *holdfast.Mutex {
			return holdfast.NewMutex(c, "/locks/"+name, as(owner), holdfast.WithLayout(layout))
		}
		early := hold(mutex("early", "eve", layouts.Kazoo).Lock(ctx))
		r := watch(t, srv.Client(), allLayouts, polls)
		if s := r.began; s.Locks != 1 || s.Held != 1 {
			t.Errorf("it begins with %+v", s)
		}
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(2 * time.Second) // a reading
			r.expect(t, want...)
		}
		for _, layout := range []holdfast.Layout{layouts.Curator, layouts.Kazoo, layouts.WriteLock, layouts.Article, layouts.Named("x")} {
			a := hold(mutex("one", "ann", layout).Lock(ctx))
			expect("acquired one ann 0")
			next := later(func() (*holdfast.Hold, error) { return mutex("one", "bob", layout).Lock(ctx) })
			expect("queued one bob 1")
			a.Unlock()
			b := <-next
			expect("released one ann 1", "acquired one bob 0")
			b.Unlock()
			expect("released one bob 0")
		}
		early.Unlock()
		expect("released early eve 0")
	})
}

func TestWatchKnowsSemaphores(t *testing.T) {
	for _, tt := range []struct{ layout, watched holdfast.Layout }{
		{layouts.Curator, layouts.Curator}, {layouts.Kazoo, layouts.Kazoo}, {layouts.Curator, allLayouts}, {layouts.Kazoo, allLayouts},
	} {
		layout := tt.layout
		t.Run(layout.Name+" watched as "+tt.watched.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := srv.Client()
				ctx := t.Context()
				hold := must[*holdfast.Hold](t)
				r := watch(t, srv.Client(), tt.watched, false)
				sem := func(owner string) *holdfast.Semaphore {
					return holdfast.NewSemaphore(c, "/locks/pool", 2, as(owner), holdfast.WithLayout(layout))
				}
				a := hold(sem("ann").Acquire(ctx, 1))
				time.Sleep(time.Second) // the watch waits a moment for the directory of the permits
				b := hold(sem("bob").Acquire(ctx, 1))
				r.expect(t, "queued pool ann 1", "acquired pool ann 0", "queued pool bob 1", "acquired pool bob 0")
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				gone := later(func() (*holdfast.Hold, error) { return sem("cem").Acquire(short, 1) })
				next := later(func() (*holdfast.Hold, error) { return sem("dee").Acquire(ctx, 2) })
				r.expect(t, "queued pool cem 1", "queued pool dee 2")
				<-gone
				r.expect(t, "left pool cem 1")
				a.Unlock()
				r.expect(t, "released pool ann 1")
				b.Unlock()
				d := <-next
				r.expect(t, "released pool bob 1", "acquired pool dee 0") // both permits are one event
				d.Unlock()
				r.expect(t, "released pool dee 0")
				if layout.Name != layouts.Curator.Name {
					return
				}
				slots := holdfast.NewSlots(c, "/locks/slots", 1, as("eve"))
				s := hold(slots.Acquire(ctx, 1))
				time.Sleep(time.Second)
				s.Unlock()
				r.expect(t, "queued slots eve 1", "acquired slots eve 0", "released slots eve 0")
				// A lock may have the name of a turnstile.
				m := hold(holdfast.NewMutex(c, "/locks/odd/locks", as("fay")).Lock(ctx))
				time.Sleep(time.Second)
				r.expect(t, "acquired odd/locks fay 0")
				m.Unlock()
				r.expect(t, "released odd/locks fay 0")
			})
		})
	}
}

// What happens while the watcher has no connection is found by comparison: what is different is told, and a gap
// where more has happened.
func TestWatchAfterALostConnection(t *testing.T) {
	inBothWays(t, func(t *testing.T, srv *zktest.Server, polls bool) {
		c := srv.Client()
		ctx := t.Context()
		hold := must[*holdfast.Hold](t)
		lock := func(name, owner string) *holdfast.Hold {
			return hold(holdfast.NewMutex(c, "/locks/"+name, as(owner)).Lock(ctx))
		}
		kept, held, busy := lock("kept", "ann"), lock("held", "bob"), lock("busy", "cem")
		waits := later(func() (*holdfast.Hold, error) { return holdfast.NewMutex(c, "/locks/held", as("dee")).Lock(ctx) })

		network := &cable{}
		cfg := srv.Config()
		cfg.Dial = network.through(cfg.Dial)
		mine := must[*zk.Client](t)(zk.Dial(ctx, cfg))
		defer mine.Close()
		r := watch(t, mine, layouts.Curator, polls)
		network.cut()
		synctest.Wait()

		held.Unlock() // one change that can be told
		got := <-waits
		busy.Unlock()
		lock("busy", "eve").Unlock() // a tenure of which nothing is left
		last := lock("busy", "fay")
		lock("new", "gus")
		lock("brief", "hal").Unlock()
		r.expect(t)

		network.mend()
		time.Sleep(5 * time.Second)
		r.expect(t, "gap brief", "gap busy", "released busy cem 0", "released held bob 1",
			"acquired held dee 0", "acquired busy fay 0", "acquired new gus 0")
		got.Unlock()
		kept.Unlock()
		last.Unlock()
		if polls {
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		all := r.all()
		slices.Sort(all)
		if want := []string{"released busy fay 0", "released held dee 0", "released kept ann 0"}; !slices.Equal(all, want) {
			t.Errorf("got %q; want %q", all, want)
		}
	})
}

// A session of the watcher that expires is followed by the next.
func TestWatchOutlivesItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, mine := srv.Client(), srv.Client()
		ctx := t.Context()
		r := watch(t, mine, layouts.Curator, false)
		session := must[*zk.Session](t)(mine.Session(ctx))
		srv.Expire(session.ID())
		h := must[*holdfast.Hold](t)(holdfast.NewMutex(c, "/locks/a", as("ann")).Lock(ctx))
		time.Sleep(5 * time.Second)
		h.Unlock()
		r.expect(t, "acquired a ann 0", "released a ann 0")
	})
}

// Clients lock at random, while connections break. No event is told that did not happen, and without a gap none
// is left out.
func TestWatchOfRandomClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	for seed := range uint64(30) {
		for _, cuts := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d cuts %v", seed, cuts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { watchRandomly(t, seed, cuts) })
			})
		}
	}
}

// A tenure is what a client knows of its own hold.
type tenure struct {
	lock     string
	from, to time.Time // acquired, unlocked; all of them in virtual time
}

func watchRandomly(t *testing.T, seed uint64, cuts bool) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	network := &cable{}
	cfg := srv.Config()
	cfg.Dial = network.through(cfg.Dial)
	mine := must[*zk.Client](t)(zk.Dial(ctx, cfg))
	defer mine.Close()
	r := watch(t, mine, layouts.Curator, seed%5 == 4)

	var mu sync.Mutex
	truth := make(map[int64]*tenure) // by token
	var clients sync.WaitGroup
	for i := range 6 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := srv.Client()
		owner := as(fmt.Sprint("client", i))
		clients.Go(func() {
			for range 20 {
				var l holdfast.Locker
				name := ""
				switch rng.IntN(5) {
				case 0, 1:
					name = fmt.Sprint("mutex", rng.IntN(2))
					l = holdfast.NewMutex(c, "/locks/"+name, owner)
				case 2:
					name = "rw"
					if m := holdfast.NewRWMutex(c, "/locks/rw", owner); rng.IntN(2) == 0 {
						l = m
					} else {
						l = m.RLocker()
					}
				case 3:
					name = "pool"
					l = holdfast.NewSemaphore(c, "/locks/pool", 3, owner).Locker(1 + rng.IntN(2))
				case 4:
					name = "slots"
					l = holdfast.NewSlots(c, "/locks/slots", 2, owner).Locker(1)
				}
				wait, stop := context.WithTimeout(ctx, time.Duration(1+rng.IntN(2000))*time.Millisecond)
				h, err := l.Lock(wait)
				stop()
				if err == nil {
					mu.Lock()
					truth[h.Token()] = &tenure{lock: "/locks/" + name, from: time.Now()}
					mu.Unlock()
					time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
					mu.Lock()
					truth[h.Token()].to = time.Now()
					mu.Unlock()
					if err := h.Unlock(); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		clients.Wait()
		close(over)
	}()
	rng := rand.New(rand.NewPCG(seed, 99))
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-time.After(time.Duration(rng.IntN(2000)) * time.Millisecond):
			if cuts {
				network.cut()
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
				network.mend()
			}
		}
	}
	network.mend()
	time.Sleep(10 * time.Second)
	synctest.Wait()

	gaps := make(map[string]bool)
	acquired, released := make(map[int64]bool), make(map[int64]bool)
	acquiredAt, gaveUp := make(map[int64]time.Time), make(map[int64]bool) // of tokens that no client knows
	for _, e := range r.events {
		if e.Type == Gap {
			gaps[e.Lock] = true
			continue
		}
		if !e.Known {
			continue
		}
		real := truth[e.Token]
		if real == nil && e.Took == 0 && e.Type == Released && acquiredAt[e.Token].Equal(e.At) {
			gaveUp[e.Token] = true // its wait ended at the moment of the handoff
			continue
		}
		if real == nil && e.Type == Acquired {
			acquiredAt[e.Token] = e.At
			continue
		}
		switch {
		case e.Type == Acquired && real.lock != e.Lock:
			t.Errorf("%s: %+v, which nobody did", e.At, e)
		case e.Type == Acquired && acquired[e.Token], e.Type == Released && released[e.Token]:
			t.Errorf("%s: %+v, twice", e.At, e)
		case e.Type == Released && (real == nil || e.At.Before(real.to)):
			t.Errorf("%s: %+v, before it happened", e.At, e)
		case e.Type == Acquired:
			acquired[e.Token] = true
		case e.Type == Released:
			released[e.Token] = true
		case e.Type == Left && real != nil:
			// A client of a semaphore has a token of its own for the place at the turnstile.
			t.Errorf("%s: %+v, which held the lock", e.At, e)
		}
	}
	for token, at := range acquiredAt {
		if !gaveUp[token] {
			t.Errorf("%s: token %d was acquired, which nobody did", at, token)
		}
	}
	unknown := make(map[string]int)
	for _, e := range r.events {
		if !e.Known && e.Type == Acquired {
			unknown[e.Lock]++
		}
	}
	missing := make(map[string]int)
	for token, real := range truth {
		if !acquired[token] {
			missing[real.lock]++
		}
	}
	if len(gaps) > 0 && !cuts && seed%5 != 4 {
		t.Errorf("gaps without a cut: %v", gaps)
	}
	for lock, n := range missing {
		if n > unknown[lock] && !gaps[lock] {
			t.Errorf("%s: %d tenures are missing, %d are of unknown clients, and there is no gap", lock, n, unknown[lock])
		}
	}
	if len(truth) == 0 || len(acquired) == 0 {
		t.Errorf("%d tenures, %d events of them", len(truth), len(acquired))
	}
}

// A node that is gone between the reads of its directory and of itself leaves a gap, whether or not the
// directory was known before.
func TestNodesThatGoDuringTheReadLeaveAGap(t *testing.T) {
	stat := func(czxid int64, cversion int32) info {
		return info{known: true, stat: zk.Stat{Czxid: czxid, Cversion: cversion}}
	}
	const name = "_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-0000000000"
	var got []Event
	m := newModel(grammar(layouts.Curator), "/locks/", func(e Event) { got = append(got, e) })
	m.load(tree{"/locks": {info: stat(1, 1), children: []string{"old"}}, "/locks/old": {info: stat(2, 0)}}, time.Now())
	m.update(tree{
		"/locks":     {info: stat(1, 2), children: []string{"old", "new"}},
		"/locks/old": {info: stat(2, 1), children: []string{name}},
		"/locks/new": {info: stat(3, 1), children: []string{name}},
	}, time.Now(), make(map[string]string))
	if len(got) != 2 || got[0].Type != Gap || got[0].Lock != "/locks/new" || got[1].Type != Gap || got[1].Lock != "/locks/old" {
		t.Errorf("got %+v; want a gap for each lock", got)
	}
	got = nil
	m.update(tree{
		"/locks":     {info: stat(1, 2), children: []string{"old", "new"}},
		"/locks/old": {info: stat(2, 2)},
		"/locks/new": {info: stat(3, 2)},
	}, time.Now(), make(map[string]string))
	if len(got) != 0 {
		t.Errorf("got %+v; the removals were known", got)
	}
}

// Ten thousand locks cost the watch one read each at the beginning, and nothing later.
func TestWatchOfManyLocks(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 locks")
	}
	const locks = 10_000
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	if _, _, err := c.Create(t.Context(), "/locks", nil, zk.Persistent); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < locks; i += 100 {
		var ops []zk.Op
		for n := i; n < i+100; n++ {
			dir := fmt.Sprintf("/locks/lock%05d", n)
			ops = append(ops, zk.CreateOp(dir, nil, zk.Container), zk.CreateOp(dir+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte(`{"owner":"ann"}`), zk.EphemeralSequential))
		}
		if _, err := c.Pipeline(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	mine := srv.Client()
	began := time.Now()
	r := watch(t, mine, layouts.Curator, false)
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("the watch of %d locks began after %v, and keeps %d MiB", locks, took, (after.HeapAlloc-before.HeapAlloc)>>20)
	h := must[*holdfast.Hold](t)(holdfast.NewMutex(c, "/locks/other", as("bob")).Lock(t.Context()))
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(r.all()) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("got %q", r.all())
		}
	}
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
