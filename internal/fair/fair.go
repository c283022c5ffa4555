// Package fair shares what is scarce among clients, so that none can keep the others out: connections, streams, bytes and turns.
//
// A client is known by keys, such as its user, its login and its address. Its share counts for each of them. The one with
// the most by all of its keys together gives way first. So a single address with many users, and a single user at many
// addresses, are one large client each.
package fair

import (
	"context"
	"sync"
)

// A Pool is an amount of something that clients use for as long as they like: bytes, connections. If too much is used, the
// newest use of the client with the most ends. A Pool is safe for concurrent use.
type Pool struct {
	most int64

	mu   sync.Mutex // guards the fields below, and those of each Use
	used int64
	of   shares
	uses []*Use // the oldest first
}

// shares are what clients have, by key.
type shares map[string]int64

func (s shares) add(keys []string, n int64) {
	for _, k := range keys {
		if s[k] += n; s[k] == 0 {
			delete(s, k)
		}
	}
}

// sum returns what the client with these keys has.
func (s shares) sum(keys []string) (n int64) {
	for _, k := range keys {
		n += s[k]
	}
	return n
}

// NewPool returns a Pool of an amount.
func NewPool(most int64) *Pool { return &Pool{most: most, of: make(shares)} }

// A Use is what somebody has of a Pool.
type Use struct {
	pool  *Pool
	keys  []string
	n     int64
	end   func()
	spare bool
	over  bool
}

// Enter returns a Use of nothing yet for the client with these keys. If it has to give way, end is called once. It must
// neither wait nor use the Pool.
func (p *Pool) Enter(end func(), keys ...string) *Use {
	u := &Use{pool: p, keys: keys, end: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses = append(p.uses, u)
	return u
}

// Grow adds n to the Use. If too much of the Pool is used then, uses end until it is not. Grow returns false if u has ended,
// now or before.
func (u *Use) Grow(n int64) bool {
	p := u.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.over {
		return false
	}
	u.n += n
	p.used += n
	p.of.add(u.keys, n)
	for p.used > p.most {
		first := p.first()
		p.leave(first)
		first.end()
	}
	return !u.over
}

// first returns the Use that gives way: the newest one of the client with the most, but before it those that are spare. p.mu
// must be held.
func (p *Pool) first() *Use {
	var first *Use
	var most int64
	for _, u := range p.uses {
		if u.n == 0 {
			continue
		}
		n := p.of.sum(u.keys)
		if first == nil || n > most || n == most && (u.spare || !first.spare) {
			first, most = u, n
		}
	}
	return first
}

// Spare tells whether the client would hardly miss the Use.
func (u *Use) Spare(spare bool) {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	u.spare = spare
}

// Leave ends the Use. Further calls do nothing.
func (u *Use) Leave() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	u.pool.leave(u)
}

// leave takes u out of the Pool. p.mu must be held.
func (p *Pool) leave(u *Use) {
	if u.over {
		return
	}
	u.over = true
	p.used -= u.n
	p.of.add(u.keys, -u.n)
	for i, other := range p.uses {
		if other == u {
			p.uses = append(p.uses[:i:i], p.uses[i+1:]...)
			return
		}
	}
}

// Turns are a few slots for work, for which clients wait. The next slot is for the client that has the fewest, and among
// equals for the one that has waited longest. Turns are safe for concurrent use.
type Turns struct {
	mu      sync.Mutex // guards the fields below
	free    int
	of      shares
	waiting []*turn // the oldest first
}

// A turn is a wait for a slot.
type turn struct {
	keys []string
	has  chan struct{} // closed with the slot
}

// NewTurns returns Turns with a number of slots.
func NewTurns(slots int) *Turns { return &Turns{free: slots, of: make(shares)} }

// Take waits for a slot for the client with these keys. The caller calls done once. If ctx ends first, the error is its cause.
func (t *Turns) Take(ctx context.Context, keys ...string) (done func(), err error) {
	w := &turn{keys, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.next()
	t.mu.Unlock()
	select {
	case <-w.has:
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		for i, other := range t.waiting {
			if other == w {
				t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
				return nil, context.Cause(ctx)
			}
		}
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free++
		t.of.add(keys, -1)
		t.next()
	}, nil
}

// next gives the free slots away. t.mu must be held.
func (t *Turns) next() {
	for t.free > 0 && len(t.waiting) > 0 {
		at := 0
		for i, w := range t.waiting {
			if t.of.sum(w.keys) < t.of.sum(t.waiting[at].keys) {
				at = i
			}
		}
		w := t.waiting[at]
		t.waiting = append(t.waiting[:at:at], t.waiting[at+1:]...)
		t.free--
		t.of.add(w.keys, 1)
		close(w.has)
	}
}
