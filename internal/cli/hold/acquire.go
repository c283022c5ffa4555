package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/lend"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// A taker acquires the lock of a plan, or several locks as one.
type taker struct {
	plan  *Plan
	say   *term.Sayer
	steps Steps
	// check can refuse the session before the client joins the queue.
	check func(*zk.Session) error
	// beside are the paths of the locks that an ancestor shares with this process: see watchShared.
	beside   []string
	reserver *reserver
	turn     turn
	arrival  holdfast.Option // all waits are one arrival, for --supersede and --queue-max
	// claims acquires a lock that no session owns; nil for all other locks.
	claims *claimer
	// contact is nil until there is a session. Without a session, the client has nothing on a server
	// that it must withdraw.
	contact atomic.Pointer[conn.Contact]
}

// Steps are what a subcommand does, besides, at the steps of a wait and a run. Each may be nil.
type Steps struct {
	OnBegin   func(*term.Sayer) // before the wait
	OnConnect func(*conn.Connection)
	OnHold    func(*holdfast.Hold, supervise.Ending) // before the command starts
	OnStop    func()                                 // the command is asked to stop, or has ended
}

func (s *Steps) begin(say *term.Sayer) {
	if s.OnBegin != nil {
		s.OnBegin(say)
	}
}

func (s *Steps) connected(c *conn.Connection) {
	if s.OnConnect != nil {
		s.OnConnect(c)
	}
}

func (s *Steps) held(h *holdfast.Hold, ends supervise.Ending) {
	if s.OnHold != nil {
		s.OnHold(h, ends)
	}
}

func (s *Steps) stop() {
	if s.OnStop != nil {
		s.OnStop()
	}
}

func newTaker(p *Plan, say *term.Sayer) *taker {
	return &taker{plan: p, say: say, reserver: &reserver{plan: p, say: say}, arrival: lend.OneArrival().(holdfast.Option)}
}

// begin returns a taker that writes its messages to w, and the signals that end its wait. beside are those of deadlock.
func begin(p *Plan, w io.Writer, beside []string, steps Steps, stop ...os.Signal) (*taker, chan os.Signal) {
	signals := make(chan os.Signal, 64)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, stop...)
	k := newTaker(p, p.Flags.Log.NewLiveSayer(w))
	k.beside, k.steps = beside, steps
	steps.begin(k.say)
	p.Metrics.Announce(k.say)
	return k, signals
}

// tenure is a lock that was acquired, with the connection of its session.
type tenure struct {
	*conn.Connection
	hold *holdfast.Hold
	// release gives the lock up before it is used.
	release func() error
}

// TryPatience is how many times its patience for one answer an attempt without a wait lasts at most, for example while the
// server throttles.
const TryPatience = 3

// ErrUndecided is the cause of a context that ends such an attempt.
var ErrUndecided = errors.New("the server has not decided it in time")

// errWaitOver is the cause of a context that ends a bounded wait.
var errWaitOver = errors.New("the wait timed out")

// take waits until it acquires the lock, the wait times out, or a signal arrives. On a signal it
// leaves the queue first and returns exit code 128+N. It does so, too, if the signal arrives together
// with the lock: a process that was told to stop must not start a command. If no server answers, take
// does not wait until it has left the queue. On a second signal, take returns at once. But while a server answers,
// it finds out first whether a detached lock is held, since nobody else knows its id.
func (k *taker) take(signals <-chan os.Signal) (*tenure, error) {
	defer k.say.Settle()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan acquired, 1)
	go func() {
		t, err := k.acquire(ctx)
		done <- acquired{t, err}
	}()
	var stop os.Signal
	for {
		select {
		case sig := <-signals:
			if c := k.contact.Load(); stop != nil && k.plan.detached.on && c != nil && c.Lost() == 0 {
				continue
			}
			if stop != nil {
				return nil, term.EndedBy(sig)
			}
			stop = sig
			cancel()
			// From here on, the client creates nothing on a server.
			if c := k.contact.Load(); c == nil || c.Lost() > 0 {
				return nil, term.EndedBy(sig)
			}
		case a := <-done:
			t, err := a.unless(stop, signals)
			if _, stopped := errors.AsType[term.ExitCode](err); stopped && errors.Is(a.err, holdfast.ErrUncertain) {
				k.say.Line("%s", term.Escape(term.Cut(a.err.Error(), term.MaxMessage))) // it has the id
			}
			return t, err
		}
	}
}

