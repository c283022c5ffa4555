package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast"
	"holdfast/chaos"
)

// These oracles look at claims while they last. A holder whose node somebody has removed is
// told of it, and who is asked for the lock, hears that. In a calm world, where no network and
// no server fails, that takes a round trip or two; in others it may take until the connection
// is whole again, or until the deadline of the holder's proof.

// A liveClaim is a claim that somebody has now.
type liveClaim struct {
	*chaos.Claim
	client *client
	token  int64
	node   string
}

// claimed takes note of a claim, until unclaimed.
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

// having are the claims of a node, by its path and token, that their holders believe to have.
func (w *world) having(node string, token int64) (all []*liveClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.live {
		if l.node == node && l.token == token && l.Context().Err() == nil {
			all = append(all, l)
		}
	}
	return all
}

// reach is longer than a frame takes to or from a client, in a calm world.
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

// soon is in what time a client has heard of something: a holder that has just begun looks
// at its node after 5 ms, for which it sends and receives something, and the event comes back.
func (w *world) soon(c *client) time.Duration {
	d := 50*time.Millisecond + 3*c.reach()
	if w.many != nil {
		d += 10 * w.many.applyLag
	}
	return d
}

// late is in what time a client has heard of something in any world: the proof of its session
// has run out, or it has been told on a new connection.
func (w *world) late() time.Duration { return 2*w.timeout + 3*time.Second }

// mustBeTold sees to it that nobody believes to have a node for long that has been removed just
// now.
func (w *world) mustBeTold(node string, token int64) {
	holders := w.having(node, token)
	if w.calm {
		for _, l := range holders {
			time.AfterFunc(w.soon(l.client), func() { w.checkTold(node, token, l.client) })
		}
	}
	time.AfterFunc(w.late(), func() { w.checkTold(node, token, nil) })
}

// checkTold complains of claims of a node that is not there: those of one client, or of all.
func (w *world) checkTold(node string, token int64, of *client) {
	for _, l := range w.having(node, token) {
		if of == nil || l.client == of {
			w.found("told of removal", node, "client %d still believes to hold it", l.client.number)
		}
	}
}

// mustBeAsked sees to it that those who have a node are told of the request to let go that
// has been written into it just now.
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
	return chaos.Overdue(of, within)
}

// A spectator is told of an election's leaders from the beginning to the end.
type spectator struct {
	path string
	last string        // what it was told, in words
	lead bool          // somebody leads, as far as it was told
	stop func()        // ends it
	done chan struct{} // it has ended
}

// watchLeaders has the admin's client be told of the leaders of an election.
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
			case errors.Is(err, holdfast.ErrNoLeader):
				last = err.Error()
			case ctx.Err() != nil:
				return
			case err != nil:
				w.found("error", spec.path, "leaders: %v", err)
				return
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

// close ends it. Nobody leads any more by now.
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
