package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast"
	"holdfast/chaos"
)

// These oracles check claims while they last. A holder whose node was removed is told of that,
// and a holder that is asked to release is told, too. In a calm world, where no network and no
// server fails, this takes a round trip or two. In other worlds it may take until the
// connection is whole again, or until the deadline of the holder's proof.

// A liveClaim is a claim that is held now.
type liveClaim struct {
	*chaos.Claim
	client *client
	token  int64
	node   string
}

// claimed records a claim, until unclaimed.
func (w *world) claimed(c *client, claim *chaos.Claim) *liveClaim {
	l := &liveClaim{claim, c, claim.Token(), claim.Path()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live == nil {
		w.live = make(map[*liveClaim]bool)
	}
	w.live[l] = true
	return l
}

func (w *world) unclaimed(l *liveClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live, l)
}

// having returns the claims of a node, by path and token, that their holders believe in.
func (w *world) having(node string, token int64) (all []*liveClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.live {
		slot := slices.ContainsFunc(l.Tokens(), func(t holdfast.LockToken) bool { return t.Path == node }) // any of several
		if (l.node == node || slot) && l.token == token && l.Context().Err() == nil {
			all = append(all, l)
		}
	}
	return all
}

// reach exceeds the time of a frame to or from a client, in a calm world.
func (c *client) reach() time.Duration {
	switch c.line.region {
	case far:
		return 250 * time.Millisecond
	case lossy:
		return 1200 * time.Millisecond // two frames in a row, each sent three times
	case behind:
		return 900 * time.Millisecond
	}
	return 30 * time.Millisecond
}

// soon returns how long it takes at most to tell a client, in a calm world. A new holder looks
// at its node after 5 ms, which takes a request and an answer, and then the event arrives.
func (w *world) soon(c *client) time.Duration {
	d := 50*time.Millisecond + 3*c.reach()
	if w.many != nil {
		d += 10 * w.many.applyLag
	}
	return d
}

// late returns the same for any world: the proof of the session has run out, or the client was
// told on a new connection.
func (w *world) late() time.Duration { return 2*w.timeout + 3*time.Second }

// mustBeTold checks that no client believes for long in a node that was removed just now.
func (w *world) mustBeTold(node string, token int64) {
	holders := w.having(node, token)
	if w.calm {
		for _, l := range holders {
			time.AfterFunc(w.soon(l.client), func() { w.checkTold(node, token, l.client) })
		}
	}
	time.AfterFunc(w.late(), func() { w.checkTold(node, token, nil) })
}

// checkTold reports claims of a node that does not exist: of one client, or of all.
func (w *world) checkTold(node string, token int64, of *client) {
	for _, l := range w.having(node, token) {
		if of == nil || l.client == of {
			w.found("told of removal", node, "client %d still believes to hold it", l.client.number)
		}
	}
}

// mustBeAsked checks that the holders of a node are told of the release request that was written into it
// just now.
func (w *world) mustBeAsked(node string, token int64) {
	if !w.calm {
		return
	}
	for _, l := range w.having(node, token) {
		time.AfterFunc(w.soon(l.client), func() {
			select {
			case <-l.Revoked():
				return
			default:
			}
			for _, still := range w.having(node, token) {
				if still == l {
					w.found("told of a request", node, "client %d does not know that somebody wants the lock", l.client.number)
				}
			}
		})
	}
}

// overdue looks for waiters whose turn came late, in a calm world.
func (w *world) overdue(locks []lockSpec, ops []chaos.Op) []chaos.Violation {
	if !w.calm {
		return nil
	}
	var within time.Duration
	for _, c := range w.clients {
		within = max(within, 8*w.soon(c))
	}
	prompt := make(map[string]bool)
	for _, l := range locks {
		for _, id := range l.ids {
			prompt[id.id] = l.prompt
		}
	}
	var of []chaos.Op
	for _, o := range ops {
		if prompt[o.Lock] {
			of = append(of, o)
		}
	}
	others, known := w.disturbed(locks)
	if !known {
		return nil
	}
	return chaos.Overdue(append(of, others...), within)
}

// A spectator observes an election's leaders from beginning to end.
type spectator struct {
	path string
	last string        // its latest observation, in words
	lead bool          // there is a leader, as far as it knows
	stop func()        // ends it
	done chan struct{} // it has ended
}

// watchLeaders makes the admin's client observe the leaders of an election.
func (w *world) watchLeaders(spec lockSpec) *spectator {
	l := spec.of(w.admin)[0]
	if l.election == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &spectator{path: spec.path, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		var term int64
		for leader, err := range l.election.Leaders(ctx) {
			var lead bool
			var last string
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				w.found("error", spec.path, "leaders: %v", err)
				return
			case leader.Term == 0:
				last = "nobody leads"
			case leader.Term < term:
				w.found("term", spec.path, "a spectator was told of term %d after %d", leader.Term, term)
			default:
				lead, last = true, fmt.Sprintf("term %d, %q", leader.Term, leader.Value)
				term = leader.Term
				w.leads(leader)
			}
			w.mu.Lock()
			s.lead, s.last = lead, last
			w.mu.Unlock()
		}
	}()
	return s
}

// close ends it. There is no leader any more by now.
func (s *spectator) close(w *world) {
	if s == nil {
		return
	}
	w.mu.Lock()
	lead, last := s.lead, s.last
	w.mu.Unlock()
	if lead {
		w.found("told of removal", s.path, "the spectator still believes that there is a leader: %s", last)
	}
	s.stop()
	<-s.done
}
