package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Detached is a lock that no session owns: it stays held when the process that acquired it has ended, until
// somebody unlocks it by its id. It is for scripts, for stages of a pipeline, and for maintenance. It waits in the
// same queue as a [Mutex] at its path, and all others wait behind it, also those of other libraries. The waiter has
// an ephemeral node, so a waiter that dies leaves the queue. When nobody is ahead, one transaction replaces the node
// by a persistent node with the same number.
//
// Nobody is told of the loss of a Detached, and no deadline protects it. So let the guarded resource check tokens, or
// give the lock no expiry.
//
// Its layout needs names with {uuid} or {hex}, and a form that begins with *: those of Curator, kazoo and
// go-zookeeper do.
type Detached struct {
	lock    lock
	expires time.Duration
}

// A Claim is one tenure of a [Detached].
type Claim struct {
	ID      string    // for Unlock
	Token   int64     // the fencing token
	Path    string    // of the node
	Expires time.Time // as the node says, by the server's clock; zero: never
}

// NewDetached names the lock at path.
//
// If expires is above zero, the lock ends this long after Lock has asked the server for it; when Lock returns, at
// least half of the time is left. Then a client of this package removes it that is first or second in line (a reader
// only if first), or calls TryLock. Where only others wait, the server removes it some minutes later, if it has nodes
// with a time to live (Apache ZooKeeper needs extendedTypesEnabled). Times are by the server's clock. The lock ends
// early only if that clock is set forward while the lock is held. If that clock is set back, the first caller that
// comes then writes a new time of expiry, if it may write the node: the lock ends at the latest its own time, and a
// session timeout, after this caller.
func NewDetached(c *zk.Client, path string, expires time.Duration, opts ...Option) *Detached {
	o := newOptions("a Detached", opts)
	if o.refused == nil && expires < 0 {
		o.refused = fmt.Errorf("%w: a Detached cannot expire before it is acquired: %v is negative", zk.ErrBadArguments, expires)
	}
	return &Detached{newLock(c, path, queue.Lock, o), expires}
}

// Path is the path of the lock.
func (d *Detached) Path() string { return d.lock.Path }

// Lock waits for the lock, as [Mutex.Lock] does. When nobody is ahead any more, Lock takes one more round trip, which
// does not end with ctx. If the connection is lost then, Lock returns when it knows whether it holds the lock: after
// a session timeout at most, or two if the session ends. If no server has answered by then, the error is ErrUncertain
// and has the id.
//
// If less than half of the lock's time is left when the answer comes, Lock gives the lock up and queues again, at the
// back. After three such answers in a row, the time is too short for this server, and the error is
// zk.ErrBadArguments.
func (d *Detached) Lock(ctx context.Context) (Claim, error) {
	return d.acquire(ctx, "lock", true)
}

// TryLock acquires the lock, or fails with ErrLocked if somebody is ahead.
func (d *Detached) TryLock(ctx context.Context) (Claim, error) {
	return d.acquire(ctx, "try lock", false)
}

// acquire enters until it has the lock.
func (d *Detached) acquire(ctx context.Context, op string, patience bool) (Claim, error) {
	turn := queue.Pace(1)
	for late := 0; ; {
		c, err := d.enter(ctx, patience)
		again := false
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, errLate):
			late++
			switch {
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			case late < maxLate:
				again = true
			default:
				err = fmt.Errorf("%w: %w, %d times in a row: let it last longer than %v", zk.ErrBadArguments, err, late, d.expires)
			}
		case errors.Is(err, ErrUncertain): // it would wait behind its own lock, and the id would be unknown
		case patience || errors.Is(err, queue.ErrGone):
			late = 0
			turn, err = turn.Outlived(ctx, err)
			again = turn > 0
		}
		if !again {
			return Claim{}, &Error{Op: op, Path: d.lock.Path, Err: err}
		}
	}
}

