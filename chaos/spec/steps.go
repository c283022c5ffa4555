package spec

import (
	"cmp"
	"fmt"
)

// A Config bounds an exploration.
type Config struct {
	Clients int
	Readers int // of these, the first ones are readers
	Lasting int // of the others, the first ones make detached locks
	Joins   int // of each client
	// At most so many sessions, of all clients.
	Sessions int
	// At most so many crashes and removals by hand, lost answers, changes of leader.
	Crashes, Losses, Leaders int
	Marks                    bool  // holders write a result
	Timeout                  int8  // of a session, in ticks; 0 is 2
	Without                  Guard // the guard that is left out
}

func (c Config) String() string {
	s := fmt.Sprintf("%d clients (%d readers, %d detached), %d joins each, %d sessions, %d crashes, %d lost answers, %d changes of leader",
		c.Clients, c.Readers, c.Lasting, c.Joins, c.Sessions, c.Crashes, c.Losses, c.Leaders)
	if c.Marks {
		s += ", results"
	}
	return s
}

func (c Config) timeout() int8 { return cmp.Or(c.Timeout, 2) }

// A step is one that a state permits: its name, the state after it, and the promise that it breaks, if it breaks one.
type step struct {
	name   string
	client int
	next   *state
	err    error
}

// begin returns the first state.
func (c Config) begin() *state {
	s := &state{clients: make([]client, c.Clients)}
	for i := range s.clients {
		s.open(&s.clients[i], c.timeout())
	}
	return s
}

// An act is a step of one client: whether it is possible, and what it does.
type act struct {
	name string
	can  func(Config, *state, *client) bool
	do   func(Config, *state, *client) error
}

// steps calls yield with every step that s permits.
func (c Config) steps(s *state, yield func(step)) {
	for i := range s.clients {
		for k := range acts {
			if a := &acts[k]; a.can(c, s, &s.clients[i]) {
				next := s.clone()
				err := a.do(c, next, &next.clients[i])
				if err == nil {
					err = c.orphan(next)
				}
				yield(step{a.name, i, next, err})
			}
		}
	}
	next := s.clone()
	err := c.tick(next)
	yield(step{"tick", -1, next, err})
	for i, e := range s.sessions {
		if e.alive && e.age >= c.timeout() {
			next := s.clone()
			next.sessions[i].alive = false
			next.lock.Ended(int64(i + 1))
			yield(step{fmt.Sprintf("session %d expires", i+1), -1, next, nil})
		}
	}
	if int(s.leaders) < c.Leaders {
		next := s.clone()
		next.leaders++
		for i := range next.sessions {
			next.sessions[i].age = 0
		}
		yield(step{"another leader", -1, next, nil})
	}
}

// tick is the passing of time. Whoever's proof ends with it is told (A3).
func (c Config) tick(s *state) error {
	for i := range s.sessions {
		s.sessions[i].age = min(s.sessions[i].age+1, c.timeout())
	}
	if s.lasts < lastingTime {
		s.lasts++
	}
	for i := range s.clients {
		k := &s.clients[i]
		if k.phase == dead {
			continue
		}
		if k.probe >= 0 {
			if k.probe++; k.probe >= c.timeout() && c.Without != ProofFromSent { // its answer proves nothing any more
				k.probe, k.probed = -1, false
			}
			k.probe = min(k.probe, c.timeout())
		}
		if k.phase == lasting || k.phase == lasted || k.phase == holding && s.isLasting(k) {
			if k.sent = min(k.sent+1, lastingTime); k.sent == lastingTime && k.claims {
				if err := c.end(s, k); err != nil {
					return err
				}
				k.claims = false
			}
		}
		if k.lease > 0 {
			k.lease--
		}
		if k.lease == 0 && c.Without != ToldInTime {
			if err := c.drop(s, k); err != nil {
				return err
			}
		}
	}
	return c.orphan(s)
}

// drop ends what a client has in its session, which it does not trust any more, and begins another one. A detached
// lock is not part of a session.
func (c Config) drop(s *state, k *client) error {
	if s.isLasting(k) && k.phase >= lasted && len(s.sessions) < c.Sessions {
		s.open(k, c.timeout())
		return nil
	}
	var err error
	if k.claims {
		err = c.end(s, k)
	}
	token, seeks := k.token, c.Without == OwnSession && k.phase == lostDone
	*k = client{view: k.view, joins: k.joins, probe: -1}
	if len(s.sessions) >= c.Sessions {
		k.phase = dead
		return err
	}
	s.open(k, c.timeout())
	if seeks {
		k.phase, k.token = lostDone, token
	}
	return err
}

// orphan returns an error if a place is left that nobody uses (S7).
func (c Config) orphan(s *state) error {
	for i := range s.clients {
		k := &s.clients[i]
		if k.phase == dead {
			continue
		}
		for _, p := range s.lock.places {
			if !p.gone && p.Session == int64(k.session) && (p.Token != int64(k.token) || k.phase == idle) {
				return refuse("S7", "end", "client %d has left place %d behind", i, p.Token)
			}
		}
	}
	return nil
}

