package zk

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// An ensembleModel is the part of a ZooKeeper ensemble that decides when a session expires:
// the servers and the links between them. Each direction of a link is a link of its own.
// Its messages keep their order, take a random time, and wait while the link is held up.
// The model runs in virtual time on one goroutine, and the seed decides everything.
//
// It follows ZooKeeper 3.8:
//   - The leader alone expires sessions. It touches a session when it makes it, when a
//     server revalidates it for a client that attaches (Leader.revalidateSession), when a
//     follower's answer to a ping names it (Learner.ping), and at every request of a client
//     of its own. A write that a follower passes on touches nothing.
//   - A follower names the sessions that it has heard since its last answer.
//   - A write is committed when a quorum has agreed.
//   - A new leader starts the clock of every session anew.
//   - A server that changes its leader closes its clients' connections (Learner.shutdown).
type ensembleModel struct {
	rng     *rand.Rand
	now     time.Time
	tick    time.Duration
	timeout time.Duration
	slow    time.Duration // the longest delay on a link that is not held up

	events    eventQueue
	scheduled uint64 // events so far; of two at the same time the first scheduled comes first

	servers []*modelServer
	reign   *reign // of the latest leader that a quorum has joined
	gone    bool   // that leader has expired the session
}

// A modelServer follows one leader at a time, or none while it looks for one.
type modelServer struct {
	follows  *reign
	heard    bool       // heard the session since its last answer to the leader's ping
	up, down *modelLink // to the leader and from it
	conns    []*modelConn
}

// A reign is the time of one leader, with its own clock for the session.
type reign struct {
	leader  *modelServer
	over    bool // the leader knows that it no longer leads
	touched time.Time
}

// A modelConn is a connection of the client with a server. hungUp is called when the client
// learns that the server has closed it.
type modelConn struct {
	server   *modelServer
	up, down *modelLink
	closed   bool
	hungUp   func()
}

// A modelLink carries messages in one direction.
type modelLink struct {
	m      *ensembleModel
	latest time.Time // the latest arrival time
	held   bool
	queue  []func() // messages that arrived while the link was held up
}

type modelEvent struct {
	at    time.Time
	order uint64
	do    func()
}

type eventQueue []modelEvent

func (q eventQueue) Len() int      { return len(q) }
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(modelEvent)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
func (q eventQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}

// newEnsembleModel returns an ensemble of n servers whose leader has just made the session.
func newEnsembleModel(rng *rand.Rand, n int, tick, timeout, slow time.Duration) *ensembleModel {
	m := &ensembleModel{rng: rng, now: time.Unix(1_000_000, 0), tick: tick, timeout: timeout, slow: slow}
	for range n {
		m.servers = append(m.servers, new(modelServer))
	}
	m.crown(m.servers)
	return m
}

// after schedules do after d.
func (m *ensembleModel) after(d time.Duration, do func()) {
	m.scheduled++
	heap.Push(&m.events, modelEvent{m.now.Add(d), m.scheduled, do})
}

// upTo returns a random time.
func (m *ensembleModel) upTo(most time.Duration) time.Duration {
	return time.Duration(m.rng.Int64N(int64(most) + 1))
}

// step runs the next event. It returns false when there is none.
func (m *ensembleModel) step() bool {
	if len(m.events) == 0 {
		return false
	}
	e := heap.Pop(&m.events).(modelEvent)
	m.now = e.at
	e.do()
	return true
}

func (m *ensembleModel) link() *modelLink { return &modelLink{m: m, latest: m.now} }

// send delivers a message after all messages that were sent before it.
func (l *modelLink) send(deliver func()) {
	at := l.m.now.Add(l.m.upTo(l.m.slow))
	if at.Before(l.latest) {
		at = l.latest
	}
	l.latest = at
	l.m.after(at.Sub(l.m.now), func() {
		if l.held {
			l.queue = append(l.queue, deliver)
			return
		}
		deliver()
	})
}

// hold delays the link. hold(false) delivers the messages that have arrived meanwhile.
func (l *modelLink) hold(yes bool) {
	l.held = yes
	for !l.held && len(l.queue) > 0 {
		next := l.queue[0]
		l.queue = l.queue[1:]
		next()
	}
}

// quorum is how many servers agree on a commit.
func (m *ensembleModel) quorum() int { return len(m.servers)/2 + 1 }

// crown makes the first of the servers the leader of all of them. Its clock for the
// session starts now.
func (m *ensembleModel) crown(servers []*modelServer) {
	r := &reign{leader: servers[0]}
	m.reign = r
	for _, s := range servers {
		m.join(s, r)
	}
	m.touch(r)
}

// join lets s follow r over new links.
func (m *ensembleModel) join(s *modelServer, r *reign) {
	s.follows, s.heard, s.up, s.down = r, false, m.link(), m.link()
	if s != r.leader {
		m.pings(s, r)
	}
}

