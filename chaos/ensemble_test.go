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

// An ensemble is a model of Apache ZooKeeper 3.8's servers, as their clients see them: a
// leader, followers and observers, joined by links that delay, stall and break. It speaks the
// wire protocol to real clients, in virtual time. PROTOCOL.md and RELIABILITY.md describe
// ZooKeeper's behaviour and how it is known. The comments here name ZooKeeper's classes.
//
// The files of the model:
//
//	ensemble_test.go           the servers' processes, virtual time
//	ensemble_link_test.go      the links between servers
//	ensemble_quorum_test.go    leaders: election, epochs, catching up
//	ensemble_broadcast_test.go proposals, acknowledgements, commits, pings
//	ensemble_sessions_test.go  the leader's table of sessions, and what touches it
//	ensemble_conn_test.go      one client's connection: handshake, order of replies
//	ensemble_ops_test.go       reads and writes on one server's tree
//	ensemble_watch_test.go     watches
//
// The model simplifies. An arbiter that sees all links counts the votes of an election (see
// elect). Logs are in memory and survive a kill, so no disk fails. There are no ACLs, quotas,
// local sessions, read-only servers or reconfigurations.
//
// Everything runs under one mutex, and everything that takes time is an event in one queue. So
// a run depends on the seed and on the times at which clients' requests arrive.
type ensemble struct {
	began      time.Time
	tick       time.Duration
	syncLimit  int  // in ticks
	initLimit  int  // in ticks
	standalone bool // one server that knows no others (Mode: standalone)

	// The largest delay of a commit between the leader's proposer and its tree, and how often the
	// leader checks containers.
	applyLag, reapEvery time.Duration

	tell func(format string, args ...any)

	seed uint64 // of random numbers: every server and link has its own stream

	mu      sync.Mutex // guards the fields below, and the servers' state
	servers []*server
	links   map[[2]int]*quorumLink // by the ids of the two servers: from, to
	events  eventQueue
	order   uint64 // of events at the same time
	timer   *time.Timer
	closed  bool
	ahead   time.Duration // see moveClock
	passwds map[int64][]byte
	conns   int       // count of all connections so far
	applied []applied // all transactions, in order

	expired, refused, moved, elections int // how often it happened
}

// A server is one member. Its disk outlives its process.
type server struct {
	e        *ensemble
	id       int // starting at 1
	observer bool
	rng      *rand.Rand

	// On disk:
	log           []*txn
	acceptedEpoch int64 // the latest epoch that it has promised a leader
	currentEpoch  int64 // epoch of the latest leader whose history it has taken over

	// Of the process:
	up     bool
	life   int // number of the process: timers of former ones do nothing
	frozen bool
	inbox  []func() // to be done once the process is no longer frozen
	timers []func() // timers that fired while it was frozen
	role   role
	since  time.Duration // start of the role
	data   *database
	// committed is how many entries of the log are known to be committed. The database has all
	// of them, except on the leader, which applies them a moment later.
	committed int
	applied   int // how many entries of the log the database has
	serving   bool
	clients   map[*clientConn]struct{}
	attached  map[int64]*clientConn // by session
	pending   map[int64][]*pending  // requests of a session that wait for one of its writes
	writes    []*pending            // writes of all sessions that wait for their commits
	watches   watchManager

	toLead  *learnerConn          // on a learner: the connection to its leader
	touched map[int64]int32       // on a learner: sessions heard since the leader's last ping, with their timeouts
	asking  map[int64]*clientConn // on a learner: sessions that it has asked the leader about
	syncs   []*pending            // on a learner: syncs on their way to the leader
	leading *leading              // on a leader
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

// grow makes a stopped standalone server a member of an ensemble. The server keeps its log, and with
// it its sessions.
func (e *ensemble) grow(voters int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.standalone = false
	for len(e.servers) < voters {
		e.addServer(false)
	}
	e.tell("the server is one of %d from now on", voters)
}

// now returns the time since the ensemble's start, which all servers use.
func (e *ensemble) now() time.Duration { return time.Since(e.began) }

// An event happens at a given time.
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

// at schedules do. e.mu must be held.
func (e *ensemble) at(when time.Duration, do func()) {
	e.order++
	heap.Push(&e.events, event{when, e.order, do})
	if e.events[0].order == e.order && !e.closed {
		e.timer.Reset(max(when-e.now(), 0))
	}
}

func (e *ensemble) after(d time.Duration, do func()) { e.at(e.now()+d, do) }

// moveClock moves the clock by which all servers stamp nodes.
func (e *ensemble) moveClock(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ahead += d
}

// run runs the events that are due.
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

// random returns the random numbers of a link or a server.
func (e *ensemble) random(from, to int) *rand.Rand {
	return rand.New(rand.NewPCG(e.seed, uint64(1000+16*from+to)))
}

// upTo returns a random duration from 0 up to, but not including, d.
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

// start starts a server's process: it reads its log, applies all of it, and looks for a leader
// (QuorumPeer.start). A standalone server leads at once.
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

// all returns the current servers.
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

// freeze stops a server's process (SIGSTOP). Messages to it wait.
func (e *ensemble) freeze(s *server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.frozen = s.up
}

// thaw lets the process continue. All its threads wake at the same time, so its timers or the waiting
// messages may come first.
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

// handle runs do in the process, for a message from outside.
func (s *server) handle(do func()) {
	switch {
	case !s.up:
	case s.frozen:
		s.inbox = append(s.inbox, do)
	default:
		do()
	}
}

// in runs do in the process after d, unless the process has ended by then.
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

// become changes the role.
func (s *server) become(r role) {
	s.role, s.since = r, s.e.now()
	s.e.tell("server %d is %v", s.id, r)
}

// leave ends the server's part in the ensemble: it closes its clients' connections, and forgets
// requests in flight (Learner.shutdown, Leader.shutdown).
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

// serve admits clients.
func (s *server) serve() {
	s.serving = true
	s.attached = make(map[int64]*clientConn)
	s.pending = make(map[int64][]*pending)
	s.asking = make(map[int64]*clientConn)
	s.touched = make(map[int64]int32)
	s.data.configure(s.e)
	s.e.tell("server %d serves, having applied %#x", s.id, s.data.zxid)
}

// config returns the data of /zookeeper/config.
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

// leader returns the leader that has a quorum now, or nil.
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

// watchers returns the watches at each server.
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

// waiting returns the requests that the servers have not answered yet.
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

// counts returns the number of client objects that the ensemble keeps.
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

// expire ends a session as if it had been silent for too long.
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
