package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// WithPreference lets a candidate of an Election lead before those with a smaller preference, up to 1,000,000. Give all
// candidates the option with the same failback. One without it, or of another library, has the preference 0, and neither
// hands over nor lets a preferred one pass.
//
// If nobody leads, the most preferred candidate in line leads. A less preferred leader hands over when the other has been
// in line for failback, is next, and has just answered; those in between step behind.
//
// At a handover, Lead ends the context of its function with the cause ErrHandover, resigns when it has returned, and
// campaigns again. After Campaign, [Hold.Revoked] is closed. Revoke does both, too. The command holdfast revoke --to
// names the next leader. In a layout without {uuid} and {hex}, the preference can only be 0, or the error is ErrLayout.
func WithPreference(n int, failback time.Duration) Option {
	return func(o *options) {
		o.prefers, o.preferred, o.failback = true, max(n, 0), max(failback, 0)
		setNumber(o, setPreference, n, true)
		setNumber(o, setPreference, failback, true)
		if n > names.MaxPreference && o.refused == nil {
			o.refused = fmt.Errorf("%w: WithPreference(%d): want 0 to %d", zk.ErrBadArguments, n, names.MaxPreference)
		}
	}
}

// errPreferred is the error of a candidate that is to step behind one that is preferred.
var errPreferred = errors.New("a preferred candidate is in line")

// handover returns the context of Lead's function, which ends when the leader is to hand over. handed reports whether it
// has ended for that reason, and ends it.
func (l *lock) handover(ctx context.Context, h *Hold) (_ context.Context, handed func() bool) {
	if !l.prefers {
		return ctx, func() bool { return false }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-h.Revoked():
			cancel(ErrHandover)
		case <-ctx.Done():
		}
	}()
	return ctx, func() bool {
		cancel(nil)
		return errors.Is(context.Cause(ctx), ErrHandover)
	}
}

// A candidacy is one place of a candidate with a preference. Before the term, one goroutine follows the line while the
// candidate is next (follow), and during the term another one (lead).
type candidacy struct {
	lock  *lock
	place *queue.Place
	since map[string]time.Time // since when preferred candidates are in line, by our clock
	// chosen says that the leader was asked to hand over to us. Then we do not hand over to preferred candidates.
	chosen bool

	// Of follow: the node of the leader, and its last change that we have answered.
	answered string
	zxid     int64
	// Of lead: the next candidate, "" for none, and whether it knows that it is.
	next  string
	knows bool
	// Of lead: the candidate to which we have offered the term, and the zxid of the offer.
	offered string
	offer   int64
	// Of lead: the candidate to which we are asked to hand over, "" for none, and what the tenure has read of that since.
	to       string
	requests chan string
}

func newCandidacy(l *lock, p *queue.Place) *candidacy {
	c := &candidacy{lock: l, place: p, since: make(map[string]time.Time), requests: make(chan string, 1)}
	p.Reads = c.read
	return c
}

// read takes the data of our node from the tenure.
func (c *candidacy) read(data []byte) {
	to, _ := queue.Handover(data)
	select {
	case <-c.requests: // out of date
	default:
	}
	c.requests <- to
}

// wait is Place.Wait. The error is errPreferred if the candidate has to step behind.
func (c *candidacy) wait(ctx context.Context, patience bool) error {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	var following sync.WaitGroup
	c.place.Next = func() {
		following.Go(func() { c.follow(waiting, func() { end(errPreferred) }) })
	}
	err := c.place.Wait(waiting, patience)
	behind := errors.Is(context.Cause(waiting), errPreferred)
	end(nil)
	following.Wait()
	switch {
	case err == nil && c.place.Seen() == nil && !c.chosen: // else nobody was in line when it joined
		return c.yield(ctx)
	case err != nil && behind && ctx.Err() == nil && c.place.Session.Context().Err() == nil:
		return errPreferred
	}
	return err
}

