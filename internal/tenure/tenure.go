// Package tenure has what several Holds of one lock share: the lock's nodes and the proof that their session lives, the
// goroutines of one client that want the lock, and the lock that a client keeps after Unlock. It knows no Hold: see Holder.
//
// tenure.go is the tenure, from New to Drop or Lose. line.go has the goroutines that wait in memory, keep.go and
// keep_mark.go the kept lock, and rewrite.go the changes of the nodes' data.
//
// A tenure that has lasted 5 ms has one goroutine for each of its nodes, watch, until the last Unlock or the loss. sayHeld
// writes once, after a second. A line has one goroutine, contend, until it holds the lock, has failed, or has no waiters.
// A kept lock has watchJoins, and giveBack or mark, which remove or mark its node.
package tenure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// ErrLost means that the lock ended before Unlock.
var ErrLost = errors.New("lock lost")

// A Holder is a Hold of a tenure. Holders are compared: a Holder is one pointer.
type Holder interface {
	// Lose ends the Holder, unless its Unlock was first. It is called under the mutex of the tenure.
	Lose(loss error)
	// Report is called after Lose, without that mutex.
	Report(t *Tenure, loss error)
	// Revoke says that somebody has asked for the lock. It is called under the mutex of the tenure.
	Revoke()
}

// Terms say for which lock a tenure is, and what its caller has asked for.
type Terms struct {
	*queue.Queue
	Lock     any           // what the caller knows the lock by
	Handoffs int           // in memory, before the lock goes back to the ensemble
	Keep     time.Duration // how long the client keeps the lock after its last Holder has left
	OwnData  bool          // the caller has chosen the data of the nodes
}

// A Tenure has one node, or one for each permit of a semaphore. More than one Holder share it if the lock is
// re-entrant. Its methods are safe for concurrent use.
type Tenure struct {
	Terms
	Places []*queue.Place
	leases []*zk.Lease
	began  time.Time
	// ctx ends with the last Unlock, or with the end of a lock that is only kept. It does not end with a loss while there
	// is a Holder. The goroutines of the tenure end with it.
	ctx    context.Context
	cancel context.CancelFunc
	unhook func() bool // the end of the session no longer calls Lose
	young  *time.Timer // runs in the grace period, then starts the watching

	mu      sync.Mutex // guards the fields below; the mutex of a Holder may be locked under it
	holds   []Holder   // not unlocked yet
	loss    error      // why the lock is lost; nil while it is not
	revoked bool
	commits int        // transactions of Holders that may be on their way, see BeginCommit
	line    *line      // that hands it on, or in which it is kept; nil if there is none
	stepped bool       // a reader may take the writer's place when the writer's node is gone
	down    *Downgrade // of a writer that has stepped
	keep    *keeping   // see keep.go; nil if the lock is not to be kept

	rewrites rewrites
}