// heard reports whether the servers know a client's session.
func (s *state) heard(k *client) bool { return k.phase != dead && s.sessions[k.session-1].alive }

// in makes a condition of a phase.
func in(phases ...phase) func(Config, *state, *client) bool {
	return func(_ Config, _ *state, k *client) bool {
		for _, p := range phases {
			if k.phase == p {
				return true
			}
		}
		return false
	}
}

// number returns the index of a client.
func (s *state) number(k *client) int {
	for i := range s.clients {
		if &s.clients[i] == k {
			return i
		}
	}
	return -1
}

// create adds a client's place to the queue.
func (c Config) create(s *state, k *client) (int8, error) {
	i := s.number(k)
	token := int8(s.lock.newest + 1)
	return token, s.lock.Join(Place{Token: int64(token), Client: i, Session: int64(k.session), Shared: i < c.Readers})
}

// makesLasting reports whether a client makes detached locks.
func (c Config) makesLasting(s *state, k *client) bool {
	i := s.number(k)
	return i >= c.Readers && i < c.Readers+c.Lasting
}

// reads reports whether a client is a reader.
func (c Config) reads(s *state, k *client) bool { return s.number(k) < c.Readers }

// end ends a client's claim.
func (c Config) end(s *state, k *client) error { return s.lock.End(int64(k.token), c.reads(s, k)) }

// hold begins a claim.
func (c Config) hold(s *state, k *client) error {
	k.phase, k.claims = holding, true
	return s.lock.Claim(int64(k.token), c.reads(s, k))
}

// acts are what a client and its requests do.
var acts = []act{
	{"joins", func(c Config, s *state, k *client) bool {
		return k.phase == idle && int(k.joins) < c.Joins && k.lease > 0
	}, func(_ Config, _ *state, k *client) error {
		k.phase, k.joins = creating, k.joins+1
		return nil
	}},
	{"has its create applied", func(c Config, s *state, k *client) bool {
		return (k.phase == creating || k.phase == lostOn) && s.heard(k)
	}, func(c Config, s *state, k *client) (err error) {
		k.token, err = c.create(s, k)
		k.phase++ // created, or lostDone
		return err
	}},
	{"has a create applied that it has given up", func(c Config, s *state, k *client) bool {
		return k.late && s.heard(k)
	}, func(c Config, s *state, k *client) error {
		k.late = false
		_, err := c.create(s, k)
		return err
	}},
	{"is told its place", in(created), func(_ Config, s *state, k *client) error {
		k.phase, k.view, k.woken = waiting, s.present(), true
		return nil
	}},
	{"loses the answer to its create", func(c Config, s *state, k *client) bool {
		return (k.phase == creating || k.phase == created) && int(s.losses) < c.Losses
	}, func(_ Config, s *state, k *client) error {
		s.losses++
		if k.phase == created {
			k.phase = lostDone
		} else {
			k.phase = lostOn
		}
		return nil
	}},
	{"looks for its place", in(lostOn, lostDone), find},
	{"looks at the queue", func(_ Config, _ *state, k *client) bool { return k.phase == waiting && k.woken && k.lease > 0 }, look},
	{"sets its watch", func(_ Config, _ *state, k *client) bool { return k.watch > 0 && !k.armed }, func(_ Config, _ *state, k *client) error {
		k.armed = true
		return nil
	}},
	{"has a server that catches up", func(_ Config, s *state, k *client) bool {
		return k.phase != dead && k.view != s.present()
	}, func(_ Config, s *state, k *client) error {
		now := s.present()
		if k.phase == waiting && (k.armed && has(k.view, k.watch) && !has(now, k.watch) || has(k.view, k.token) && !has(now, k.token)) {
			k.woken = true
		}
		k.view = now
		return nil
	}},
	{"gives up", in(waiting), func(_ Config, _ *state, k *client) error {
		k.phase, k.woken, k.armed, k.watch = deleting, false, false, 0
		return nil
	}},
	{"has its place made lasting", func(_ Config, s *state, k *client) bool { return k.phase == lasting && s.heard(k) }, makeLast},
	{"has a detached lock", in(lasted), func(c Config, s *state, k *client) error {
		if c.Without == LastFromSent {
			k.sent = 0
		}
		if k.sent >= lastingTime { // the answer comes too late: it gives the lock up
			k.phase = deleting
			return nil
		}
		return c.hold(s, k)
	}},
	{"unlocks", in(holding), func(c Config, s *state, k *client) error {
		k.phase = deleting
		if !k.claims || c.Without == EndFirst {
			return nil
		}
		k.claims = false
		return c.end(s, k)
	}},
	{"has its delete applied", func(_ Config, s *state, k *client) bool {
		return k.phase == deleting && s.heard(k) && !k.marks // requests are applied in the order in which they were sent
	}, func(_ Config, s *state, k *client) error {
		k.phase = deleted
		if !has(s.present(), k.token) {
			return nil
		}
		by := int64(k.session)
		if s.isLasting(k) {
			by = 0
		}
		return s.lock.Gone(int64(k.token), by)
	}},
	{"is told that its place is gone", in(deleted), func(c Config, s *state, k *client) error {
		k.phase = idle
		if !k.claims {
			return nil
		}
		k.claims = false
		return c.end(s, k)
	}},
	{"loses the answer to its delete", func(c Config, s *state, k *client) bool {
		return (k.phase == deleting || k.phase == deleted) && int(s.losses) < c.Losses
	}, func(c Config, s *state, k *client) error {
		s.losses++
		k.phase = deleting
		if c.Without == RetryDelete {
			k.phase = idle
		}
		return nil
	}},
	{"writes a result", func(c Config, _ *state, k *client) bool { return c.Marks && k.phase == holding && k.claims && !k.marks },
		func(_ Config, _ *state, k *client) error {
			k.marks = true
			return nil
		}},
	{"has its result applied", func(_ Config, s *state, k *client) bool { return k.marks && s.heard(k) },
		func(c Config, s *state, k *client) error {
			k.marks = false
			if c.Without != CommitChecks && !has(s.present(), k.token) {
				return nil // refused
			}
			return s.lock.Commit(int64(k.token))
		}},
	{"sends a proof", func(c Config, _ *state, k *client) bool {
		return k.phase != dead && k.probe < 0 && k.lease > 0 && k.lease < c.timeout()
	},
		func(_ Config, _ *state, k *client) error {
			k.probe = 0
			return nil
		}},
	{"has its proof applied", func(_ Config, s *state, k *client) bool { return k.probe >= 0 && !k.probed && s.heard(k) },
		func(_ Config, s *state, k *client) error {
			k.probed = true
			s.sessions[k.session-1].age = 0
			return nil
		}},
	{"is proven", func(c Config, _ *state, k *client) bool {
		return k.probe >= 0 && (k.probed || c.Without == ProofIsWrite)
	}, func(c Config, _ *state, k *client) error {
		k.lease = max(k.lease, c.timeout()-k.probe)
		if c.Without == ProofFromSent {
			k.lease = c.timeout()
		}
		k.probe, k.probed = -1, false
		return nil
	}},
	{"is told that its session is over", func(_ Config, s *state, k *client) bool { return k.phase != dead && !s.heard(k) },
		func(c Config, s *state, k *client) error { return c.drop(s, k) }},
	{"crashes", func(c Config, s *state, k *client) bool { return k.phase != dead && int(s.crashes) < c.Crashes },
		func(c Config, s *state, k *client) (err error) {
			s.crashes++
			if k.claims {
				err = c.end(s, k)
			}
			*k = client{phase: dead, probe: -1}
			return err
		}},
	{"has its place removed by hand", func(c Config, s *state, k *client) bool {
		return k.phase != dead && has(s.present(), k.token) && int(s.crashes) < c.Crashes
	}, func(_ Config, s *state, k *client) error {
		s.crashes++
		return s.lock.Gone(int64(k.token), -1)
	}},
	{"removes a detached lock that has expired", func(_ Config, s *state, k *client) bool {
		return k.phase == waiting && s.lasts >= lastingTime && s.aheadLasts(k) > 0
	}, func(_ Config, s *state, k *client) error { return s.lock.Gone(s.aheadLasts(k), 0) }},
}

