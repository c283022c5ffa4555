package zk

import (
	"fmt"
	"slices"
	"time"

	"holdfast/zkproto"
)

// Some servers drop the connection at a request that they do not know, or do not answer it until the client gives
// the connection up. A caller that sends the request again would do so for ever. So after a few broken connections, a
// session sends its requests one by one, behind a sync, which every server knows. That shows at which
// request a connection breaks. If it is the same operation again and again, the servers do not know it, since they
// have answered the sync. Then the request fails with ErrUnimplemented.

// carefulAfter is how many connections in a row break before the next one is careful. It sends carefulFor requests
// one by one.
const (
	carefulAfter = 2
	carefulFor   = 64
)

// A suspect is the operation at which the last careful connections of a session broke.
type suspect struct {
	op     zkproto.Op
	path   string    // of the requests
	varied bool      // there were several paths
	times  int       // connections that broke at it; 0: there is no suspect
	since  time.Time // when the first of them broke
}

// breaksFor is how many careful connections in a row break at an operation before its requests fail. Faults of a
// network break connections, too, but seldom so often at the same operation. Some operations are not in every server, and
// callers have another way. They learn of it sooner.
func breaksFor(op zkproto.Op) int {
	switch op {
	case zkproto.OpCreateContainer, zkproto.OpCreateTTL, zkproto.OpAddWatch, zkproto.OpSetWatches2, zkproto.OpMultiRead,
		zkproto.OpRemoveWatches, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber, zkproto.OpWhoAmI, zkproto.OpReconfig:
		return 3
	}
	return 8
}

// broke counts a connection that broke while the requests in lost had no answer. One that breaks because of an answer does
// not count: a server that is overloaded throttles the request that restores the watches, whatever comes behind it. It returns the requests that no other
// connection will answer, and why. s.mu must be held.
func (c *conn) broke(lost []*request) (hopeless []*request, why error) {
	s, d := c.s, &c.s.suspect
	if len(lost) == 0 {
		return nil, nil
	}
	if time.Since(c.began) > s.timeout {
		s.breaks = 0
	}
	s.breaks++
	if c.careful == 0 {
		return nil, nil
	}
	r := lost[0]
	if d.times == 0 || d.op != r.op {
		*d = suspect{op: r.op, path: r.path, since: time.Now()}
	}
	d.varied = d.varied || d.path != r.path
	d.times++
	lasted := time.Since(d.since)
	switch {
	case d.times < breaksFor(d.op):
		return nil, nil
	case !r.probesOthers:
		s.lacks(r.op)
		s.modeHidden = s.modeHidden || r.asksMode
		return lost[:1], fmt.Errorf("%w: %d connections in a row broke at this request, and the server answers others", ErrUnimplemented, s.breaks)
	case lasted < s.timeout: // an outage, as long as it is short: the servers attach the session, and answer nothing
		return nil, nil
	}
	callers := func(r *request) bool { return !r.upkeep && !r.asksMode && r != s.probing }
	for _, r := range s.queue {
		if callers(r) {
			hopeless = append(hopeless, r)
		}
	}
	s.queue = slices.DeleteFunc(s.queue, callers)
	return hopeless, fmt.Errorf("%d connections in a row broke, and no server has answered any request for %v", s.breaks, lasted.Round(time.Second))
}

// answers notes the answer to r: the suspect is known. An operation can also be known, and fail for one path. s.mu must
// be held.
func (c *conn) answers(r *request) {
	d := &c.s.suspect
	if d.times > 0 && (r.op == d.op && (d.varied || d.path == r.path) || d.op == zkproto.OpSync) {
		*d, c.s.breaks = suspect{}, 0
	}
	if c.careful > 0 {
		if c.careful--; c.careful == 0 {
			c.s.breaks = 0
		}
		c.wakeWriter()
	}
}

// lacks gives up what needs an operation that the servers do not know. mu must be held.
func (s *Session) lacks(op zkproto.Op) {
	switch op {
	case zkproto.OpSetWatches2:
		s.watches.persistent.end(ErrUnimplemented)
	case zkproto.OpRemoveWatches:
		s.keepsWatches = true
	}
}

// beCareful makes the connection careful if the last ones broke. It returns what the connection sends first. s.mu must be
// held.
func (c *conn) beCareful() []*request {
	if c.s.breaks < carefulAfter {
		return nil
	}
	c.careful = carefulFor
	r := newRequest(zkproto.OpSync, "/", &zkproto.SyncRequest{Path: "/"}, nil) // any answer will do
	r.probesOthers = true
	return []*request{r}
}
