package chaos_test

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/zkproto"
)

// An ensemble is a model of the servers of Apache ZooKeeper 3.8, as their clients see them:
// a leader, followers and observers, joined by links that delay, stall and break. It speaks
// the wire protocol to real clients, in virtual time. PROTOCOL.md and RELIABILITY.md say what
// ZooKeeper does and how that is known; the comments here name ZooKeeper's classes.
//
// The files of the model:
//
//	ensemble_test.go           the servers' processes, virtual time
//	ensemble_link_test.go      the links between servers
//	ensemble_quorum_test.go    who leads: election, epochs, catching up
//	ensemble_broadcast_test.go proposals, acknowledgements, commits, pings
//	ensemble_sessions_test.go  the leader's table of sessions, and what touches it
//	ensemble_conn_test.go      one client's connection: handshake, order of replies
//	ensemble_ops_test.go       reads and writes on one server's tree
//	ensemble_watch_test.go     watches
//
// The model simplifies: the votes of an election are counted by an arbiter that sees all links
// (see elect); logs are in memory and survive a kill, so there is no disk to fail; there are
// no ACLs, quotas, local sessions, read-only servers or reconfigurations.
//
// All of it runs under one mutex, and everything that takes time is an event in one queue.
// So a run depends on the seed and on the instants at which clients' requests arrive.
type ensemble struct {
	began      time.Time
	tick       time.Duration
	syncLimit  int  // ticks
	initLimit  int  // ticks
	standalone bool // one server, which knows of no others (Mode: standalone)

	// The largest delay of a commit on its way from the leader's proposer to its tree, and
	// how often containers are looked at.
	applyLag, reapEvery time.Duration

	tell func(format string, args ...any)

	seed uint64 // of random numbers: every server and every link has its own

	mu      sync.Mutex // guards the fields below, and the servers with all that they have
	servers []*server
	links   map[[2]int]*quorumLink // by the ids of the two servers: from, to
	events  eventQueue
	order   uint64 // of events that fall due at one instant
	timer   *time.Timer
	closed  bool
	passwds map[int64][]byte
	conns   int // ever

	expired, refused, moved, elections int // how often it happened
}

// A server is one member. What is on its disk outlives its process.
type server struct {
	e        *ensemble
	id       int // from 1
	observer bool
	rng      *rand.Rand

	// On disk:
	log           []*txn
	acceptedEpoch int64 // the latest that it has promised a leader
	currentEpoch  int64 // of the latest leader whose history it has taken over

	// Of the process:
	up     bool
	life   int // which process it is: timers of former ones do nothing
	frozen bool
	inbox  []func() // what is to be done as soon as it is not frozen any more
	timers []func() // likewise: what fell due
	role   role
	since  time.Duration // when the role began
	data   *database
	// committed is how many entries of the log are known to be committed. The database has
	// all of them, except on the leader, which applies a moment later.
	committed int
	applied   int // how many entries of the log the database has
	serving   bool
	clients   map[*clientConn]struct{}
	attached  map[int64]*clientConn // by session
	pending   map[int64][]*pending  // requests of a session that wait for one of its writes
	writes    []*pending            // the writes of all sessions that wait for their commits
	watches   watchManager

	toLead  *learnerConn          // of a learner: to its leader
	touched map[int64]int32       // of a learner: sessions heard since the last ping of the leader, with their timeouts
	asking  map[int64]*clientConn // of a learner: sessions that the leader is asked about
	syncs   []*pending            // of a learner: syncs on their way to the leader
	leading *leading              // of a leader
}

type role int

const (
	looking role = iota
	following
	leads
)

func (r role) String() string { return [...]string{"looking", "following", "leading"}[r] }

// newEnsemble makes servers that are down. The last of them are observers.
func newEnsemble(seed uint64, tick time.Duration, voters, observers int) *ensemble {
	e := &ensemble{
		began: time.Now(), seed: seed, tick: tick, syncLimit: 5, initLimit: 10, standalone: voters == 1,
		applyLag: 100 * time.Microsecond, reapEvery: time.Minute,
		links: make(map[[2]int]*quorumLink), passwds: make(map[int64][]byte), tell: func(string, ...any) {},
	}
	e.timer = time.AfterFunc(time.Hour, e.run)
	e.timer.Stop()
	for i := range voters + observers {
		e.addServer(i >= voters)
	}
	return e
}

