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

// A counter has the wrong guesses that are not forgotten, as of the latest one, and the attempts that are undecided.
type counter struct {
	wrong, undecided int
	at               time.Time // of the latest wrong guess
}

func (c counter) count(now time.Time) int {
	return max(0, c.wrong-int(now.Sub(c.at)/fade)) + c.undecided
}

// decided ends an attempt. It may have begun before the name was known at its address.
func (c *counter) decided() { c.undecided = max(0, c.undecided-1) }

// A pair is a name at an address.
type pair struct{ name, address string }

// A Limiter counts wrong guesses. It is safe for concurrent use.
type Limiter struct {
	seed maphash.Seed

	mu       sync.Mutex // guards the fields below
	counters []counter  // made for the first attempt
	proven   map[pair]*counter
}

// NewLimiter returns a Limiter that knows no guess.
func NewLimiter() *Limiter {
	return &Limiter{seed: maphash.MakeSeed(), proven: make(map[pair]*counter)}
}

// An Attempt is a guess whose outcome is not known yet. It counts as wrong until then. The caller calls Right, Wrong or Undo,
// once.
type Attempt struct {
	limiter *Limiter
	pair    pair
}

// Begin begins an attempt with the password of a name. If it has to wait, Begin returns how long, and there is no attempt.
// With an empty name, only the address counts.
func (l *Limiter) Begin(name, address string) (a Attempt, wait time.Duration) {
	now := time.Now()
	a = Attempt{l, pair{name, address}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counters == nil {
		l.counters = make([]counter, slots)
	}
	if wait = l.wait(a.pair, now); wait == 0 {
		l.change(a.pair, func(c *counter) { c.undecided++ })
	}
	return a, wait
}

// Forget forgets all wrong guesses: the passwords are others now, so a client that was wrong can be right.
func (l *Limiter) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.counters {
		l.counters[i] = counter{undecided: l.counters[i].undecided}
	}
	for _, c := range l.proven {
		*c = counter{undecided: c.undecided}
	}
}

// wait returns how long an attempt has to wait. l.mu must be held.
func (l *Limiter) wait(p pair, now time.Time) time.Duration {
	own, proven := l.own(p)
	n := own.count(now)
	if n == 0 {
		return 0
	}
	if !proven && p.name != "" {
		n = max(n, l.least("name", p.name).count(now))
	}
	if n < free {
		return 0
	}
	pause := delay(n)
	if own.undecided > 0 {
		return pause // it will count from the outcome
	}
	return max(0, own.at.Add(pause).Sub(now))
}

// own returns the counter of an attempt: of its name at its address if that was right before, otherwise of its address. l.mu
// must be held.
func (l *Limiter) own(p pair) (c counter, proven bool) {
	if known := l.proven[p]; known != nil {
		return *known, true
	}
	return l.least("address", p.address), false
}

// delay returns the pause behind a number of wrong guesses.
func delay(wrong int) time.Duration {
	d := time.Second
	for ; wrong > free && d < longest; wrong-- {
		d *= 2
	}
	return min(d, longest)
}

// Wrong tells that the password was wrong.
func (a Attempt) Wrong() {
	now := time.Now()
	a.limiter.mu.Lock()
	defer a.limiter.mu.Unlock()
	a.limiter.change(a.pair, func(c *counter) {
		c.decided()
		*c = counter{c.count(now) - c.undecided + 1, c.undecided, now}
	})
}

// Undo takes back an attempt that has told the client nothing.
func (a Attempt) Undo() {
	a.limiter.mu.Lock()
	defer a.limiter.mu.Unlock()
	a.limiter.change(a.pair, (*counter).decided)
}

// Right tells that the password was right. The name is then known at the address. Earlier wrong guesses stay: a user could
// otherwise guess the passwords of others, and log in in between.
func (a Attempt) Right() {
	a.Undo()
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proven[a.pair] != nil {
		return
	}
	for other, c := range l.proven {
		if len(l.proven) < mostProven {
			break
		}
		if c.undecided == 0 {
			delete(l.proven, other)
		}
	}
	l.proven[a.pair] = &counter{}
}

// Others returns how many wrong or undecided attempts there are from its address besides a. For a name that was right from
// this address before, only attempts at this name count.
func (a Attempt) Others() int {
	a.limiter.mu.Lock()
	defer a.limiter.mu.Unlock()
	own, _ := a.limiter.own(a.pair)
	return max(0, own.count(time.Now())-1)
}

// change changes the counters of an attempt. l.mu must be held.
func (l *Limiter) change(p pair, f func(*counter)) {
	if c := l.proven[p]; c != nil {
		f(c)
	}
	both := func(kind, key string) {
		i := l.places(kind, key)
		if f(&l.counters[i[0]]); i[1] != i[0] {
			f(&l.counters[i[1]])
		}
	}
	both("address", p.address)
	if p.name != "" {
		both("name", p.name)
	}
}

// least returns the lower counter of a key. l.mu must be held.
func (l *Limiter) least(kind, key string) counter {
	i := l.places(kind, key)
	a, b := l.counters[i[0]], l.counters[i[1]]
	if b.wrong+b.undecided < a.wrong+a.undecided {
		return b
	}
	return a
}

// places returns the two counters of a key. Nobody can find keys with the same places: the seed is random.
func (l *Limiter) places(kind, key string) [2]uint64 {
	h := maphash.String(l.seed, kind+" "+key)
	return [2]uint64{h % slots, h >> 32 % slots}
}
