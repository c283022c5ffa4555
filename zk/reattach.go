package zk

import (
	"context"
	"errors"
	"time"
)

// A planned re-attach proves an idle session (see quorumProof): the session goes on over
// another connection, and a write follows. In contrast to a lost connection, no request is
// lost: new requests wait for the next connection, and the old one is closed when all that
// was sent on it is answered. If an answer does not come, that connection breaks like any
// other.

// errReattach is why a connection was closed for a planned re-attach.
var errReattach = errors.New("attaching again, to prove the session")

// reattach begins a planned re-attach, unless one is under way. Without a connection there
// is nothing to do, since the next one attaches. mu must be held.
func (s *Session) reattach() {
	if s.conn != nil && !s.reattaching {
		s.reattaching = true
		s.conn.wakeHeart()
	}
}

// drained reports whether the connection can be closed for a re-attach. mu must be held.
func (c *conn) drained() bool {
	return c.s.reattaching && c.pending.first() == nil && c.pinged.IsZero()
}

// outliving returns a context for a planned re-attach. A Close that comes meanwhile ends the
// session here at once, but the server still has to be told, since it removes the nodes. So
// this context ends some time after the client's. The caller must call stop.
func (s *Session) outliving() (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	unhook := context.AfterFunc(s.client.ctx, func() {
		defer close(ended)
		s.cancel(ErrClosed)
		time.AfterFunc(s.patience(), cancel)
	})
	return ctx, func() {
		if !unhook() {
			<-ended
		}
		cancel()
	}
}

// patience is how long Close waits for the server.
func (s *Session) patience() time.Duration { return min(s.Timeout()/3, 2*time.Second) }