// yield returns errPreferred if a preferred candidate is in line, for however long. Nobody leads at this moment.
func (c *candidacy) yield(ctx context.Context) error {
	line, err := c.line(ctx, nil)
	if err == nil && c.preferredIn(line) {
		return errPreferred
	}
	return err
}

// preferredIn reports whether a candidate in line is preferred to ours.
func (c *candidacy) preferredIn(line []names.Contender) bool {
	return slices.ContainsFunc(line, func(o names.Contender) bool { return o.Preference() > c.lock.preferred })
}

// line lists the candidates, the leader first. With w, it also watches the list, and lists only when it has changed.
func (c *candidacy) line(ctx context.Context, w *watching) ([]names.Contender, error) {
	if w != nil && w.line != nil {
		return w.listed, nil
	}
	var listed []string
	err := zk.Retry(ctx, func() (err error) {
		if w != nil {
			listed, _, w.line, err = c.place.Session.ChildrenW(ctx, c.lock.Path)
			return err
		}
		listed, _, err = c.place.Session.Children(ctx, c.lock.Path)
		return err
	})
	line := c.lock.Grammar.InQueue(listed)
	if w != nil {
		w.listed = line
	}
	return line, err
}

// follow follows the line while the candidate is next in it. Nobody else has to: when the node ahead of the candidate is the
// only one, it becomes next (Place.Next). follow calls step when the candidate has to step behind, and answers the leader.
func (c *candidacy) follow(ctx context.Context, step func()) {
	c.watch(ctx, func(w *watching) error {
		line, err := c.line(ctx, w)
		if err != nil || len(line) < 2 || line[1].Name != c.place.Name() { // its wait is over
			return err
		}
		leader := line[0]
		data, stat, unread := c.get(ctx, w, leader.Name)
		if unread != nil && !errors.Is(unread, zk.ErrNoAuth) {
			return w.unless(unread)
		}
		to, _ := queue.Handover(data)
		c.chosen = to == c.place.Name()
		mayAnswer := len(line) == 2 || !line[2].IsLatch()
		switch {
		case slices.ContainsFunc(line[2:], func(o names.Contender) bool { return o.Name == to }):
			step()
			return nil
		case c.chosen && !mayAnswer:
			return nil
		case c.chosen:
			return w.unless(c.answer(ctx, leader.Name, stat))
		case leader.Preference() >= c.lock.preferred:
			if c.preferredIn(line[2:]) { // so the line is in order when the leader dies
				step()
			}
			return nil
		}
		// The leader may be about to hand over to us. A new place would begin anew, so a candidate that flaps must not
		// make us step behind.
		var best *names.Contender
		if best, w.due, err = c.best(ctx, line[2:]); err == nil && best != nil {
			step()
			return nil
		}
		if err = cmp.Or(err, unread); err == nil && mayAnswer {
			err = w.unless(c.answer(ctx, leader.Name, stat))
		}
		return err
	})
}

// lead follows the line while the candidate leads, and hands the term over.
func (c *candidacy) lead(h *Hold) {
	ctx, end := context.WithCancel(h.Context())
	defer end()
	c.watch(ctx, func(w *watching) error {
		line, err := c.line(ctx, w)
		if err != nil || len(line) == 0 || line[0].Name != c.place.Name() {
			return err
		}
		if err := c.rouse(ctx, h, line[1:]); err != nil {
			return err
		}
		if c.to != "" {
			switch at := slices.IndexFunc(line, func(o names.Contender) bool { return o.Name == c.to }); {
			case at < 1: // it has left
				return c.forget(ctx, h)
			case at > 1: // those in between step behind
				return nil
			}
		} else {
			if c.chosen {
				return nil
			}
			var best *names.Contender
			best, w.due, err = c.best(ctx, line[1:])
			if err != nil || best == nil || line[1].Preference() < best.Preference() {
				return err // those in between step behind
			}
		}
		ready, err := c.isReady(ctx, w, h, line[1].Name)
		if ready {
			(*holder)(h).Revoke()
			end()
		}
		return err
	})
}

