package htpasswd

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// burst is how many attempts to log in an address has at once, and refill after how long it has another one.
	burst  = 5
	refill = 15 * time.Second
	// mostAddresses is of how many addresses a Limiter knows.
	mostAddresses = 4096
)

// A Limiter bounds the attempts to log in, for each address. While it knows too many addresses, it refuses those that
// are new: memory stays bounded, and nobody is forgotten who has attempts to wait for.
type Limiter struct {
	mu   sync.Mutex
	full map[string]time.Time // when an address has all its attempts again
}

// NewLimiter returns a Limiter that knows no address.
func NewLimiter() *Limiter { return &Limiter{full: make(map[string]time.Time)} }

// Take uses one attempt of an address. If there is none, it returns how long to wait.
func (l *Limiter) Take(address string) (wait time.Duration) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.full[address]
	if !known || at.Before(now) {
		at = now
	}
	if wait := at.Add(refill).Sub(now) - burst*refill; wait > 0 {
		return wait
	}
	if !known && len(l.full) >= mostAddresses {
		for other, at := range l.full {
			if at.Before(now) {
				delete(l.full, other)
			}
		}
		if len(l.full) >= mostAddresses {
			return refill
		}
	}
	l.full[address] = at.Add(refill)
	return 0
}

// GiveBack gives an address one attempt back. It does not give all of them: a user could otherwise guess the passwords of
// others, and log in in between.
func (l *Limiter) GiveBack(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, known := l.full[address]; known {
		l.full[address] = at.Add(-refill) // a time that is over is as good as none
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