// aheadLasts returns the place that lasts among those ahead of a client, or 0.
func (s *state) aheadLasts(k *client) int64 {
	for _, p := range s.lock.places {
		if !p.gone && p.Session == 0 && p.Token < int64(k.token) {
			return p.Token
		}
	}
	return 0
}

// find looks for the place after the answer to its create was lost.
func find(c Config, s *state, k *client) error {
	on := k.phase == lostOn
	if c.Without != Barrier {
		k.view = s.present() // the write has come after all others
	}
	switch {
	case !on && has(k.view, k.token):
		k.phase, k.woken = waiting, true
		return nil
	case c.Without == Barrier && on:
		k.late = true
	}
	k.phase, k.token = idle, 0
	return nil
}

// look reads the queue, and sets a watch if somebody is ahead.
func look(c Config, s *state, k *client) error {
	passed := k.watch > 0
	k.woken, k.armed = false, false
	if !has(k.view, k.token) && c.Without != MissingIsLost {
		k.phase, k.token, k.watch = idle, 0, 0
		return nil
	}
	k.watch = s.ahead(k, c.Without)
	switch {
	case k.watch > 0 && !(passed && c.Without == AllAhead):
		k.armed = c.Without != WatchWithRead
		return nil
	case c.makesLasting(s, k):
		k.phase, k.sent = lasting, 0
		return nil
	}
	k.watch = 0
	return c.hold(s, k)
}

// makeLast applies the transaction that replaces a waiter's node by one that lasts.
func makeLast(c Config, s *state, k *client) error {
	if !has(s.present(), k.token) {
		if c.Without == LastIsFirst { // two requests instead of one transaction: another number
			var err error
			if k.token, err = c.create(s, k); err != nil {
				return err
			}
		} else {
			k.phase, k.token, k.watch = idle, 0, 0 // refused, and told at once
			return nil
		}
	}
	k.phase, k.watch, s.lasts = lasted, 0, 0
	return s.lock.Last(int64(k.token))
}