// rouse changes our node if the candidate behind us may not know that it is next. It watches our node, since there was
// another one between us (see watchFar in internal/queue). A candidate that has come when nobody was between knows.
func (c *candidacy) rouse(ctx context.Context, h *Hold, behind []names.Contender) error {
	next := ""
	if len(behind) > 0 {
		next = behind[0].Name
	}
	c.knows = next == "" || behind[0].IsLatch() || next == c.next && c.knows || c.next == "" && c.knows
	c.next = next
	if c.knows {
		return nil
	}
	if err := c.ask(ctx, h); err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	c.knows, c.offered = true, "" // it was no offer
	return nil
}

// watching has the watches, and says when to look again.
type watching struct {
	line   *zk.Watch // nil: the list may have changed
	listed []names.Contender
	node   *zk.Watch // nil: none, or the node may have changed
	name   string    // of the node, which had these data and this Stat
	data   []byte
	stat   zk.Stat
	due    time.Time // zero: none
	again  bool      // at once
}

// unless returns err, or looks again at once if it says that a node has gone.
func (w *watching) unless(err error) error {
	if w.again = errors.Is(err, zk.ErrNoNode); w.again {
		w.stop() // the list shows that node
		return nil
	}
	return err
}

func (w *watching) stop() {
	for _, watch := range [...]*zk.Watch{w.line, w.node} {
		if watch != nil {
			watch.Stop()
		}
	}
	w.line, w.node = nil, nil
}

// watch calls look, and again as look has told. It ends with ctx, or with the session.
func (c *candidacy) watch(ctx context.Context, look func(*watching) error) {
	var w watching
	defer w.stop()
	for turn, began := queue.Pace(1), time.Now(); ctx.Err() == nil && c.place.Session.Context().Err() == nil; {
		w.due, w.again = time.Time{}, false
		if err := look(&w); err != nil { // such as a missing permission: there is no handover meanwhile
			w.stop()
			turn, began = turn.NextAfter(ctx, began), time.Now()
		} else if !w.again {
			c.await(ctx, &w)
		}
	}
}

// await returns when a watch fires, when it is due, when there is another request for a handover, or when ctx ends.
func (c *candidacy) await(ctx context.Context, w *watching) {
	again := time.NewTimer(queue.LookAgain()) // an event may have been lost
	defer again.Stop()
	var due <-chan time.Time
	if !w.due.IsZero() {
		timer := time.NewTimer(time.Until(w.due))
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case <-eventOf(w.line):
			w.line = nil
		case <-eventOf(w.node):
			w.node = nil
		case to := <-c.requests:
			if to == c.to {
				continue
			}
			c.to, c.offered = to, ""
		case <-again.C:
			w.stop()
		case <-due:
		case <-ctx.Done():
		}
		return
	}
}

// eventOf is the channel of a watch; nil if there is none.
func eventOf(w *zk.Watch) <-chan zk.Event {
	if w == nil {
		return nil
	}
	return w.C
}

// best returns the first of the most preferred candidates among those in line that have been there for the time failback
// and are preferred to ours, or nil. due is when the next one will have been there for that time, zero if
// there is none.
func (c *candidacy) best(ctx context.Context, line []names.Contender) (best *names.Contender, due time.Time, err error) {
	since := make(map[string]time.Time)
	for i, o := range line {
		if o.Preference() <= c.lock.preferred {
			continue
		}
		began, ok := c.since[o.Name]
		if !ok {
			if began, ok, err = c.inLineSince(ctx, o.Name); err != nil {
				return nil, time.Time{}, err
			} else if !ok {
				continue
			}
		}
		since[o.Name] = began
		switch ends := began.Add(c.lock.failback); {
		case time.Now().Before(ends):
			if due.IsZero() || ends.Before(due) {
				due = ends
			}
		case best == nil || o.Preference() > best.Preference():
			best = &line[i]
		}
	}
	c.since = since
	return best, due, nil
}

