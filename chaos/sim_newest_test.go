package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/internal/queue"
	"holdfast/layout"
	"holdfast/zk"
)

// newestAlone is the value of options.Locks for worlds with WithSupersede.
const newestAlone = "newest"

// TestSimulationOfTheNewest runs worlds in which waiters take each other's places, beside plain waiters, bounded ones,
// and raw nodes as those of other libraries. In half of the worlds, nobody breaks locks. So no holder, and no raw node, may
// lose its node there while its session lives.
func TestSimulationOfTheNewest(t *testing.T) {
	simulateOthers(t, options{Locks: newestAlone}, fewSeeds/2, func(s *summary, n int) {
		did := s.Results.Onces
		t.Logf("figure: %d waits superseded, %d dropped from full queues, %d claims in the order of their arrival", did["superseded"], did["full"], did["ordered"])
		if did["superseded"] < n || did["ordered"] < n/2 || did["raw"] < n/2 {
			t.Errorf("%v from %d seeds: too few to tell anything", did, n)
		}
	})
}

// successions is what the calls on a lock with WithSupersede have told.
type successions struct {
	*world
	path string

	full, raw atomic.Int64 // calls that found too many waiters, nodes of bystanders

	mu    sync.Mutex
	calls map[string]*succession // by the owner
	first map[int64]int64        // the arrivals of claims, by token
}

// A succession is one call. Its owner is its name.
type succession struct {
	began, ended time.Duration // ended: 0 while it waits
	err          error         // nil: it has acquired the lock
	by           string        // the owner of the call that has its place
}

// settled reports whether the call has left no node that may still come into the queue, or go.
func (c *succession) settled() bool {
	return c.ended != 0 && (c.err == nil || errors.Is(c.err, holdfast.ErrSuperseded))
}

// chooseNewest returns a lock with superseding, bounded and plain callers.
func (w *world) chooseNewest() []lockSpec {
	path := locksRoot + "/a"
	lay := oneOf(w, layout.Curator, layout.Curator, layout.GoZookeeper, layout.Kazoo)
	s := &successions{world: w, path: path, calls: make(map[string]*succession), first: make(map[int64]int64)}
	w.newest = s
	spec := lockSpec{ids: []lockID{{path, path}}, dirs: []string{path}, path: path, layout: lay, makesRoom: true}
	var n atomic.Int64
	spec.of = func(c *zk.Client) (all []locker) {
		op := chaos.Op{Lock: path, Type: chaos.Mutex}
		with := func(opts ...holdfast.Option) *holdfast.Mutex {
			return holdfast.NewMutex(c, path, w.options(append(opts, holdfast.WithLayout(lay))...)...)
		}
		of, calls := n.Add(1), 0
		call := func(lock func(holdfast.Locker, context.Context) (*holdfast.Hold, error)) func(context.Context) (*holdfast.Hold, error) {
			return func(ctx context.Context) (*holdfast.Hold, error) {
				s.mu.Lock()
				calls++
				owner := fmt.Sprintf("call %d of %d", calls, of)
				s.mu.Unlock()
				m := with(holdfast.WithSupersede(), holdfast.WithOwner(owner))
				return s.call(c, owner, func() (*holdfast.Hold, error) { return lock(m, ctx) })
			}
		}
		newest := locker{parts: []chaos.Op{op}, lock: call(holdfast.Locker.Lock), try: call(holdfast.Locker.TryLock)}
		plain, value := with(), with(holdfast.WithValue([]byte("10.0.0.5"))) // as Curator's
		bounded := with(holdfast.WithQueueMax(3, w.seed%2 == 0))
		all = []locker{
			newest, newest, newest,
			{parts: []chaos.Op{op}, lock: plain.Lock, try: plain.TryLock},
			{parts: []chaos.Op{op}, lock: value.Lock, try: value.TryLock},
			{parts: []chaos.Op{op}, lock: bounded.Lock, try: bounded.TryLock},
		}
		for i := range all {
			if w.untouched() { // a bystander, which is in no history, makes a try fail
				all[i].try = nil
			}
		}
		return all
	}
	return []lockSpec{spec}
}

// call calls lock, and notes what comes of it.
func (s *successions) call(c *zk.Client, owner string, lock func() (*holdfast.Hold, error)) (*holdfast.Hold, error) {
	call := &succession{began: time.Since(s.began)}
	s.mu.Lock()
	s.calls[owner] = call
	s.mu.Unlock()
	h, err := lock()
	s.mu.Lock()
	call.ended, call.err = time.Since(s.began), err
	if by, ok := holdfast.SupersededBy(err); ok {
		call.by = by.Owner
	}
	s.mu.Unlock()
	if err != nil {
		return h, err
	}
	if s.untouched() {
		context.AfterFunc(h.Context(), func() { s.lost(c, h) })
	}
	data, _, err := c.Get(h.Context(), h.Path())
	var note struct{ Arrived int64 }
	if err == nil && json.Unmarshal(data, &note) == nil {
		s.mu.Lock()
		s.first[h.Token()] = max(note.Arrived, 0)
		if note.Arrived == 0 {
			s.first[h.Token()] = h.Token()
		}
		s.mu.Unlock()
	}
	return h, nil
}

// untouched reports whether nobody breaks locks, or deletes nodes, in this world.
func (w *world) untouched() bool { return w.kind == newestAlone && w.seed%2 == 1 }

