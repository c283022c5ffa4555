package zkserver

import (
	"time"

	"holdfast/zkproto"
)

// A client is alone if nobody else has asked for anything for aloneAfter. Nobody waits for
// what it sends: it has the shares of all, and its large requests go into the next commit
// while one is under way. Who comes then waits for two of them, once.
const aloneAfter = 100 * time.Millisecond

// heard takes note of who has sent r. Clients that only keep their sessions are nobody.
func (s *Server) heard(r *request) {
	if o := &s.owner; r.kind == kindOperation && r.op != zkproto.OpPing && r.conn != o.last {
		o.last, o.lastSince = r.conn, o.now
	}
}

func (s *Server) alone(c *conn) bool {
	return c == s.owner.last && s.owner.now.Sub(s.owner.lastSince) > aloneAfter
}
