package htpasswd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"holdfast/internal/guess"
)

// ErrWrong is the error of a wrong name or password.
var ErrWrong = errors.New("wrong name or password")

// A Wait is the error of an attempt that comes too early after wrong ones: how long it has to wait.
type Wait time.Duration

func (w Wait) Error() string { return fmt.Sprintf("wait %v", time.Duration(w)) }

// A Gate lets users in. Wrong guesses are delayed, see package guess. A hash of bcrypt takes as much of a processor as it
// can get, so at most two are computed at a time: one for addresses with wrong guesses, and one for all others. The
// latter never wait for the hash of a guesser. A Gate outlives the Users, and is safe for concurrent use.
type Gate struct {
	guesses *guess.Limiter
	compare func(u *Users, name, password string) (User, bool)

	mu      sync.Mutex // guards the fields below
	hashing [2]bool    // by lane
	waiting []*hashing // the oldest first
	begun   map[attempted]chan struct{}
}

// An attempted is the proof of a name and password, and an address: many jobs of one machine may log in at the same time.
type attempted struct {
	proof   [sha256.Size]byte
	address string
}

// The lanes of hashes.
const (
	clean = iota
	guessing
)

// A hashing is a wait for the turn to hash.
type hashing struct {
	attempt guess.Attempt
	turn    chan int // gets the lane
}

// NewGate returns a Gate that knows no guess.
func NewGate() *Gate {
	return &Gate{guesses: guess.NewLimiter(), compare: (*Users).compare, begun: make(map[attempted]chan struct{})}
}

// Check returns the user if the password is right. Otherwise the error is ErrWrong, a Wait, or the cause of the end of ctx.
func (g *Gate) Check(ctx context.Context, u *Users, name, password, address string) (User, error) {
	if u.none.hash == nil { // nobody can guess these passwords: guessers keep nobody out
		if user, ok := u.proven(name, password); ok {
			return user, nil
		}
		return User{}, ErrWrong
	}
	end, err := g.begin(ctx, attempted{prove(name, password), address})
	if err != nil {
		return User{}, err
	}
	defer end()
	attempt, wait := g.guesses.Begin(name, address)
	if wait > 0 {
		return User{}, Wait(wait)
	}
	if user, ok := u.proven(name, password); ok {
		attempt.Right()
		return user, nil
	}
	if len(password) > longestPassword {
		attempt.Wrong()
		return User{}, ErrWrong
	}
	done, err := g.turn(ctx, attempt)
	if err != nil {
		attempt.Undo()
		return User{}, err
	}
	defer done()
	user, ok := g.compare(u, name, password)
	if !ok {
		attempt.Wrong()
		return User{}, ErrWrong
	}
	attempt.Right()
	return user, nil
}

// begin waits until no equal attempt is under way. If that was right, this one needs no hash, and is no guess.
func (g *Gate) begin(ctx context.Context, a attempted) (end func(), err error) {
	done := make(chan struct{})
	for {
		g.mu.Lock()
		other := g.begun[a]
		if other == nil {
			g.begun[a] = done
			g.mu.Unlock()
			return func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				delete(g.begun, a)
				close(done)
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// CheckSecret delays wrong guesses at secrets without a name, such as bearer tokens. right says whether this one is right,
// and name is then its name. Wrong ones count for the address alone.
func (g *Gate) CheckSecret(name, address string, right bool) error {
	if !right {
		name = ""
	}
	attempt, wait := g.guesses.Begin(name, address)
	switch {
	case wait > 0:
		return Wait(wait)
	case !right:
		attempt.Wrong()
		return ErrWrong
	}
	attempt.Right()
	return nil
}

// turn waits for the turn of an attempt to hash.
func (g *Gate) turn(ctx context.Context, a guess.Attempt) (done func(), err error) {
	h := &hashing{a, make(chan int, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, h)
	g.next()
	g.mu.Unlock()
	leave := func(lane int) func() {
		return func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.hashing[lane] = false
			g.next()
		}
	}
	select {
	case lane := <-h.turn:
		return leave(lane), nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		for i, other := range g.waiting {
			if other == h {
				g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
				return nil, context.Cause(ctx)
			}
		}
		return leave(<-h.turn), nil
	}
}

// next gives free lanes to those who wait: to the address with the fewest wrong guesses, and among equals to the newest.
// A crowd of addresses that guess once each then delays a user by one hash. g.mu must be held.
func (g *Gate) next() {
	for lane := range g.hashing {
		if g.hashing[lane] {
			continue
		}
		first, least := -1, 0
		for i, h := range g.waiting {
			others := h.attempt.Others()
			if (others > 0) == (lane == guessing) && (first < 0 || others <= least) {
				first, least = i, others
			}
		}
		if first >= 0 {
			h := g.waiting[first]
			g.waiting = append(g.waiting[:first:first], g.waiting[first+1:]...)
			g.hashing[lane] = true
			h.turn <- lane
		}
	}
}

// AddressOf returns the address of the client for the limits: of IPv6, the network that one client has.
func AddressOf(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a Unix socket
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
