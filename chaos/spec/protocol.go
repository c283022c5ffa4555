package spec

import "slices"

// A Guard is a rule of the protocol that clients follow. Without it, the exploration finds a violation.
type Guard uint16

// The guards.
const (
	// MissingIsLost: a place that is missing from a list is lost, never acquired (S1).
	MissingIsLost Guard = 1 << iota
	// AllAhead: a waiter holds the lock when no place with which it conflicts is ahead, and not when the place that it has
	// watched is gone (S1, S4).
	AllAhead
	// WritersAhead: a reader waits for the writers ahead of it (S1, S5).
	WritersAhead
	// Barrier: after a lost answer to a create, a write goes before the look for the place. So the create has happened
	// by then, or never will (S7).
	Barrier
	// OwnSession: a place that is found belongs to the present session (S7; CURATOR-604).
	OwnSession
	// RetryDelete: a delete is repeated until its outcome is certain (S7).
	RetryDelete
	// WatchWithRead: the read that looks at the queue also sets the watch (S8).
	WatchWithRead
	// EndFirst: Unlock ends the claim, and then deletes the place (C1.9).
	EndFirst
	// ToldInTime: a claim ends with the proof of its session (C1).
	ToldInTime
	// ProofFromSent: a proof counts from the time at which its request was sent (C1.1).
	ProofFromSent
	// ProofIsWrite: the answer of a server that has not asked the leader proves nothing (C1.2).
	ProofIsWrite
	// CommitChecks: the transaction that writes a result checks the place (S2, S11).
	CommitChecks
	// LastFromSent: a detached lock counts from the time at which its transaction was sent (S17).
	LastFromSent
	// LastIsFirst: a place becomes one that lasts in the transaction that replaces the waiter's node (S17).
	LastIsFirst

	guards = iota
)

var guardNames = [guards]string{"MissingIsLost", "AllAhead", "WritersAhead", "Barrier", "OwnSession", "RetryDelete", "WatchWithRead",
	"EndFirst", "ToldInTime", "ProofFromSent", "ProofIsWrite", "CommitChecks", "LastFromSent", "LastIsFirst"}

func (g Guard) String() string {
	for i, name := range guardNames {
		if g == 1<<i {
			return name
		}
	}
	return "several guards"
}

// Guards returns all guards.
func Guards() []Guard {
	all := make([]Guard, guards)
	for i := range all {
		all[i] = 1 << i
	}
	return all
}

// lastingTime is how long a detached lock lasts, in ticks.
const lastingTime = 3

// A phase is what a client is doing.
type phase int8

const (
	idle     phase = iota
	creating       // its create is on the way
	created        // its place exists, and the answer is on the way
	lostOn         // the connection is lost, and the create may be on the way
	lostDone       // the connection is lost, and the place exists
	waiting        // it knows its place
	lasting        // its transaction that makes the place last is on the way
	lasted         // the place lasts, and the answer is on the way
	holding        // it claims the lock
	deleting       // its delete is on the way
	deleted        // its place is gone, and the answer is on the way
	dead           // the process has crashed
)

// A client is what one client knows, and its requests that are on the way.
type client struct {
	phase   phase
	token   int8   // its place; 0 if it knows none
	session int8   // its present session
	view    uint16 // the places that its server shows, one bit each
	watch   int8   // the place that it watches
	armed   bool   // the watch is set
	woken   bool   // it will look at the queue
	claims  bool
	marks   bool // its transaction that writes a result is on the way
	late    bool // a create of an attempt that it has given up is on the way
	lease   int8 // ticks for which its session is proven
	probe   int8 // ticks since a request was sent that can prove the session; -1: none
	probed  bool // the server has it, and the answer is on the way
	sent    int8 // ticks since the transaction was sent that makes its place last
	joins   int8 // how often it has joined
}

// A session is what the servers know of one.
type session struct {
	alive bool
	age   int8 // ticks since they have last heard of it
}

// A state is the state of everything.
type state struct {
	lock     Lock
	clients  []client
	sessions []session // numbered from 1 on
	lasts    int8      // ticks for which a place has lasted
	// Faults so far.
	crashes, losses, leaders int8
}

func (s *state) clone() *state {
	c := *s
	c.lock.places = slices.Clone(s.lock.places)
	c.clients = slices.Clone(s.clients)
	c.sessions = slices.Clone(s.sessions)
	return &c
}

// key appends s as bytes: different states have different keys.
func (s *state) key(b []byte) []byte {
	b = append(b, byte(s.lasts), byte(s.crashes), byte(s.losses), byte(s.leaders), byte(s.lock.exclusive), byte(s.lock.shared), byte(s.lock.newest))
	for _, p := range s.lock.places {
		b = append(b, byte(p.Token), byte(p.Client), byte(p.Session), bits(p.Shared, p.led, p.gone, p.byHand, p.claims()))
	}
	b = append(b, 0xff)
	for _, e := range s.sessions {
		b = append(b, bits(e.alive), byte(e.age))
	}
	b = append(b, 0xff)
	for _, c := range s.clients {
		b = append(b, byte(c.phase), byte(c.token), byte(c.session), byte(c.view), byte(c.view>>8), byte(c.watch),
			bits(c.armed, c.woken, c.claims, c.marks, c.late, c.probed), byte(c.lease), byte(c.probe), byte(c.sent), byte(c.joins))
	}
	return b
}

func bits(flags ...bool) (b byte) {
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return b
}

// present returns the places that exist, one bit each.
func (s *state) present() (set uint16) {
	for _, p := range s.lock.places {
		if !p.gone {
			set |= 1 << p.Token
		}
	}
	return set
}

// has reports whether a set of places has one.
func has(set uint16, token int8) bool { return token > 0 && set&(1<<token) != 0 }

// ahead returns the nearest place in a client's view with which its own conflicts; 0 if there is none.
func (s *state) ahead(c *client, without Guard) int8 {
	own := s.lock.index(int64(c.token))
	for i := own - 1; i >= 0; i-- {
		p := s.lock.places[i]
		conflicts := p.conflicts(s.lock.places[own].Place)
		if without == WritersAhead && s.lock.places[own].Shared {
			conflicts = false
		}
		if has(c.view, int8(p.Token)) && conflicts {
			return int8(p.Token)
		}
	}
	return 0
}

// open begins another session of a client.
func (s *state) open(c *client, timeout int8) {
	s.sessions = append(s.sessions, session{alive: true})
	c.session = int8(len(s.sessions))
	c.lease, c.probe, c.probed = timeout, -1, false
}

// isLasting reports whether a client's place is one that lasts.
func (s *state) isLasting(c *client) bool {
	i := s.lock.index(int64(c.token))
	return i >= 0 && s.lock.places[i].Session == 0
}