func (e *ensemble) addServer(observer bool) {
	s := &server{e: e, id: len(e.servers) + 1, observer: observer}
	s.rng = e.random(s.id, s.id)
	for _, o := range e.servers {
		for _, ends := range [][2]int{{s.id, o.id}, {o.id, s.id}} {
			e.links[ends] = newQuorumLink(e.random(ends[0], ends[1]))
		}
	}
	e.servers = append(e.servers, s)
}

// grow makes a standalone server that is down a member of an ensemble. It keeps its log, and
// its sessions with that.
func (e *ensemble) grow(voters int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.standalone = false
	for len(e.servers) < voters {
		e.addServer(false)
	}
	e.tell("the server is one of %d from now on", voters)
}

// now is the time since the ensemble's beginning, by which all servers count.
func (e *ensemble) now() time.Duration { return time.Since(e.began) }

// An event is something that happens at an instant.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last].do = nil
	*q = (*q)[:last]
	return x
}

// at lets something happen. The caller has locked mu.
func (e *ensemble) at(when time.Duration, do func()) {
	e.order++
	heap.Push(&e.events, event{when, e.order, do})
	if e.events[0].order == e.order && !e.closed {
		e.timer.Reset(max(when-e.now(), 0))
	}
}

func (e *ensemble) after(d time.Duration, do func()) { e.at(e.now()+d, do) }

// run does what is due.
func (e *ensemble) run() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.events) > 0 && e.events[0].at <= e.now() {
		heap.Pop(&e.events).(event).do()
	}
	if len(e.events) > 0 && !e.closed {
		e.timer.Reset(e.events[0].at - e.now())
	}
}

// random are the random numbers of a link, or of a server.
func (e *ensemble) random(from, to int) *rand.Rand {
	return rand.New(rand.NewPCG(e.seed, uint64(1000+16*from+to)))
}

// upTo is a random duration from 0 on, below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(d)))
}

// close ends everything.
func (e *ensemble) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.servers {
		e.killLocked(s)
	}
	e.closed = true
	e.events = nil
	e.timer.Stop()
}

// start starts a server's process: it reads its log, applies all of it, and looks for a
// leader (QuorumPeer.start). One that is alone leads at once.
func (e *ensemble) start(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.up {
		return
	}
	s.up, s.frozen, s.inbox, s.timers = true, false, nil, nil
	s.life++
	s.clients = make(map[*clientConn]struct{})
	s.committed, s.applied = 0, 0
	s.data = newDatabase()
	s.applyTo(len(s.log))
	if e.standalone {
		s.leadAlone()
		return
	}
	s.look()
}

// all are the servers that there are now.
func (e *ensemble) all() []*server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.servers)
}

// kill ends a server's process (SIGKILL). Its log stays.
func (e *ensemble) kill(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killLocked(s)
}

func (e *ensemble) killLocked(s *server) {
	if !s.up {
		return
	}
	s.leave("killed")
	s.up, s.frozen, s.inbox, s.timers = false, false, nil, nil
	s.life++
}

// freeze stops a server's process (SIGSTOP). What is sent to it waits.
func (e *ensemble) freeze(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.frozen = s.up
}

// thaw lets it go on. All its threads wake at the same time, so either its timers or what
// was sent to it may come first.
func (e *ensemble) thaw(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !s.frozen {
		return
	}
	s.frozen = false
	first, second := s.timers, s.inbox
	if s.rng.IntN(2) == 0 {
		first, second = second, first
	}
	s.timers, s.inbox = nil, nil
	life := s.life
	for _, do := range slices.Concat(first, second) {
		if s.life == life {
			do()
		}
	}
}

// handle lets the process do something that comes from outside.
func (s *server) handle(do func()) {
	switch {
	case !s.up:
	case s.frozen:
		s.inbox = append(s.inbox, do)
	default:
		do()
	}
}

