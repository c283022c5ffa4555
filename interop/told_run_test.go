//go:build unix

package interop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// A toldRun is one fault with some holders of a lock each, and a waiter for each.
type toldRun struct {
	t       *testing.T
	ctx     context.Context
	z       *peers.ZooKeeper
	setting toldSetting
	dir     string
	leader  int
	pairs   []*toldPair
}

// A toldPair is a holder and a waiter of one lock.
type toldPair struct {
	path   string
	hold   *holdfast.Hold
	ended  chan time.Time // when the holder's Context ended
	next   chan granted   // when the waiter's Lock returned
	wanted []string       // servers of the holder
}

// granted is the time at which a waiter acquired its lock.
type granted struct {
	at    time.Time
	told  bool // the former holder's Context had ended
	hold  *holdfast.Hold
	error error
}

// config adapts a client's configuration.
func (r *toldRun) config(servers []string) func(*zk.Config) {
	return func(cfg *zk.Config) {
		cfg.SessionTimeout, cfg.TickTime, cfg.Servers = r.setting.timeout, r.setting.tick, servers
	}
}

// lock makes n holders that reach holderServers take a lock each. As many waiters of one client
// that reaches waiterServers queue behind them.
func (r *toldRun) lock(n int, holderServers func(i int) []string, waiterServers []string) {
	r.t.Helper()
	url := "zk://" + waiterServers[0]
	waiter := dialURL(r.t, url, r.config(waiterServers))
	for i := range n {
		p := &toldPair{
			path: fmt.Sprintf("%s/%d", r.dir, i), wanted: holderServers(i),
			ended: make(chan time.Time, 1), next: make(chan granted, 1),
		}
		c := dialURL(r.t, url, r.config(p.wanted))
		var err error
		p.hold, err = holdfast.NewMutex(c, p.path).Lock(r.ctx)
		must(r.t, err)
		context.AfterFunc(p.hold.Context(), func() { p.ended <- time.Now() })
		go func() {
			h, err := holdfast.NewMutex(waiter, p.path).Lock(r.ctx)
			p.next <- granted{time.Now(), p.hold.Context().Err() != nil, h, err}
		}()
		r.pairs = append(r.pairs, p)
	}
	for _, p := range r.pairs {
		awaitQueue(r.ctx, r.t, waiter, p.path, 2)
	}
}

// awaitQueue returns when a node has n children.
func awaitQueue(ctx context.Context, t *testing.T, c *zk.Client, path string, n int) {
	t.Helper()
	must(t, catchUp(ctx, c, path))
	for {
		names, _, w, err := c.ChildrenW(ctx, path)
		must(t, err)
		if len(names) == n {
			w.Stop()
			return
		}
		select {
		case <-w.C:
		case <-ctx.Done():
			t.Fatalf("%s has the children %q; want %d", path, names, n)
		}
	}
}

// toldResult is the outcome of the pairs of a fault.
type toldResult struct {
	mu      sync.Mutex
	cuts    int
	margins []time.Duration // from the end of a Context to the next Lock
	late    int             // Contexts that had not ended when the next client acquired the lock
	kept    int             // sessions that survived
	early   []time.Duration // from the fault to the end of a Context
}

// settle checks every pair after the fault at the given time. Either the next client acquired
// the lock after its holder was told, or the holder has kept it. Only if healed is not nil may
// it have kept the lock; settle checks that once healed is closed.
func (r *toldRun) settle(hurt time.Time, healed <-chan struct{}, result *toldResult) {
	var wg sync.WaitGroup
	for _, p := range r.pairs {
		wg.Go(func() {
			kept := false
			if healed != nil {
				select {
				case <-healed:
					kept = r.keeps(p)
				case <-p.hold.Context().Done():
				}
			}
			if kept {
				if err := p.hold.Unlock(); err != nil {
					r.t.Errorf("Unlock of a lock that was kept: %v", err)
				}
			}
			next := r.receive(p)
			if next.hold == nil {
				return
			}
			var ended time.Time
			select {
			case ended = <-p.ended:
			case <-r.ctx.Done():
				r.t.Errorf("%s: the former holder was never told", p.path)
				return
			}
			result.mu.Lock()
			defer result.mu.Unlock()
			if kept {
				result.kept++
				return
			}
			if !next.told {
				result.late++
			}
			result.margins = append(result.margins, next.at.Sub(ended))
			result.early = append(result.early, ended.Sub(hurt))
		})
	}
	wg.Wait()
	result.mu.Lock()
	defer result.mu.Unlock()
	result.cuts++
}

// keeps asks the ensemble whether the lock is still the holder's.
func (r *toldRun) keeps(p *toldPair) bool {
	for {
		_, err := p.hold.Commit(r.ctx)
		switch {
		case err == nil:
			return true
		case p.hold.Context().Err() != nil:
			return false
		case r.ctx.Err() != nil:
			r.t.Errorf("%s: neither kept nor lost: %v", p.path, err)
			return false
		}
	}
}

// receive waits for the waiter's turn and checks it.
func (r *toldRun) receive(p *toldPair) granted {
	next := <-p.next
	switch {
	case next.error != nil:
		r.t.Errorf("%s: the server never gave the lock to the next (the fault had no effect, or it is stuck): %v; the holder's Context: %v",
			p.path, next.error, context.Cause(p.hold.Context()))
		return granted{}
	case !next.told && !r.setting.hopeless:
		r.t.Errorf("%s: the next holds the lock, and its former holder has not been told", p.path)
		return granted{} // the end may never come
	case next.hold.Token() <= p.hold.Token():
		r.t.Errorf("%s: token %d came after %d; want it to grow", p.path, next.hold.Token(), p.hold.Token())
	}
	if err := next.hold.Unlock(); err != nil {
		r.t.Logf("%s: Unlock by the next: %v", p.path, err) // its own session may be over by now
	}
	return next
}

// String formats the measurements.
func (r *toldResult) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.margins) == 0 {
		return fmt.Sprintf("%d faults, all %d holders kept their lock", r.cuts, r.kept)
	}
	slices.Sort(r.margins)
	slices.Sort(r.early)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	n := len(r.margins)
	return fmt.Sprintf("%d faults, %d holders lost their lock, %d kept it; %d told too late; told before the next had it: smallest margin %v, median %v, largest %v; told %v to %v after the fault",
		r.cuts, n, r.kept, r.late, round(r.margins[0]), round(r.margins[n/2]), round(r.margins[n-1]), round(r.early[0]), round(r.early[n-1]))
}
