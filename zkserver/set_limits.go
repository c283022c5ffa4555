package zkserver

import "context"

// SetLimits replaces Limits of the server's Config. The limits of requests apply to all connections
// from their next request on. Outstanding and HandshakeTime apply to new connections. If there are
// more connections, watches or nodes than the new limits allow, they stay, and new ones are refused.
//
// If ctx ends first, the error is its cause, and the change may happen later. If the server has
// stopped, the error is ErrServerClosed, or the error that stopped it. SetLimits is safe for
// concurrent use.
func (s *Server) SetLimits(ctx context.Context, l Limits) error {
	l = l.withDefaults()
	return s.inTurn(ctx, func(done chan<- struct{}) {
		s.limited.Store(&l)
		s.owner.tree.Bound(s.bounds())
		s.mu.Lock()
		s.tellRoom()
		s.mu.Unlock()
		close(done)
	})
}
