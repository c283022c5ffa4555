package shards

import (
	"context"
	"errors"
	"time"

	"holdfast"
	"holdfast/internal/balance"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// campaign queues among the workers, which makes this worker known to the leader, and leads when it is
// first. It returns when ctx ends or something fails; then our node is gone, or is being removed.
func (r *worker) campaign(ctx context.Context) error {
	m := r.mutex(r.workers, holdfast.WithValue(r.self))
	for turn := queue.Pace(1); ; {
		h, err := m.Lock(ctx)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		began := time.Now()
		err = r.lead(ctx, h)
		lost := h.Context().Err() != nil || errors.Is(err, holdfast.ErrLost) || errors.Is(err, queue.ErrGone) || errors.Is(err, zk.ErrSessionExpired)
		h.Unlock()
		if ctx.Err() != nil || !lost {
			return unlessEnded(ctx, err)
		}
		turn = turn.NextAfter(ctx, began)
	}
}

// A leader is one term. It watches the workers, and writes the plan.
type leader struct {
	*worker
	hold    *holdfast.Hold
	damper  balance.Damper
	known   map[string]balance.Worker // by the names of their nodes
	present []balance.Worker
	base    balance.Plan // the last plan with workers, in case that somebody removes the stored one
}

// lead leads for one term, until ctx ends or the term is lost.
func (r *worker) lead(ctx context.Context, h *holdfast.Hold) error {
	term, cancel := context.WithCancel(h.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	l := &leader{worker: r, hold: h, damper: balance.Damper{Settle: r.set.settle}, known: make(map[string]balance.Worker)}
	// The plan that we have read may be older than the term before.
	if err := r.refresh(term); err != nil {
		return err
	}
	for {
		watch, err := l.list(term)
		for err == nil {
			var wait time.Duration
			if wait, err = l.plan(term); err != nil {
				break
			}
			var more bool
			if more, err = l.await(term, watch, wait); more {
				break
			}
		}
		if watch != nil {
			watch.Stop()
		}
		if err != nil {
			return err
		}
	}
}

// await returns when there is something to do. more: the list of the workers has changed.
func (l *leader) await(term context.Context, watch *zk.Watch, wait time.Duration) (more bool, _ error) {
	var due <-chan time.Time // nil: nothing is pending
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	again := time.NewTimer(queue.LookAgain())
	defer again.Stop()
	select {
	case ev := <-watch.C:
		return true, ev.Err
	case <-again.C:
		return true, nil
	case <-due:
	case <-l.planned: // by somebody else
	case <-term.Done():
		return false, context.Cause(term)
	}
	return false, nil
}

// list reads the workers. One watch reports all joins and leaves, and the data of a worker never change.
func (l *leader) list(term context.Context) (watch *zk.Watch, err error) {
	session, dir := lend.Places(l.hold)[0].Session, l.workers
	var listed []string
	err = zk.Retry(term, func() (err error) {
		listed, _, watch, err = session.ChildrenW(term, dir)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = queue.ErrGone // and so is our own node
	}
	if err != nil {
		return nil, err
	}
	known, unknown := make(map[string]balance.Worker), []string(nil)
	for _, c := range l.node.Grammar.InQueue(listed) {
		if w, ok := l.known[c.Name]; ok {
			known[c.Name] = w
		} else {
			unknown = append(unknown, c.Name)
		}
	}
	results, err := queue.Read(term, l.node.Client, dir, unknown)
	if err != nil {
		return watch, err
	}
	for i, r := range results {
		// Data that are no worker's belong to another program. Ours come back if somebody has
		// replaced them, see Revoke.
		if w, err := balance.ParseWorker(r.Data); r.Err == nil && err == nil {
			known[unknown[i]] = w
		}
	}
	l.known, l.present = known, nil
	for _, w := range known { // the plan does not depend on their order
		l.present = append(l.present, w)
	}
	return watch, nil
}

// plan writes the next plan if it is due. It returns the time until there is more to do, 0 if there is none.
func (l *leader) plan(term context.Context) (wait time.Duration, err error) {
	for {
		stored := l.stored()
		if len(stored.Workers) > 0 || l.base.Shards == nil {
			l.base = stored.Plan
		}
		next, wait := l.damper.Next(time.Now(), l.present, l.base)
		if next.Equal(stored.Plan) || len(next.Workers) == 0 {
			return wait, nil
		}
		data, err := next.Encode()
		if err != nil {
			return 0, err
		}
		results, err := l.hold.Commit(term, zk.SetOp(l.node.Path, data, stored.version))
		switch {
		case err == nil:
			l.learn(storedPlan{Plan: next, version: results[0].Stat.Version, mzxid: results[0].Stat.Mzxid})
			return wait, nil
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrConnectionLoss):
			// rare: another leader has written the plan, or the answer to ours is lost
			if err := l.refresh(term); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}

// errRunEnds means that the context has ended, because Run ends or the shard moves. So the error says nothing
// new.
var errRunEnds = errors.New("run ends")

// unlessEnded returns errRunEnds if ctx has ended, else err.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errRunEnds
	}
	return err
}
