package zkserver

import (
	"net"
	"net/netip"
	"time"
)

// An address is the unit that limits new connections: see Limits.
type address struct {
	conns  int
	tokens float64   // connections that it may still make at once
	at     time.Time // the time that tokens is of
}

// addressOf returns the address that a connection counts for. It returns the zero Addr for
// connections that are not limited by address.
func addressOf(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(tcp.IP)
	if addr = addr.Unmap(); addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.Addr()
	}
	return addr
}

// admit counts a new connection, or returns the limit that refuses it. s.mu is held.
func (s *Server) admit(nc net.Conn, addr netip.Addr) Limit {
	if len(s.conns) >= s.limits().Connections || isFile(nc) && s.filed >= s.fileRoom {
		return LimitConnections
	}
	if !addr.IsValid() {
		return ""
	}
	now, rate := time.Now(), float64(s.limits().ConnectionsPerSecond)
	a := s.addresses[addr]
	if a == nil {
		a = &address{tokens: 2 * rate, at: now}
		s.addresses[addr] = a
	}
	a.refill(now, rate)
	switch {
	case a.conns >= s.limits().ConnectionsPerAddress:
		return LimitPerAddress
	case a.tokens < 1:
		return LimitConnectRate
	}
	a.tokens--
	a.conns++
	return ""
}

func (a *address) refill(now time.Time, rate float64) {
	a.tokens = min(a.tokens+rate*now.Sub(a.at).Seconds(), 2*rate)
	a.at = now
}

// leave uncounts an admitted connection that has ended. s.mu is held.
func (s *Server) leave(addr netip.Addr) {
	if a := s.addresses[addr]; a != nil {
		a.conns--
	}
}

// forgetAddresses drops entries that are no different from a new address.
func (s *Server) forgetAddresses() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, rate := time.Now(), float64(s.limits().ConnectionsPerSecond)
	for addr, a := range s.addresses {
		if a.refill(now, rate); a.conns == 0 && a.tokens == 2*rate {
			delete(s.addresses, addr)
		}
	}
}

// forget uncounts a connection that is closed for good.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if isFile(c.nc) {
		s.filed--
	}
	s.leave(c.address)
	s.counters.connections.Store(int64(len(s.conns)))
	if len(s.conns) == 0 {
		s.idleSince = time.Now()
	}
}