// leave ends s's work for its leader, and closes its clients' connections.
func (m *ensembleModel) leave(s *modelServer) {
	s.follows = nil
	for _, c := range s.conns {
		if !c.closed {
			c.closed = true
			c.down.send(c.hungUp)
		}
	}
	s.conns = nil
}

// pings makes r's leader ping s every half tick. Each ping is late by up to an eighth of a tick (A2 in
// docs/explanation/guarantees.md).
func (m *ensembleModel) pings(s *modelServer, r *reign) {
	if r.over || s.follows != r {
		return
	}
	up := s.up
	m.after(m.upTo(m.tick/8), func() {
		s.fromLeader(r, func() {
			heard := s.heard
			s.heard = false
			up.send(func() {
				if heard && !r.over {
					m.touch(r)
				}
			})
		})
	})
	m.after(m.tick/2, func() { m.pings(s, r) })
}

// touch starts r's clock for the session anew. ZooKeeper rounds the end up to a tick; the
// model does not.
func (m *ensembleModel) touch(r *reign) {
	if m.gone {
		return
	}
	at := m.now
	r.touched = at
	m.after(m.timeout, func() {
		if m.reign == r && r.touched.Equal(at) {
			m.gone = true
		}
	})
}

// toLeader forwards a message of s. A deposed leader still processes the messages that it gets.
func (s *modelServer) toLeader(r *reign, deliver func()) {
	if s == r.leader {
		deliver()
		return
	}
	s.up.send(deliver)
}

// fromLeader passes a message to s, which takes none of a leader that it has left.
func (s *modelServer) fromLeader(r *reign, deliver func()) {
	take := func() {
		if s.follows == r {
			deliver()
		}
	}
	if s == r.leader {
		take()
		return
	}
	s.down.send(take)
}

// depose makes a quorum leave its leader. It has a new one after a while. The other servers notice
// later: they continue under the old leader for up to five ticks (syncLimit).
func (m *ensembleModel) depose() {
	servers := slices.Clone(m.servers)
	m.rng.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	rebels, rest := servers[:m.quorum()], servers[m.quorum():]
	old := m.reign
	for _, s := range rebels {
		m.leave(s)
		old.over = old.over || s == old.leader
	}
	m.after(m.upTo(m.tick), func() {
		m.crown(rebels)
		next := m.reign
		for _, s := range rest {
			m.after(m.upTo(5*m.tick), func() {
				old.over = old.over || s == old.leader
				m.leave(s)
				m.after(m.upTo(m.tick), func() { m.join(s, next) })
			})
		}
	})
}

// settled reports whether every server follows the present leader.
func (m *ensembleModel) settled() bool {
	return !slices.ContainsFunc(m.servers, func(s *modelServer) bool { return s.follows != m.reign })
}

// connect opens a connection to s. A server without a leader refuses it: nil.
func (m *ensembleModel) connect(s *modelServer) *modelConn {
	if s.follows == nil {
		return nil
	}
	c := &modelConn{server: s, up: m.link(), down: m.link()}
	s.conns = append(s.conns, c)
	return c
}

// request sends a request of the client. The server records that it has heard the session, or
// touches it if it is the leader, and then executes the request.
func (c *modelConn) request(do func(m *ensembleModel, s *modelServer, r *reign)) {
	c.up.send(func() {
		m, s := c.up.m, c.server
		if c.closed {
			return
		}
		s.heard = true
		if r := s.follows; s == r.leader {
			m.touch(r)
		}
		do(m, s, s.follows)
	})
}

// answer sends an answer to the client.
func (c *modelConn) answer(deliver func()) {
	if !c.closed {
		c.down.send(func() {
			if !c.closed {
				deliver()
			}
		})
	}
}

// ping is answered by the server that gets it.
func (c *modelConn) ping(answered func()) {
	c.request(func(*ensembleModel, *modelServer, *reign) { c.answer(answered) })
}

// attach asks the server to resume the session. The server asks its leader.
func (c *modelConn) attach(answered func()) {
	c.up.send(func() {
		m, s := c.up.m, c.server
		if c.closed {
			return
		}
		r := s.follows
		s.toLeader(r, func() {
			if m.gone && m.reign == r {
				return // it would tell the client
			}
			m.touch(r)
			s.fromLeader(r, func() { c.answer(answered) })
		})
	})
}

// write is answered once the leader has committed it.
func (c *modelConn) write(answered func()) {
	c.request(func(m *ensembleModel, s *modelServer, r *reign) {
		s.toLeader(r, func() {
			if r.over || m.gone && m.reign == r {
				return
			}
			agreed := 1 // the leader itself
			for _, f := range m.servers {
				if f == r.leader || f.follows != r {
					continue
				}
				up := f.up
				f.fromLeader(r, func() {
					up.send(func() {
						if agreed++; agreed == m.quorum() && !r.over {
							s.fromLeader(r, func() { c.answer(answered) })
						}
					})
				})
			}
		})
	})
}
