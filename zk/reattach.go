package zk

import (
	"context"
	"errors"
	"time"
)

// A planned re-attach proves an idle session (see quorumProof): the session goes on over
// another connection, and a write follows. Unlike a lost connection, it loses no request. New
// requests wait for the next connection, and the old one is closed when all requests on it are
// answered. If an answer does not come, the old connection breaks like any other.

// errReattach is the cause of a connection that was closed for a planned re-attach.
var errReattach = errors.New("attaching again, to prove the session")

// reattach starts a planned re-attach, unless one is in progress. Without a connection it does
// nothing: the next connection attaches anyway. mu must be held.
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

// outliving returns a context for a planned re-attach. A Close in the meantime ends the session
// here at once, but must still reach the server, which removes the nodes. So this context ends
// some time after the client's. The caller must call stop.
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
