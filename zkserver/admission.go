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

// admit counts a new connection of addr, or returns the limit that refuses it. If there is no room, it drops
// the newcomer that has waited longest for its login: a client needs little time for that, and an attacker takes
// all that it gets. s.mu is held.
func (s *Server) admit(nc net.Conn, addr netip.Addr) Limit {
	a := s.addressAt(addr)
	switch {
	case a == nil:
	case a.conns >= s.limits().ConnectionsPerAddress:
		return LimitPerAddress
	case a.tokens < 1:
		return LimitConnectRate
	}
	for s.full(isFile(nc)) {
		if !s.dropNewcomer() {
			return LimitConnections
		}
	}
	if a != nil {
		a.tokens--
		a.conns++
	}
	return ""
}

// full reports whether there is no room for another connection. file says that it takes an open file. s.mu is held.
func (s *Server) full(file bool) bool {
	return s.counted >= int64(s.limits().Connections) ||
		file && (s.filed >= s.mostConnections() || int64(s.newcomers.Len()) >= s.mostNewcomers())
}

// dropNewcomer closes the oldest newcomer, if there is one. s.mu is held.
func (s *Server) dropNewcomer() bool {
	first := s.newcomers.Front()
	if first == nil {
		return false
	}
	c := first.Value.(*conn)
	s.refused(LimitNewcomers, "remote", c.nc.RemoteAddr())
	s.uncount(c)
	c.close()
	return true
}

// count counts a connection that admit has admitted. s.mu is held.
func (s *Server) count(c *conn) {
	c.counted = true
	if s.counted++; isFile(c.nc) {
		s.filed++
		c.newcomer = s.newcomers.PushBack(c)
	}
}

// uncount undoes count and admit. s.mu is held.
func (s *Server) uncount(c *conn) {
	if !c.counted {
		return
	}
	c.counted = false
	if s.counted--; isFile(c.nc) {
		s.filed--
	}
	s.settle(c)
	if a := s.addresses[c.address]; a != nil {
		a.conns--
	}
}

// settle ends the time of c as a newcomer. s.mu is held.
func (s *Server) settle(c *conn) {
	if c.newcomer != nil {
		s.newcomers.Remove(c.newcomer)
		c.newcomer = nil
	}
}

// setAdmitted records whether the client of c has a session and has authenticated as required.
func (s *Server) setAdmitted(c *conn, admitted bool) {
	c.owned.admitted = admitted
	if admitted = admitted && c.owned.session != nil; c.admitted.Swap(admitted) != admitted && admitted {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle(c)
	}
}

// addressAt returns the address that counts for addr, with its tokens of now; nil if addr is not limited. s.mu is held.
func (s *Server) addressAt(addr netip.Addr) *address {
	if !addr.IsValid() {
		return nil
	}
	now, rate := time.Now(), float64(s.limits().ConnectionsPerSecond)
	a := s.addresses[addr]
	if a == nil {
		a = &address{tokens: 2 * rate, at: now}
		s.addresses[addr] = a
	}
	a.refill(now, rate)
	return a
}

func (a *address) refill(now time.Time, rate float64) {
	a.tokens = min(a.tokens+rate*now.Sub(a.at).Seconds(), 2*rate)
	a.at = now
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
	s.uncount(c)
	s.counters.connections.Store(s.counted)
	if len(s.conns) == 0 {
		s.idleSince = time.Now()
	}
}