// New begins the tenure of places that nobody is ahead of. It has no Holder yet: the caller adds one, or calls
// Drop(nil). Two things must be true at this moment:
//
//   - Our nodes are known to exist: the list that showed nobody ahead showed them, or the events did (see
//     await.go).
//   - The session is proven. New makes sure of it, since the wait may have outlasted an earlier proof. From now
//     on the leases keep the session proven.
func New(ctx context.Context, terms Terms, places []*queue.Place) (*Tenure, error) {
	t := &Tenure{Terms: terms, Places: places, began: time.Now()}
	for _, p := range places {
		lease, err := p.Prove(ctx)
		if err != nil {
			t.release()
			return nil, err
		}
		t.leases = append(t.leases, lease)
	}
	switch {
	case !t.proven():
		t.release()
		return nil, zk.ErrSessionExpired
	case ctx.Err() != nil: // a caller that has given up gets no lock (etcd #10111)
		t.release()
		return nil, context.Cause(ctx)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, p := range places {
		p.PrepareWatermark()
		if queue.ReadNote(p.OwnData()).Revoke { // it was asked while it waited
			t.revoked = true
		}
	}
	session := places[0].Session
	t.unhook = context.AfterFunc(session.Context(), func() { t.Lose(context.Cause(session.Context())) })
	t.young = time.AfterFunc(GracePeriod, t.startWatching)
	return t, nil
}

// GracePeriod is how long a tenure lasts before it watches its nodes. A watch costs a request, an
// answer and at Unlock an event, which is as much as the lock itself but for the two commits. Shorter
// tenures save that. Nothing is missed: the watch is set by a read, which shows what has happened to
// the node by then. A removal within the first 5 ms is reported when they are over.
const GracePeriod = 5 * time.Millisecond

// startWatching begins to watch the nodes, at the end of the grace period.
func (t *Tenure) startWatching() {
	if t.ctx.Err() != nil {
		return
	}
	for i, p := range t.Places {
		go t.watch(p, t.leases[i])
	}
}

// watch waits for the removal of p's node by somebody else, which ends the tenure. It also sees a
// request to release the lock, which is written into the node.
func (t *Tenure) watch(p *queue.Place, lease *zk.Lease) {
	session := p.Session
	defer lease.Release()
	var due <-chan time.Time // fires when sayHeld is due; nil: it is not
	if p == t.Places[0] && t.saysSince() {
		timer := time.NewTimer(time.Until(t.began.Add(heldAfter)))
		defer timer.Stop()
		due = timer.C
	}
	requests := restorer{tenure: t, place: p} // removes requests to release the lock from the node
	defer requests.close()
	again := time.NewTimer(queue.LookAgain())
	defer again.Stop()
	// An early Unlock does not withdraw the first read: removing the watch would cost the server
	// more than the delete that fires it.
	for {
		watch, data, stat := p.TakeWatch()
		var err error
		if watch == nil { // else the place set it while it waited
			err = zk.Retry(t.ctx, func() (err error) {
				if t.ctx.Err() != nil { // it backed off, and the tenure has ended meanwhile
					return t.ctx.Err()
				}
				data, stat, watch, err = session.GetW(session.Context(), p.Path())
				return err
			})
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && !p.Unique && stat.Czxid != p.Czxid(): // gone, or another of its name
			if watch != nil {
				watch.Stop()
			}
			t.Lose(queue.ErrGone)
			return
		case session.Context().Err() != nil, err != nil && t.ctx.Err() != nil:
			return
		case err != nil:
			// We may not read our own node. We still see the end of the session, and look from time to time whether the
			// node is there.
			again.Reset(queue.LookAgain())
			select {
			case <-again.C:
				continue
			case <-session.Context().Done():
			case <-lease.Gone():
				t.Lose(queue.ErrGone)
			case <-t.ctx.Done():
			}
			return
		}
		if p.Reads != nil {
			p.Reads(data)
		}
		if queue.ReadNote(data).Revoke {
			t.revoke()
		}
		if queue.IsRequest(data) {
			requests.take(stat.Version)
		}
		again.Reset(queue.LookAgain())
		for changed := false; !changed; {
			select {
			case <-again.C: // the event may have been lost
				now, err := p.LookAtOwn(t.ctx)
				switch {
				case errors.Is(err, queue.ErrGone):
					t.Lose(queue.ErrGone)
					return
				case err == nil && now.Mzxid == stat.Mzxid:
					again.Reset(queue.LookAgain())
				default:
					watch.Stop()
					changed = true
				}
			case ev := <-watch.C:
				switch {
				case ev.Err != nil:
					t.Lose(ev.Err)
					return
				case ev.Type == zk.EventNodeDeleted:
					t.Lose(queue.ErrGone) // unless it was us
					return
				}
				changed = true
			case <-due:
				due = nil
				go t.sayHeld(zk.Result{Data: data, Stat: stat})
			case <-session.Context().Done():
				return
			case <-lease.Gone(): // our server may be cut off and never tell us
				t.Lose(queue.ErrGone)
				return
			case <-t.ctx.Done():
				return
			}
		}
	}
}

// Lose ends the tenure for all of its Holds, unless the last Unlock was first.
func (t *Tenure) Lose(why error) {
	t.mu.Lock()
	if t.isOver() {
		t.mu.Unlock()
		return
	}
	loss := fmt.Errorf("%w: %w", ErrLost, why)
	t.loss = loss
	t.leaveLine()
	if t.keep != nil && len(t.holds) == 0 {
		t.end()
		t.release()
		go t.clear()
	}
	for _, h := range t.holds {
		h.Lose(loss)
	}
	holds := slices.Clone(t.holds)
	t.mu.Unlock()
	for _, h := range holds {
		h.Report(t, loss)
	}
}

// revoke tells all Holders of the tenure that somebody has asked for the lock.
func (t *Tenure) revoke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.revoked {
		return
	}
	t.revoked = true
	if t.keep != nil && len(t.holds) == 0 {
		go t.giveBack()
	}
	for _, h := range t.holds {
		h.Revoke()
	}
}