// acquired is the outcome of an attempt to acquire the lock.
type acquired struct {
	tenure *tenure
	err    error
}

// unless releases the lock if a signal arrived before the command started. A later signal goes to the
// command.
func (a acquired) unless(stop os.Signal, signals <-chan os.Signal) (*tenure, error) {
	if stop == nil {
		select {
		case stop = <-signals:
		default:
			return a.tenure, a.err
		}
	}
	switch {
	case a.tenure == nil:
	case a.tenure.hold == nil: // nobody else knows the id of a detached lock
		_ = a.tenure.release()
		a.tenure.Close()
	default: // if the release fails, closing the session releases the lock
		_, _ = job.UnlessHurried(signals, 1, a.tenure.release)
		a.tenure.Close()
	}
	return nil, term.EndedBy(stop)
}

// minPatience is how long a bounded wait waits for a connection at least. A short --wait is not enough
// to start the host of a file:// store.
const minPatience = 2 * time.Second

func (k *taker) acquire(ctx context.Context) (_ *tenure, err error) {
	start := time.Now()
	var patience time.Duration // for ever
	switch {
	case k.plan.try:
		patience = k.plan.Flags.Patience()
	case k.plan.bounded:
		patience = max(k.plan.wait, minPatience)
	}
	t := k.plan.Target
	t.ZK.CreateChroot = true // commands that only read do not make a mistyped one
	c, err := k.plan.Flags.Connect(ctx, t, patience, k.say)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.Quiet()
		if err != nil {
			c.Close()
		}
	}()
	k.contact.Store(c.Contact)
	k.steps.connected(c)
	k.plan.Metrics.Connected(c.Contact)
	session, err := c.Client.Session(ctx)
	if err == nil {
		err = k.suits(session)
	}
	if err != nil {
		return nil, err
	}
	var left time.Duration
	if k.plan.bounded {
		left = max(k.plan.wait-time.Since(start), 0)
	}
	h, err := k.enter(ctx, c, left)
	if err != nil {
		return nil, err
	}
	if h != nil { // else it is detached, and printed
		k.say.Detail("%s: acquired after %v, token %d", term.Escape(k.plan.Name), time.Since(start).Round(time.Millisecond), k.plan.token(h))
	}
	return &tenure{c, h, func() error {
		k.reserver.undo(c.Client, h)
		return k.giveUp(h)
	}}, nil
}

// suits refuses a session whose timeout is too long for the user, or too short for the command.
func (k *taker) suits(s *zk.Session) error {
	err := conn.Granted(k.plan.Flags, s.Timeout())
	if err == nil && k.check != nil {
		err = k.check(s)
	}
	return err
}

// enter acquires the lock. left is what remains of a bounded wait. If the session ends before the lock can be
// used, the wait goes on in the next session.
func (k *taker) enter(ctx context.Context, c *conn.Connection, left time.Duration) (*holdfast.Hold, error) {
	for until := time.Now().Add(left); ; left = max(time.Until(until), 0) {
		h, err := k.enterOnce(ctx, c, left)
		over := errors.Is(err, holdfast.ErrLost) || errors.Is(err, zk.ErrSessionExpired)
		if !over || errors.Is(err, holdfast.ErrUncertain) || k.plan.try || k.plan.bounded && left == 0 || ctx.Err() != nil {
			return h, err
		}
	}
}

// enterOnce is enter in one session.
func (k *taker) enterOnce(ctx context.Context, c *conn.Connection, left time.Duration) (_ *holdfast.Hold, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The check takes two round trips, so it runs during the wait.
	checked := make(chan error, 1)
	go func() {
		err := k.view(c).lonely(ctx)
		if err != nil {
			cancel(err)
		}
		checked <- err
	}()
	var h *holdfast.Hold
	if k.plan.try || k.plan.bounded && left == 0 {
		h, err = k.tryNow(ctx, c, cancel)
	} else {
		h, err = k.waitFor(ctx, c, left, cancel)
	}
	if err != nil {
		return nil, err
	}
	if err := <-checked; err != nil {
		_ = k.giveUp(h)
		return nil, err
	}
	if h != nil { // the session can be another one than at first, with another timeout
		var session *zk.Session
		if session, err = c.Client.Session(ctx); err == nil {
			err = k.suits(session)
		}
	}
	if err == nil {
		err = k.turn.look(ctx, k.plan, c.Client, h)
	}
	if err == nil {
		err = k.reserver.reserve(ctx, c.Client, h)
	}
	if err != nil {
		_ = h.Unlock()
		return nil, err
	}
	return h, nil
}

