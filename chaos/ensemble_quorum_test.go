package chaos_test

import (
	"cmp"
	"slices"
	"time"
)

// How a leader comes to lead. It is elected. It learns the epochs that its followers have promised,
// and makes them promise a new one. It gives them its history, and leads once a quorum has taken that
// over (FastLeaderElection, Leader.lead, Learner.syncWithLeader).

// electionWait is how long a server looks for a better candidate before it decides
// (FastLeaderElection.finalizeWait).
const electionWait = 200 * time.Millisecond

func (e *ensemble) voters() (all []*server) {
	for _, s := range e.servers {
		if !s.observer {
			all = append(all, s)
		}
	}
	return all
}

func (e *ensemble) quorum() int { return len(e.voters())/2 + 1 }

// ticks returns the duration of n ticks.
func (e *ensemble) ticks(n int) time.Duration { return time.Duration(n) * e.tick }

// look begins an election.
func (s *server) look() {
	s.become(looking)
	s.in(electionWait+upTo(s.rng, electionWait), s.vote)
}

func (s *server) vote() {
	if s.role != looking {
		return
	}
	s.e.elect()
	if s.role == looking {
		s.in(100*time.Millisecond+upTo(s.rng, 100*time.Millisecond), s.vote)
	}
}

// elect sends every server that looks for a leader to one. Servers that have a leader report it, and a
// quorum must agree. Otherwise the most recent history wins, then the highest id, among the servers
// that look for a leader and can talk to a quorum of each other.
func (e *ensemble) elect() {
	var ready []*server
	for _, s := range e.servers {
		if s.up && !s.frozen && s.role == looking && e.now()-s.since >= electionWait {
			ready = append(ready, s)
		}
	}
	for _, s := range ready {
		if l := e.elected(s); l != nil {
			s.follow(l)
		}
	}
	ready = slices.DeleteFunc(ready, func(s *server) bool { return s.role != looking })
	slices.SortFunc(ready, func(a, b *server) int { return -a.compareHistory(b) })
	for _, candidate := range ready {
		if candidate.observer {
			continue
		}
		var supporters []*server
		votes := 1
		for _, s := range ready {
			if s != candidate && e.whole(s, candidate) {
				supporters = append(supporters, s)
				if !s.observer {
					votes++
				}
			}
		}
		if votes < e.quorum() {
			continue
		}
		e.elections++
		candidate.lead()
		for _, s := range supporters {
			s.follow(candidate)
		}
		return
	}
}

// elected returns the leader that a quorum of the servers within s's reach follow.
func (e *ensemble) elected(s *server) *server {
	for _, l := range e.servers {
		if l.role != leads || !l.up || l.frozen || !e.whole(s, l) {
			continue
		}
		votes := 0
		for _, v := range e.voters() {
			if v == l || v.toLead != nil && v.toLead.leader == l && v.up && !v.frozen && e.whole(s, v) {
				votes++
			}
		}
		if votes >= e.quorum() {
			return l
		}
	}
	return nil
}

func (s *server) lastZxid() int64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.log[len(s.log)-1].zxid
}

// compareHistory orders servers by their logs.
func (s *server) compareHistory(o *server) int {
	return cmp.Or(cmp.Compare(s.currentEpoch, o.currentEpoch), cmp.Compare(s.lastZxid(), o.lastZxid()), cmp.Compare(s.id, o.id))
}

// leading is the additional state of a leader.
type leading struct {
	s        *server
	learners map[int]*learnerConn // by server id
	tick     int
	odd      bool // alternates every half tick

	epoch       int64          // 0: not chosen yet
	infos       map[int]int64  // the epochs that voters had promised
	promised    map[int]bool   // voters that have promised the new epoch
	histories   map[int][]*txn // logs of learners that have promised, and wait for ours
	fixed       bool           // a quorum has promised: our history is the one that counts
	established bool           // a quorum has taken our history over

	synced   int // how many entries of our log are on our disk
	counter  int64
	sessions map[int64]*tracked
	phase    time.Duration     // phase of the clock by which sessions expire
	asked    map[*txn]*pending // writes of clients that are not applied yet
	waiting  map[int][]func()  // to be answered when this many entries are committed
}

