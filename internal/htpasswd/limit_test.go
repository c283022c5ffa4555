package htpasswd

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// The memory of a Limiter is bounded, and a flood of addresses frees nobody. One client of IPv6 has a network.
func TestTheLimiterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		for range burst {
			l.Take("victim")
		}
		for i := range 2 * mostAddresses {
			l.Take(fmt.Sprint(i))
		}
		if len(l.full) > mostAddresses {
			t.Errorf("%d addresses; want %d at most", len(l.full), mostAddresses)
		}
		if l.Take("victim") == 0 {
			t.Error("a flood has given an address its attempts back")
		}
		time.Sleep(burst * refill * 2)
		if l.Take("new") != 0 {
			t.Error("a new address is refused after the flood")
		}
		r := httptest.NewRequest("GET", "/", nil)
		seen := make(map[string]bool)
		for _, remote := range []string{"[2001:db8::1]:1", "[2001:db8::ffff:2]:2", "[::ffff:192.0.2.1]:3", "192.0.2.1:4"} {
			r.RemoteAddr = remote
			seen[AddressOf(r)] = true
		}
		if len(seen) != 2 {
			t.Errorf("%v", seen)
		}
	})
}