// Add makes h share the tenure. It returns false if the tenure is over. Of a tenure that was lost, h is lost as well.
func (t *Tenure) Add(h Holder) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() {
		if t.loss != nil {
			h.Lose(t.loss)
		}
		return false
	}
	t.admit(h)
	return true
}

// Join is Add for a Holder whose context descends from another Holder of the tenure. It also returns false if the tenure
// was handed on in memory since, see line.go: then it belongs to somebody else.
func (t *Tenure) Join(h Holder, descends func(Holder) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() || t.line != nil && !slices.ContainsFunc(t.holds, descends) {
		return false
	}
	t.admit(h)
	return true
}

// admit is Add for a tenure that is not over. t.mu must be held.
func (t *Tenure) admit(h Holder) {
	t.holds = append(t.holds, h)
	if t.revoked {
		h.Revoke()
	}
}

// Forget removes h from the tenure, and nothing else: the nodes stay, also if h was the last.
func (t *Tenure) Forget(h Holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = slices.DeleteFunc(t.holds, func(o Holder) bool { return o == h })
}

// A Fate says what becomes of a tenure when a Holder leaves.
type Fate int

const (
	Shared   Fate = iota // other Holders have it
	HandedOn             // to a waiter of the line
	Kept                 // by the client, see keep.go
	Removed              // the nodes go
)

// Drop removes h from the tenure, and removes the nodes if h was the last. The error says that the nodes
// were lost before, or could not be removed.
func (t *Tenure) Drop(h Holder) (Fate, error) {
	switch f, loss := t.Leave(h); f {
	case Kept:
		return t.settle()
	case Removed:
		return f, t.dropped(loss, t.RemoveNodes())
	default:
		return f, loss
	}
}

// StartDrop is Drop that does not wait for the server. wait returns the results of Drop.
func (t *Tenure) StartDrop(h Holder) (wait func() (Fate, error)) {
	f, loss := t.Leave(h)
	switch f {
	case Kept:
		var err error
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			f, err = t.settle()
		}()
		return func() (Fate, error) {
			<-settled
			return f, err
		}
	case Removed:
	default:
		return func() (Fate, error) { return f, loss }
	}
	waits := make([]func() error, len(t.Places))
	for i, p := range t.Places {
		waits[i] = p.StartRemove()
	}
	return func() (Fate, error) {
		errs := make([]error, len(waits))
		for i, wait := range waits {
			errs[i] = wait()
		}
		return Removed, t.dropped(loss, errors.Join(errs...))
	}
}

// Leave removes h from the tenure. The Fate says what the caller has to do. If it is Removed, the tenure has ended, and
// the caller removes the nodes. If it is Kept, the caller calls settle. Otherwise there is nothing to do: other Holders
// have the tenure, or the next waiter of the line has it. loss is why the tenure was lost before.
func (t *Tenure) Leave(h Holder) (_ Fate, loss error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = slices.DeleteFunc(t.holds, func(o Holder) bool { return o == h })
	switch {
	case len(t.holds) > 0:
		return Shared, t.loss
	case t.handOn():
		return HandedOn, nil
	case t.stay():
		return Kept, nil
	}
	t.leaveLine()
	t.end()
	if t.stepped {
		t.Places[0].NoWatermark()
	}
	t.release()
	if t.keep != nil {
		close(t.keep.gone)
	}
	return Removed, t.loss
}