// inOrder returns the learners by id.
func (l *leading) inOrder() (all []*learnerConn) {
	for _, s := range l.s.e.servers {
		if c := l.learners[s.id]; c != nil {
			all = append(all, c)
		}
	}
	return all
}

// lead starts to lead after the election; the others have yet to join.
func (s *server) lead() {
	s.become(leads)
	l := &leading{
		s: s, learners: make(map[int]*learnerConn), infos: map[int]int64{s.id: s.acceptedEpoch}, promised: map[int]bool{s.id: true},
		histories: make(map[int][]*txn), waiting: make(map[int][]func()), asked: make(map[*txn]*pending), synced: len(s.log),
	}
	s.leading = l
	s.in(s.e.ticks(s.e.initLimit), func() {
		if s.leading == l && !l.established {
			s.stepDown("no quorum has come in time")
		}
	})
}

// leadAlone starts a standalone server.
func (s *server) leadAlone() {
	s.become(leads)
	s.leading = &leading{s: s, synced: len(s.log), waiting: make(map[int][]func()), asked: make(map[*txn]*pending)}
	s.leading.epoch, s.leading.counter = s.lastZxid()>>32, s.lastZxid()&0xffffffff
	s.leading.establish()
}

func (s *server) stepDown(why string) {
	s.leave(why)
	s.look()
}

func (s *server) loseLeader(why string) {
	s.leave(why)
	s.look()
}

// follow connects to a leader.
func (s *server) follow(leader *server) {
	s.become(following)
	c := &learnerConn{leader: leader, learner: s, leaderEnd: true, learnerEnd: true, told: s.e.now(), heard: s.e.now()}
	s.toLead = c
	accepted := s.acceptedEpoch
	s.send(leader, func() { // FOLLOWERINFO, OBSERVERINFO
		if l := leader.leading; l != nil {
			l.join(c, accepted)
			return
		}
		c.leaderEnd = false
		leader.send(s, func() {
			if s.toLead == c {
				s.loseLeader("it does not lead")
			}
		})
	})
	c.expectLeader(false)
}

// expectLeader waits for packets of the leader, and drops it if none comes in time. Packets that are
// there at the deadline are read first.
func (c *learnerConn) expectLeader(late bool) {
	s := c.learner
	if s.toLead != c {
		return
	}
	limit := s.e.ticks(s.e.syncLimit)
	if !c.synced {
		limit = s.e.ticks(s.e.initLimit)
	}
	switch left := c.told + limit - s.e.now(); {
	case left > 0:
		s.in(min(left, s.e.ticks(s.e.syncLimit)), func() { c.expectLeader(false) })
	case !late:
		s.in(time.Millisecond, func() { c.expectLeader(true) })
	default:
		s.loseLeader("nothing heard of the leader")
	}
}

// expectLearner is the same on the leader's side.
func (c *learnerConn) expectLearner(late bool) {
	s := c.leader
	if !c.leaderEnd {
		return
	}
	limit := s.e.ticks(s.e.syncLimit)
	if !c.joined {
		limit = s.e.ticks(s.e.initLimit)
	}
	switch left := c.heard + limit - s.e.now(); {
	case left > 0:
		s.in(min(left, s.e.ticks(s.e.syncLimit)), func() { c.expectLearner(false) })
	case !late:
		s.in(time.Millisecond, func() { c.expectLearner(true) })
	default:
		s.e.tell("server %d: nothing heard of server %d", s.id, c.learner.id)
		c.close(s)
	}
}

// join admits a learner.
func (l *leading) join(c *learnerConn, accepted int64) {
	s, e := l.s, l.s.e
	if old := l.learners[c.learner.id]; old != nil {
		old.close(s)
	}
	l.learners[c.learner.id] = c
	c.heard, c.deadline = e.now(), l.tick+e.initLimit+e.syncLimit
	c.expectLearner(false)
	if l.epoch != 0 {
		l.propagate(c)
		return
	}
	if !c.learner.observer {
		l.infos[c.learner.id] = accepted
	}
	if len(l.infos) < e.quorum() {
		return
	}
	for _, epoch := range l.infos {
		l.epoch = max(l.epoch, epoch+1)
	}
	s.acceptedEpoch = l.epoch
	for _, c := range l.inOrder() {
		l.propagate(c)
	}
}

