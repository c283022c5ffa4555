package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"holdfast/internal/fair"
)

// AdmissionListener limits the open connections of l to most. Newcomers have a quarter of them: connections without an
// admitted request, see Admit. If too many newcomers are open, the oldest one of the address with most of them is closed.
// If too many others are open, those of the client with most of them are closed, see package fair. Connections beyond most
// wait in the kernel.
//
// The http.Server needs TrackConn and TrackState.
func AdmissionListener(l net.Listener, most int) net.Listener {
	most = max(4, most)
	return &admissionListener{boundedListener: newBoundedListener(l, most), room: most / 4, admitted: fair.NewPool(int64(most - most/4))}
}

type admissionListener struct {
	*boundedListener
	room     int // for newcomers
	admitted *fair.Pool

	mu        sync.Mutex
	newcomers []*newConn // the oldest first
}

// Accept waits as boundedListener does.
func (l *admissionListener) Accept() (net.Conn, error) {
	nc, err := l.boundedListener.Accept()
	if err != nil {
		return nil, err
	}
	c := &newConn{Conn: nc, l: l, network: network(nc.RemoteAddr())}
	l.mu.Lock()
	l.newcomers = append(l.newcomers, c)
	var least *newConn
	if len(l.newcomers) > l.room {
		least = l.least()
	}
	l.mu.Unlock()
	if least != nil {
		_ = least.Close()
	}
	return c, nil
}

// least returns the newcomer that gives way. l.mu must be held.
func (l *admissionListener) least() *newConn {
	count := make(map[netip.Prefix]int)
	for _, c := range l.newcomers {
		count[c.network]++
	}
	least := l.newcomers[0]
	for _, c := range l.newcomers {
		if count[c.network] > count[least.network] {
			least = c
		}
	}
	return least
}

// A newConn is a connection that is or was a newcomer.
type newConn struct {
	net.Conn
	l       *admissionListener
	network netip.Prefix

	mu   sync.Mutex // guards the fields below
	user []string   // the client of the latest admitted request
	use  *fair.Use  // nil for a newcomer
}

func (c *newConn) Close() error {
	c.leave()
	c.mu.Lock()
	if c.use != nil {
		c.use.Leave()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// admit makes c a connection of a client. It returns false if c had to give way.
func (c *newConn) admit(user []string) bool {
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.use != nil && slices.Equal(c.user, user) {
		return c.use.Grow(0)
	}
	if c.use != nil {
		c.use.Leave()
	}
	c.user = user
	c.use = c.l.admitted.Enter(func() { _ = c.Conn.Close() }, append(user[:len(user):len(user)], "address "+c.network.String())...)
	return c.use.Grow(1)
}

// spare notes whether c waits for a request.
func (c *newConn) spare(spare bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.use != nil {
		c.use.Spare(spare)
	}
}

// leave ends the time as a newcomer.
func (c *newConn) leave() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	for i, other := range c.l.newcomers {
		if other == c {
			c.l.newcomers = append(c.l.newcomers[:i:i], c.l.newcomers[i+1:]...)
			return
		}
	}
}

// network returns the addresses that one client has: one of IPv4, or a /64 of IPv6. All others are one client.
func network(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // bits fits
	return p
}

// connKey is the key of a request's newConn in its context.
type connKey struct{}

// tracked returns the connection of an AdmissionListener below c.
func tracked(c net.Conn) (*newConn, bool) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	nc, ok := c.(*newConn)
	return nc, ok
}

// TrackConn is the ConnContext of an http.Server with an AdmissionListener.
func TrackConn(ctx context.Context, c net.Conn) context.Context {
	if nc, ok := tracked(c); ok {
		return context.WithValue(ctx, connKey{}, nc)
	}
	return ctx
}

// TrackState is the ConnState of an http.Server with an AdmissionListener.
func TrackState(c net.Conn, state http.ConnState) {
	if nc, ok := tracked(c); ok {
		nc.spare(state == http.StateIdle)
	}
}

// Admit makes the connection of a request that of a client, and no newcomer any more. user has the names of the client, such
// as its user and its login. Admit returns false if the client has too many connections: then this one is closed.
func Admit(r *http.Request, user ...string) bool {
	c, ok := r.Context().Value(connKey{}).(*newConn)
	return !ok || c.admit(user)
}
