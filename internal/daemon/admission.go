package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// AdmissionListener limits the open connections of l to most, and those of newcomers to a quarter of it. A newcomer is a
// connection without an admitted request: see TrackConn and Admit. If too many newcomers are open, the oldest one of
// the address with most of them is closed. Connections beyond most wait in the kernel.
func AdmissionListener(l net.Listener, most int) net.Listener {
	most = max(4, most)
	return &admissionListener{boundedListener: newBoundedListener(l, most), room: most / 4}
}

type admissionListener struct {
	*boundedListener
	room int // for newcomers

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
}

func (c *newConn) Close() error {
	c.leave()
	return c.Conn.Close()
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

// TrackConn is the ConnContext of an http.Server with an AdmissionListener.
func TrackConn(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	if nc, ok := c.(*newConn); ok {
		return context.WithValue(ctx, connKey{}, nc)
	}
	return ctx
}

// Admit makes the connection of a request no newcomer any more.
func Admit(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*newConn); ok {
		c.leave()
	}
}