// propagate asks a learner to promise not to follow an earlier leader (LEADERINFO).
func (l *leading) propagate(c *learnerConn) {
	epoch := l.epoch
	c.toLearner(func() {
		f := c.learner
		if epoch < f.acceptedEpoch {
			f.loseLeader("its epoch is old")
			return
		}
		f.acceptedEpoch = epoch
		current, last, log := f.currentEpoch, f.lastZxid(), slices.Clip(f.log)
		c.toLeader(func() { l.promise(c, current, last, log) }) // ACKEPOCH
	})
}

func (l *leading) promise(c *learnerConn, current, last int64, log []*txn) {
	s, e := l.s, l.s.e
	if !l.fixed && !c.learner.observer {
		if current > s.currentEpoch || current == s.currentEpoch && last > s.lastZxid() {
			s.stepDown("a follower has a later history")
			return
		}
		l.promised[c.learner.id] = true
	}
	l.histories[c.learner.id] = log
	if len(l.promised) < e.quorum() {
		return
	}
	if !l.fixed {
		l.fixed = true
		s.currentEpoch = l.epoch
	}
	for _, c := range l.inOrder() {
		if log, ok := l.histories[c.learner.id]; ok {
			delete(l.histories, c.learner.id)
			l.giveHistory(c, log)
		}
	}
}

// giveHistory replaces the learner's log with ours (TRUNC, DIFF or SNAP, and NEWLEADER). From now on it
// gets our proposals.
func (l *leading) giveHistory(c *learnerConn, log []*txn) {
	s := l.s
	common := min(len(log), len(s.log))
	for common > 0 && log[common-1] != s.log[common-1] {
		common--
	}
	end, epoch, committed := len(s.log), l.epoch, 0
	if l.established {
		committed = s.committed
		if c.learner.observer { // an observer gets commits, but no proposals
			end = committed
		}
	}
	common = min(common, end)
	rest := slices.Clip(s.log[common:end])
	c.forwards = true
	c.toLearner(func() {
		f := c.learner
		f.takeOver(common, rest, committed)
		f.currentEpoch = epoch
		length := len(f.log)
		c.toLeader(func() { // the acknowledgement of NEWLEADER
			c.joined = true
			c.acknowledge(length)
			switch {
			case l.established:
				l.upToDate(c)
			case l.followers() >= s.e.quorum():
				l.establish()
			}
		})
	})
}

// takeOver replaces the log after its first common entries.
func (s *server) takeOver(common int, rest []*txn, committed int) {
	cut := common < len(s.log)
	s.log = append(s.log[:common:common], rest...)
	s.committed = max(min(s.committed, common), committed)
	if cut && s.applied > common {
		s.data, s.applied = newDatabase(), 0
	}
	s.applyTo(s.committed)
}

// followers counts the voters that have taken our history over, including ourselves.
func (l *leading) followers() int {
	n := 1
	for _, c := range l.learners {
		if c.joined && !c.learner.observer {
			n++
		}
	}
	return n
}

// establish starts to serve: a quorum has our history, so all of it is committed. The clock of every
// session restarts.
func (l *leading) establish() {
	s := l.s
	l.established = true
	s.committed = len(s.log)
	s.applyTo(s.committed)
	s.data.zxid = max(s.data.zxid, l.epoch<<32) // Leader.startZkServer
	l.phase = upTo(s.rng, s.e.tick)
	l.sessions = make(map[int64]*tracked)
	for id, timeout := range s.data.sessions {
		l.track(id, timeout)
	}
	s.serve()
	for _, c := range l.inOrder() {
		if c.joined {
			l.upToDate(c)
		}
	}
	s.in(s.e.tick/2, l.beat)
	l.expireNext()
	s.in(s.e.reapEvery, l.reap)
}

// upToDate allows a learner to serve.
func (l *leading) upToDate(c *learnerConn) {
	committed := l.s.committed
	c.toLearner(func() {
		f := c.learner
		f.commitTo(committed)
		c.synced = true
		f.serve()
	})
}