// in lets the process do something after d, unless it has ended by then.
func (s *server) in(d time.Duration, do func()) {
	life := s.life
	s.e.after(d, func() {
		switch {
		case s.life != life:
		case s.frozen:
			s.timers = append(s.timers, do)
		default:
			do()
		}
	})
}

// become takes a role.
func (s *server) become(r role) {
	s.role, s.since = r, s.e.now()
	s.e.tell("server %d is %v", s.id, r)
}

// leave ends whatever part the server has in the ensemble: its clients' connections are
// closed, and what was under way is forgotten (Learner.shutdown, Leader.shutdown).
func (s *server) leave(why string) {
	s.e.tell("server %d stops %v: %s", s.id, s.role, why)
	if l := s.leading; l != nil {
		for _, c := range l.inOrder() {
			c.close(s)
		}
		s.leading = nil
	}
	if c := s.toLead; c != nil {
		s.toLead = nil
		c.close(s)
	}
	s.serving = false
	for c := range s.clients {
		c.nc.Close()
	}
	s.clients = make(map[*clientConn]struct{})
	s.attached, s.pending, s.asking = nil, nil, nil
	s.writes, s.syncs, s.touched = nil, nil, nil
	s.watches = watchManager{}
}

// serve lets clients in.
func (s *server) serve() {
	s.serving = true
	s.attached = make(map[int64]*clientConn)
	s.pending = make(map[int64][]*pending)
	s.asking = make(map[int64]*clientConn)
	s.touched = make(map[int64]int32)
	s.data.configure(s.e)
	s.e.tell("server %d serves, having applied %#x", s.id, s.data.zxid)
}

// config is what /zookeeper/config says of the ensemble.
func (e *ensemble) config() string {
	if e.standalone {
		return ""
	}
	text := ""
	for _, s := range e.servers {
		kind := "participant"
		if s.observer {
			kind = "observer"
		}
		text += fmt.Sprintf("server.%d=host%[1]d:2888:3888:%s;0.0.0.0:2181\n", s.id, kind)
	}
	return text + "version=0"
}

// leader is the one that has a quorum behind it now; nil if there is none.
func (e *ensemble) leader() *server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leaderLocked()
}

func (e *ensemble) leaderLocked() *server {
	var latest *server
	for _, s := range e.servers {
		if s.leading != nil && s.leading.established && (latest == nil || s.leading.epoch > latest.leading.epoch) {
			latest = s
		}
	}
	return latest
}

// watchers is what is watched at which server.
func (e *ensemble) watchers() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, s := range e.servers {
		for on, byPath := range s.watches {
			for _, path := range slices.Sorted(maps.Keys(byPath)) {
				for _, w := range byPath[path] {
					fmt.Fprintf(&b, "server %d, %s, table %d, mode %d: session %#x\n", s.id, path, on, w.mode, uint64(w.conn.session))
				}
			}
		}
	}
	return b.String()
}

// waiting is what the servers have not answered yet.
func (e *ensemble) waiting() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, s := range e.servers {
		fmt.Fprintf(&b, "server %d is %v, has %d entries, %d committed, %d applied", s.id, s.role, len(s.log), s.committed, s.applied)
		for _, p := range s.writes {
			fmt.Fprintf(&b, "; %v %d of session %#x waits for its commit", p.op, p.xid, uint64(p.session))
		}
		for id := range s.asking {
			fmt.Fprintf(&b, "; session %#x waits for the leader to know it", uint64(id))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// counts are what the ensemble has to remember of its clients.
func (e *ensemble) counts() (sessions, connections, watches int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.servers {
		if s.up && s.data != nil {
			sessions = max(sessions, len(s.data.sessions))
		}
		connections += len(s.clients)
		watches += s.watches.count()
	}
	return sessions, connections, watches
}

// inStep reports whether all servers serve.
func (e *ensemble) inStep() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !slices.ContainsFunc(e.servers, func(s *server) bool { return !s.serving })
}

// expire ends a session as if nothing had been heard of it for too long.
func (e *ensemble) expire(session int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.leaderLocked()
	return s != nil && !s.frozen && s.expire(session)
}

// txnKinds that no client sends.
const (
	opCreateSession   zkproto.Op = -10
	opDeleteContainer zkproto.Op = 20
)