// end stops the watching and the keeping. It comes before the removal of the nodes.
func (t *Tenure) end() {
	t.unhook()
	t.young.Stop()
	t.cancel()
	t.endKeeping()
}

// release ends the leases: from now on, nothing keeps the session proven for this tenure.
func (t *Tenure) release() {
	for _, l := range t.leases {
		l.Release()
	}
}

// RemoveNodes removes the nodes of a tenure that has ended.
func (t *Tenure) RemoveNodes() error {
	if len(t.Places) == 1 {
		return t.Places[0].Remove()
	}
	errs := make([]error, len(t.Places))
	var wg sync.WaitGroup
	for i, p := range t.Places {
		if i > 0 {
			wg.Go(func() { errs[i] = p.Remove() })
		}
	}
	errs[0] = t.Places[0].Remove()
	wg.Wait()
	return errors.Join(errs...)
}

// dropped returns the error of Drop. loss is why the tenure was lost before, and err is the error of the removal.
func (t *Tenure) dropped(loss, err error) error {
	switch {
	case loss != nil:
		return loss
	case errors.Is(err, queue.ErrGone): // it ended before we did
		return fmt.Errorf("%w: %w", ErrLost, queue.ErrGone)
	case err != nil && t.Places[0].Session.Context().Err() == nil:
		return err
	}
	return nil // removed, or the session is over, and the nodes with it
}

// proven reports whether the session is proven at this moment.
func (t *Tenure) proven() bool {
	session := t.Places[0].Session
	return session.Context().Err() == nil && time.Now().Before(session.Deadline())
}

// isOver reports whether the tenure has ended or is lost. t.mu must be held.
func (t *Tenure) isOver() bool { return t.loss != nil || t.ctx.Err() != nil }

// Lasts reports whether the tenure is not over at this moment.
func (t *Tenure) Lasts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.isOver()
}

// IsShared reports whether more than one Holder has the tenure at this moment.
func (t *Tenure) IsShared() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holds) > 1
}

// BeginCommit notes that a Holder sends a transaction that checks the nodes. Until EndCommit, the tenure is neither handed on
// nor kept: the next Holder would have the same nodes, so the transaction would succeed under it.
func (t *Tenure) BeginCommit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.commits++
}

// EndCommit is called when the outcome of the transaction is known. If it is not, the transaction may still be on its way,
// and the tenure is not handed on any more.
func (t *Tenure) EndCommit(known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known {
		t.commits--
	}
}

// EndsAlone reports whether the nodes go with the last Holder: the tenure is neither handed on nor kept.
func (t *Tenure) EndsAlone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line == nil
}

// Step notes that the writer takes the read side as well, for a caller that descends from one of its Holders. It returns
// false if that Holder is over. From now on the node is not handed on in memory: the next writer in the
// line would hold the lock beside this reader.
func (t *Tenure) Step(descends func(Holder) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() || t.line != nil && !slices.ContainsFunc(t.holds, descends) {
		return false
	}
	t.leaveLine()
	t.stepped = true
	return true
}

// A Downgrade is the reader's node at a writer's place, where the names of readers do not tell them apart. There is one
// node for all callers that take the read side under the writer.
type Downgrade struct {
	Busy   chan struct{} // full while somebody makes the node; guards Reader
	Reader *Tenure       // the latest; nil if there was none
}

// Downgrade returns what the callers share that take the read side under the writer.
func (t *Tenure) Downgrade() *Downgrade {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down == nil {
		t.down = &Downgrade{Busy: make(chan struct{}, 1)}
	}
	return t.down
}