func (k *taker) view(c *conn.Connection) view { return view{k.plan, c.Client} }

// giveUp releases a lock that was acquired and is not to be used.
func (k *taker) giveUp(h *holdfast.Hold) error {
	if k.claims != nil {
		err := k.claims.withdraw(k.plan.Flags.Patience())
		if err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			k.say.Line("cannot release %s, so it stays held: %s. Run: holdfast unlock --id %s %[1]s",
				term.Escape(term.Cut(k.plan.Name, 80)), term.Escape(term.Cut(err.Error(), 250)), k.claims.claim.ID)
		}
		return err
	}
	return h.Unlock()
}

func (k *taker) tryNow(ctx context.Context, c *conn.Connection, cancel context.CancelCauseFunc) (*holdfast.Hold, error) {
	go c.Watch(ctx, k.plan.Flags.Patience(), cancel)
	bounded, stop := context.WithTimeoutCause(ctx, TryPatience*k.plan.Flags.Patience(), ErrUndecided)
	defer stop()
	h, err := k.resized(ctx, c.Client, func(l holdfast.Locker) (*holdfast.Hold, error) { return l.TryLock(bounded) })
	switch {
	case errors.Is(err, ErrUndecided):
		return nil, k.unanswered(c, TryPatience*k.plan.Flags.Patience(), err)
	case errors.Is(err, holdfast.ErrLocked):
		return nil, k.plan.reservedOr(err, func() error { _, busy := k.view(c).busy(ctx); return busy })
	case errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, holdfast.ErrUncertain) && c.Contact.Lost() > 0:
		return nil, k.lostContact(c)
	case err != nil:
		return nil, k.plan.failed(err)
	}
	return h, nil
}

// waitFor waits for the lock. left limits a bounded wait.
func (k *taker) waitFor(ctx context.Context, c *conn.Connection, left time.Duration, cancel context.CancelCauseFunc) (*holdfast.Hold, error) {
	go k.view(c).watchShared(ctx, k.beside, cancel)
	wait := ctx
	if k.plan.bounded {
		bounded, stop := context.WithTimeoutCause(ctx, left, errWaitOver)
		defer stop()
		wait = bounded
	}
	stopNotice := (&progress{view: k.view(c), say: k.say}).tell(ctx, cancel)
	h, err := k.resized(ctx, c.Client, func(l holdfast.Locker) (*holdfast.Hold, error) { return l.Lock(wait) })
	stopNotice()
	switch {
	case errors.Is(err, errWaitOver) && c.Contact.Lost() > 0:
		return nil, k.lostContact(c)
	case errors.Is(err, errWaitOver):
		over := time.Now()
		busy := k.plan.reservedOr(err, func() error {
			known, busy := k.view(c).busy(ctx)
			if _, ok := errors.AsType[*zk.Error](err); ok && !known {
				return k.unanswered(c, k.plan.wait, err)
			}
			return busy
		})
		// If it was lost just before the wait ended, nobody knows who holds the lock.
		if c.Contact.Lost() > 0 && !c.Contact.Answered(over) {
			return nil, k.lostContact(c)
		}
		return nil, busy
	case err != nil:
		return nil, k.plan.failed(err)
	}
	return h, nil
}

// unanswered returns the error of a wait that ended during a request, while a server could be reached. So nobody is known
// to hold the lock. err names the request.
func (k *taker) unanswered(c *conn.Connection, after time.Duration, err error) error {
	if e, ok := errors.AsType[*holdfast.Error](err); ok {
		err = e.Err
	}
	return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("%s: timed out after %v, and nobody is known to hold it: %v%s", k.plan.Name, duration.Text(after), err, c.Contact.Trouble()), Hint: "holdfast doctor examines the server"}
}

// lostContact returns the error of a wait that lost contact with all servers.
func (k *taker) lostContact(c *conn.Connection) error {
	return k.plan.Target.Explain(c.Contact.GaveUp(c.Contact.Lost().Round(time.Second)))
}