// inLineSince returns since when a candidate is in line, by our clock: for as long as we see it, or as the server's
// clock says. ok is false if it has left. The result is never too early, unless the server's clock was set.
func (c *candidacy) inLineSince(ctx context.Context, name string) (began time.Time, ok bool, _ error) {
	var stat zk.Stat
	err := zk.Retry(ctx, func() (err error) {
		stat, ok, err = c.place.Session.Exists(ctx, c.lock.Path+"/"+name)
		return err
	})
	began = time.Now()
	if then := c.place.Joined().Add(time.Duration(stat.Ctime-c.place.Ctime()) * time.Millisecond); then.Before(began) {
		began = then
	}
	return began, ok, err
}

// The node directly ahead of a LeaderLatch of Curator must not change, or the latch waits for ever (Contender.IsLatch). So a
// candidate there does not answer, and a leader there does not rouse.
//
// The leader must not resign before the next candidate can lead. So it asks: it writes its own data again (isReady), and
// the next in line does the same with its own node (answer). The zxids show which write was first.

// answer answers the leader's latest change, whose Stat is given.
func (c *candidacy) answer(ctx context.Context, leader string, stat zk.Stat) error {
	if leader == c.answered && stat.Mzxid == c.zxid {
		return nil
	}
	session := c.place.Session
	for {
		data, own, err := session.Get(ctx, c.place.Path())
		if err == nil {
			_, err = session.Set(ctx, c.place.Path(), data, own.Version)
		}
		switch {
		case err == nil:
			c.answered, c.zxid = leader, stat.Mzxid
			return nil
		case !errors.Is(err, zk.ErrBadVersion): // else somebody has asked for its place
			return err
		}
	}
}

// get reads a candidate's node and watches it, if it may have changed.
func (c *candidacy) get(ctx context.Context, w *watching, name string) (data []byte, stat zk.Stat, _ error) {
	switch {
	case w.node != nil && w.name == name:
		return w.data, w.stat, nil
	case w.node != nil:
		w.node.Stop()
		w.node = nil
	}
	err := zk.Retry(ctx, func() (err error) {
		w.data, w.stat, w.node, err = c.place.Session.GetW(ctx, c.lock.Path+"/"+name)
		return err
	})
	w.name = name
	return w.data, w.stat, err
}

// isReady reports whether the next candidate has answered our offer, and makes the offer if it has not. If there is no
// answer yet, it watches for one.
func (c *candidacy) isReady(ctx context.Context, w *watching, h *Hold, next string) (bool, error) {
	if c.offered != next {
		if err := c.ask(ctx, h); err != nil && !errors.Is(err, zk.ErrNoAuth) { // without the right, we cannot ask
			return false, err
		}
		c.offered = next
	}
	_, stat, err := c.get(ctx, w, next)
	if err != nil {
		return false, w.unless(err)
	}
	return stat.Mzxid > c.offer, nil
}

// ask writes our data again, and notes the zxid of that write.
func (c *candidacy) ask(ctx context.Context, h *Hold) error {
	c.offer = 0
	write := func(ops ...zk.Op) error {
		results, err := h.commit(ctx, ops)
		if err == nil {
			c.offer = results[0].Stat.Mzxid
		}
		return err
	}
	return h.tenures[0].Replace(ctx, h.over, write, func(present []byte) ([]byte, error) { return present, nil })
}

// forget removes the request to hand over to a candidate that has left.
func (c *candidacy) forget(ctx context.Context, h *Hold) error {
	write := func(ops ...zk.Op) error { _, err := h.commit(ctx, ops); return err }
	err := h.tenures[0].Replace(ctx, h.over, write, func(present []byte) ([]byte, error) {
		if to, own := queue.Handover(present); to == c.to {
			return own, nil
		}
		return present, nil
	})
	if errors.Is(err, zk.ErrNoAuth) { // it stays, and means nobody
		return nil
	}
	return err
}
