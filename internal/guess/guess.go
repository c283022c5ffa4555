// Package guess delays clients that guess passwords. The delays grow with the wrong guesses of an address and at a name.
//
// An address without a wrong guess never has to wait: a crowd of guessers at a name keeps nobody else from using it. A
// client that was right from an address before waits for wrong guesses at its own name from this address alone.
package guess

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// free is how many wrong guesses have no delay. Each further one doubles it: 1 s, 2 s, 4 s, up to longest.
	free    = 5
	longest = 5 * time.Minute
	// fade is after how long a wrong guess is forgotten.
	fade = 5 * time.Minute

	// slots is how many counters a Limiter has. Each address and each name has two of them, and the lower one counts. So
	// memory is bounded, and a flood of addresses neither frees a guesser nor locks out a new address.
	slots = 1 << 13
	// mostProven is how many pairs of name and address a Limiter remembers that were right.
	mostProven = 4096
)

// A counter has the wrong guesses that are not forgotten, as of the latest one.
type counter struct {
	wrong int
	at    time.Time
}

func (c counter) count(now time.Time) int { return max(0, c.wrong-int(now.Sub(c.at)/fade)) }

// A pair is a name at an address.
type pair struct{ name, address string }

// A Limiter counts wrong guesses. It is safe for concurrent use.
type Limiter struct {
	seed maphash.Seed

	mu       sync.Mutex // guards the fields below
	counters []counter  // made for the first attempt
	proven   map[pair]counter
}

// NewLimiter returns a Limiter that knows no guess.
func NewLimiter() *Limiter {
	return &Limiter{seed: maphash.MakeSeed(), proven: make(map[pair]counter)}
}

// An Attempt is a guess whose outcome is not known yet. It counts as wrong until Right or Undo is called.
type Attempt struct {
	limiter *Limiter
	pair    pair
}

// Begin begins an attempt with the password of a name. If it has to wait, Begin returns how long, and counts nothing.
// With an empty name, only the address counts.
func (l *Limiter) Begin(name, address string) (a Attempt, wait time.Duration) {
	now := time.Now()
	a = Attempt{l, pair{name, address}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counters == nil {
		l.counters = make([]counter, slots)
	}
	if wrong, at := l.standing(a.pair, now); wrong >= free {
		if wait = at.Add(delay(wrong)).Sub(now); wait > 0 {
			return a, wait
		}
	}
	l.add(a.pair, 1, now)
	return a, 0
}

// standing returns the wrong guesses that count for a pair, and the time of its own latest one. l.mu must be held.
func (l *Limiter) standing(p pair, now time.Time) (wrong int, at time.Time) {
	if own, proven := l.proven[p]; proven {
		return own.count(now), own.at
	}
	own := l.least("address", p.address)
	if wrong = own.count(now); wrong == 0 {
		return 0, own.at
	}
	if p.name != "" {
		wrong = max(wrong, l.least("name", p.name).count(now))
	}
	return wrong, own.at
}

// delay returns the pause behind a number of wrong guesses.
func delay(wrong int) time.Duration {
	d := time.Second
	for ; wrong > free && d < longest; wrong-- {
		d *= 2
	}
	return min(d, longest)
}

// Undo takes back an attempt that has told the client nothing.
func (a Attempt) Undo() {
	a.limiter.mu.Lock()
	defer a.limiter.mu.Unlock()
	a.limiter.add(a.pair, -1, time.Now())
}

// Right tells that the password was right. The attempt counts as none, and the name is known at the address. Earlier wrong
// guesses stay: a user could otherwise guess the passwords of others, and log in in between.
func (a Attempt) Right() {
	a.Undo()
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, proven := l.proven[a.pair]; proven {
		return
	}
	for other := range l.proven {
		if len(l.proven) < mostProven {
			break
		}
		delete(l.proven, other)
	}
	l.proven[a.pair] = counter{}
}

// Others returns how many wrong or undecided attempts there are from its address besides a. For a name that was right from
// this address before, only attempts at this name count.
func (a Attempt) Others() int {
	now := time.Now()
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	own, proven := l.proven[a.pair]
	if !proven {
		own = l.least("address", a.pair.address)
	}
	return max(0, own.count(now)-1)
}

// add adds n wrong guesses. l.mu must be held.
func (l *Limiter) add(p pair, n int, now time.Time) {
	if c, proven := l.proven[p]; proven {
		l.proven[p] = c.add(n, now)
	}
	for _, i := range l.places("address", p.address) {
		l.counters[i] = l.counters[i].add(n, now)
	}
	if p.name == "" {
		return
	}
	for _, i := range l.places("name", p.name) {
		l.counters[i] = l.counters[i].add(n, now)
	}
}

func (c counter) add(n int, now time.Time) counter {
	return counter{max(0, c.count(now)+n), now}
}

// least returns the lower counter of a key. l.mu must be held.
func (l *Limiter) least(kind, key string) counter {
	i := l.places(kind, key)
	a, b := l.counters[i[0]], l.counters[i[1]]
	if b.wrong < a.wrong {
		return b
	}
	return a
}

// places returns the two counters of a key. Nobody can find keys with the same places: the seed is random.
func (l *Limiter) places(kind, key string) [2]uint64 {
	h := maphash.String(l.seed, kind+" "+key)
	return [2]uint64{h % slots, h >> 32 % slots}
}