// enter acquires the lock in one session.
func (d *Detached) enter(ctx context.Context, patience bool) (c Claim, err error) {
	if err := d.lock.valid(); err != nil {
		return Claim{}, err
	}
	if len(d.lock.held(ctx)) > 0 {
		return Claim{}, ErrDeadlock
	}
	o := d.lock.options
	p, err := d.lock.EnterDetached(ctx, func(a names.Attempt) ([]byte, error) {
		o.note.ID = a.ID
		return o.data(a)
	})
	if err != nil {
		return Claim{}, err
	}
	err = errPanic
	defer func() {
		if watch, _, _ := p.TakeWatch(); watch != nil {
			watch.Stop()
		}
		p.Stop()
		if err != nil {
			p.Leave(ctx)
		}
		if errors.Is(err, errPanic) && c.ID != "" { // nobody else knows the id
			d.giveUp(ctx, c, p.Session.Timeout())
		}
	}()
	if err := d.lock.waitWatched(ctx, p, patience); err != nil {
		return Claim{}, err
	}
	if ctx.Err() != nil { // a caller that has given up gets no lock
		return Claim{}, context.Cause(ctx)
	}
	c = Claim{ID: o.note.ID, Token: p.Token, Path: p.DetachedPath()}
	var expires int64
	change, err := p.Detach(func() ([]byte, error) {
		n := o.note
		n.Token = p.Token // that of the new node would be larger than those of the waiters
		if d.expires > 0 {
			expires = p.At(time.Now()) + d.expires.Milliseconds() + 1 // rounded up
		}
		n.Expires = expires
		return n.Encode()
	}, d.expires)
	if change.Doubt {
		expires, err = d.settle(ctx, &change, c, p.Session.Timeout(), err)
	}
	switch {
	case err != nil:
		return Claim{}, err
	case expires == 0:
		return c, nil
	}
	if right := change.Stat.Ctime + d.expires.Milliseconds() + 1; change.Stat.Czxid != 0 && expires-right > p.Session.Timeout().Milliseconds() {
		d.shorten(ctx, c, o.note, right, p.Session.Timeout())
		expires = right
	}
	if left := change.Left(expires); left <= 0 || 2*left < d.expires.Milliseconds() {
		d.giveUp(ctx, c, p.Session.Timeout())
		return Claim{}, errLate
	}
	c.Expires = time.UnixMilli(expires)
	return c, nil
}

// shorten writes the right time of expiry into the node of a claim. The one that is there is too late by more than the
// request for our place can have taken: the server's clock has gone back during the wait. If no server answers for as
// long as patience, the lock may last longer.
func (d *Detached) shorten(ctx context.Context, c Claim, n queue.Note, expires int64, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	n.Token, n.Expires = c.Token, expires
	data, err := n.Encode()
	if err != nil {
		return
	}
	_ = zk.Repeat(ctx, func() error {
		_, err := d.lock.Client.Set(ctx, c.Path, data, 0)
		return err
	})
}

// settle finds out whether a Lock that has failed with cause holds the lock all the same, and when that lock expires. The
// time is 0 if it never does.
func (d *Detached) settle(ctx context.Context, change *queue.Change, c Claim, patience time.Duration, cause error) (expires int64, _ error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	data, stat, ok, err := d.lock.Settle(ctx, c.Path)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: the lock may be held with the id %s: %w", ErrUncertain, c.ID, err)
	case !ok:
		return 0, cause
	}
	change.Stat = stat
	return queue.ReadNote(data).Expires, nil
}

// errLate means that the lock was acquired, and that the answer came too late to be of use. The lock is given up again.
var errLate = errors.New("less than half of its time was left when the server's answer came")

// maxLate is how many such answers in a row end a Lock.
const maxLate = 3

// giveUp removes the node of a claim. No other node ever has its name. If no server answers for as long as patience,
// the node stays until it expires.
func (d *Detached) giveUp(ctx context.Context, c Claim, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	d.remove(ctx, c.Path)
}

// Unlock releases the lock that Lock, in any process, has acquired with this id. The error is ErrNotHeld if
// nobody has the id. If somebody else holds the lock or waits for it, the error is ErrLocked as well.
func (d *Detached) Unlock(ctx context.Context, id string) error {
	if err := d.unlock(ctx, id); err != nil {
		return &Error{Op: "unlock", Path: d.lock.Path, Err: err}
	}
	return nil
}

func (d *Detached) unlock(ctx context.Context, id string) error {
	l := &d.lock
	if err := l.valid(); err != nil {
		return err
	}
	node, others, err := d.held(ctx, id)
	switch {
	case err != nil:
		return err
	case node == "" && others:
		return fmt.Errorf("%w: %w: nobody has the id %.40q", ErrLocked, ErrNotHeld, id)
	case node == "":
		return fmt.Errorf("%w: nobody has the id %.40q", ErrNotHeld, id)
	}
	return d.remove(ctx, node)
}

// remove removes the node of a claim. The error is ErrNotHeld if it is gone.
func (d *Detached) remove(ctx context.Context, node string) error {
	for doubt := false; ; { // the name is never used again, so the delete can be sent again
		err := zk.Retry(ctx, func() error { return d.lock.Client.Delete(ctx, node, zk.AnyVersion) })
		switch {
		case errors.Is(err, zk.ErrNoNode) && doubt:
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return fmt.Errorf("%w: it was released just now", ErrNotHeld)
		case ctx.Err() != nil || !errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, zk.ErrSessionExpired):
			return err
		}
		doubt = doubt || zk.MayHaveHappened(err)
	}
}

// held returns the node of the lock with the id, or "". others: somebody else holds the lock or waits for it.
func (d *Detached) held(ctx context.Context, id string) (node string, others bool, err error) {
	l := &d.lock
	entries, err := list(ctx, l.Client, l.Path, l.grammar)
	for _, e := range entries {
		if e.Detached && e.ID == id && id != "" {
			return e.Path, false, err
		}
	}
	return "", len(entries) > 0, err
}