// lost checks a Hold that has ended: nobody may have removed its node while its session lives.
func (s *successions) lost(c *zk.Client, h *holdfast.Hold) {
	cause := context.Cause(h.Context())
	if !errors.Is(cause, holdfast.ErrLost) || !errors.Is(cause, queue.ErrGone) || s.draining.Load() {
		return
	}
	time.Sleep(s.timeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if session, err := c.Session(ctx); err == nil && session.ID() == h.SessionID() {
		s.found("holder removed", s.path, "token %d: %v, and its session lives", h.Token(), cause)
	}
}

// check looks at the calls when everything is whole again. Each that was superseded was so by a call that had begun by
// then, and had not ended before it began. The last in such a chain has acquired the lock or has given up. No older
// arrival has acquired the lock after a newer one, as long as the directory with the record is there.
func (s *successions) check(ops []chaos.Op) (wrong []chaos.Violation) {
	found := func(format string, args ...any) {
		wrong = append(wrong, chaos.Violation{Oracle: "newest", Lock: s.path, Text: fmt.Sprintf(format, args...)})
	}
	s.onces["full"], s.onces["raw"] = int(s.full.Load()), int(s.raw.Load())
	for owner, c := range s.calls {
		if !errors.Is(c.err, holdfast.ErrSuperseded) {
			continue
		}
		s.onces["superseded"]++
		seen := map[string]bool{}
		for at := c; errors.Is(at.err, holdfast.ErrSuperseded); {
			next := s.calls[at.by]
			switch {
			case next == nil:
				found("%s was superseded by %q, which is no call", owner, at.by)
			case next.began > at.ended, next.settled() && next.ended < at.began:
				found("%s (%v to %v) was superseded by %s (%v to %v)", owner, at.began, at.ended, at.by, next.began, next.ended)
			case seen[at.by]:
				found("%s was superseded in a circle: %v", owner, seen)
			default:
				seen[at.by] = true
				at = next
				continue
			}
			break
		}
	}
	var claims []chaos.Op
	for _, o := range ops {
		if o.Lock == s.path && (o.Kind == chaos.Acquire || o.Kind == chaos.Try) && o.Outcome == chaos.OK && s.first[o.Token] != 0 {
			claims = append(claims, o)
		}
	}
	slices.SortFunc(claims, func(a, b chaos.Op) int { return int(a.Return - b.Return) })
	for i := 1; i < len(claims) && s.untouched(); i++ { // else somebody may have deleted the directory, and the record
		before, after := claims[i-1], claims[i]
		if after.Seq < before.Seq { // in a new directory
			continue
		}
		s.onces["ordered"]++
		if s.first[before.Token] > s.first[after.Token] {
			found("the arrival %d acquired the lock (%v) after the newer %d (%v)", s.first[after.Token], after, s.first[before.Token], before)
		}
	}
	return wrong
}

// A bystander has raw nodes in the queue, as a client of another library. Nobody may remove them.
type bystander struct {
	*guest
	layout holdfast.Layout
	path   string
}

func (b *bystander) work(ctx context.Context) {
	for ctx.Err() == nil && !b.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(b.rng.ExpFloat64()*float64(b.timeout)))
		once, cancel := context.WithTimeout(ctx, 4*b.timeout)
		b.stand(once)
		cancel()
	}
}

// stand has one node for some time.
func (b *bystander) stand(ctx context.Context) {
	session, err := b.client.zk.Load().Session(ctx)
	if err != nil {
		return
	}
	id := fmt.Sprintf("%016x%016x", b.rng.Uint64(), b.rng.Uint64())
	prefix := strings.NewReplacer("{uuid}", id, "{hex}", id).Replace(b.layout.Mutex)
	path, stat, err := session.Create(ctx, b.path+"/"+prefix, []byte(`{"owner":"other","sort":"other"}`), zk.EphemeralSequential)
	defer b.leave(session, prefix)
	if err != nil {
		return
	}
	(&worker{}).sleep(ctx, time.Duration(b.rng.ExpFloat64()*float64(b.timeout/4)))
	_, there, err := session.Exists(ctx, path)
	if err == nil && !there && session.Context().Err() == nil {
		b.found("bystander", b.path, "the node %s of 0x%x (zxid %d) was removed, and its session lives", path, uint64(session.ID()), stat.Czxid)
	}
	b.newest.raw.Add(1)
}

// leave removes the node, also one that was made by a request without an answer.
func (b *bystander) leave(session *zk.Session, prefix string) {
	ctx := session.Context()
	for ctx.Err() == nil {
		err := queue.Barrier(ctx, session, b.path)
		var listed []string
		if err == nil {
			listed, _, err = session.Children(ctx, b.path)
		}
		for _, name := range listed {
			if strings.HasPrefix(name, prefix) {
				err = session.Delete(ctx, b.path+"/"+name, zk.AnyVersion)
			}
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			return
		}
		(&worker{}).sleep(ctx, 100*time.Millisecond)
	}
}

// inviteBystanders starts one in each client, in the worlds in which nobody breaks locks.
func (w *world) inviteBystanders(ctx context.Context, guests *sync.WaitGroup) {
	if w.newest == nil {
		return
	}
	w.onces = make(map[string]int)
	if !w.untouched() {
		return
	}
	for i, c := range w.clients {
		b := &bystander{guest: &guest{world: w, client: c, number: i, rng: rand.New(rand.NewPCG(w.seed, uint64(4000+i)))}, layout: w.locks[0].layout, path: w.newest.path}
		guests.Go(func() { b.work(ctx) })
	}
}
