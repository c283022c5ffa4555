package zk

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"
)

// A target is one address of a server. A server's name may have several addresses, and each
// gets its own share of the time.
type target struct {
	server  string // as Config.Servers has it
	network string
	addr    string // for Config.Dial
	host    string // with the name instead of the address, which TLS verifies
}

// A rotation iterates over the servers and over the addresses of each. It is used by run only.
type rotation struct {
	servers []string // in random order, to spread the clients
	resolve bool     // the rotation looks names up; otherwise Config.Dial does
	counts  []int    // addresses of each server, 1 until they are known
	next    int      // the server to look up when left is empty
	left    []target // addresses of the server before next, not tried yet
	last    target   // the target that connected last
	repeat  bool     // last comes first in the next search
}

func newRotation(servers []string, resolve bool) rotation {
	r := rotation{servers: slices.Clone(servers), resolve: resolve, counts: make([]int, len(servers))}
	shuffle(r.servers)
	for i := range r.counts {
		r.counts[i] = 1
	}
	return r
}

func shuffle[T any](s []T) { rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] }) }

// target returns the next address. If it fails to look a name up, it returns the error, and the
// next call tries the next server.
func (r *rotation) target(ctx context.Context) (target, error) {
	if len(r.left) == 0 {
		at := r.next
		r.next = (at + 1) % len(r.servers)
		all, err := r.lookup(ctx, r.servers[at])
		if err != nil {
			return target{server: r.servers[at]}, err
		}
		r.left, r.counts[at] = all, len(all)
	}
	t := r.left[0]
	r.left = r.left[1:]
	return t, nil
}

// again makes the target that connected last the first one of the next search.
func (r *rotation) again() { r.repeat = true }

// begin starts a search for a server. Addresses left from the previous search may be hours old,
// so it drops them, and the names are looked up again.
func (r *rotation) begin() {
	r.left = nil
	if r.repeat {
		r.left, r.repeat = []target{r.last}, false
	}
}

// addresses returns the number of addresses of all servers.
func (r *rotation) addresses() int {
	n := 0
	for _, c := range r.counts {
		n += c
	}
	return n
}

// Variables for tests.
var (
	lookupIP = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, network, host)
	}
	dialAddr = new(net.Dialer).DialContext
)

// lookup returns the addresses of a server in random order. Those of the family that the
// system prefers come first.
func (r *rotation) lookup(ctx context.Context, server string) ([]target, error) {
	network, host, err := splitServer(server)
	if err != nil {
		return nil, err
	}
	t := target{server: server, network: network, addr: host, host: host}
	name, port, err := net.SplitHostPort(host)
	if !r.resolve || network != "tcp" || err != nil {
		return []target{t}, nil
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return []target{t}, nil
	}
	ips, err := lookupIP(ctx, "ip", name)
	if err != nil {
		return nil, err
	}
	var once []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); !slices.Contains(once, ip) {
			once = append(once, ip)
		}
	}
	preferred := once[0].Is4()
	shuffle(once)
	slices.SortStableFunc(once, func(a, b netip.Addr) int {
		return rank(a.Is4() != preferred) - rank(b.Is4() != preferred)
	})
	var all []target
	for _, ip := range once {
		t.addr = net.JoinHostPort(ip.String(), port)
		all = append(all, t)
	}
	return all, nil
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// patience is the time in which one address must attach a session with the given timeout,
// including the lookup of its name. It is short enough that a dead address leaves time for the
// others before a session lapses. If a whole round of addresses was too slow, the next round gets
// more, up to a second.
func (c *Client) patience(round int, timeout time.Duration) time.Duration {
	share := timeout / time.Duration(2+c.rotation.addresses())
	return max(share, min(time.Second, timeout/5<<min(round, 8)))
}
