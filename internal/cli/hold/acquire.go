package hold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// WaitFlags are the flags of the subcommands that acquire a lock.
type WaitFlags struct {
	Try  bool
	Wait time.Duration
	Why  string
}

func (f *WaitFlags) register(cmd *cobra.Command) {
	f.RegisterTry(cmd, "the lock is held. (For a lock that a program only keeps, wait a second at most.)")
	term.DurationVar(cmd.Flags(), &f.Wait, "wait", "w", 0, "wait at most this long, then exit 75; 0 is --try (default: no limit, not even if no server answers)")
	cmd.Flags().StringVar(&f.Why, "why", "", "reason for holding the lock, shown to waiters and in ls and status")
}

// RegisterTry registers -n. busy says what there is to wait for.
func (f *WaitFlags) RegisterTry(cmd *cobra.Command, busy string) {
	cmd.Flags().BoolVarP(&f.Try, "try", "n", false, "do not wait: exit 75 if "+busy+" If no server answers, give up after the session timeout")
}

// A Taker acquires one lock, or several as one, for one command.
type Taker struct {
	*conn.Flags
	Target  conn.Target
	Name    string // as the user gave it
	Path    string
	also    []string // paths of the locks of --also
	place            // in a tree
	Kind    KindFlags
	why     string
	try     bool
	bounded bool // the wait ends after wait
	wait    time.Duration
	say     *term.Sayer
	quiet   bool
	Who     string // in the queue
	Labels  map[string]string
	once    onceFlags
	minHold time.Duration
	// reserved: the lock may stay held for --min-hold.
	reserved atomic.Bool
	record   runRecord
	// detached makes it a lock that no session owns.
	detached detachedFlags
	Metrics  *Metrics // of --metrics; nil without
	Steps    Steps
	// Campaign makes it an election, in which this client is a candidate.
	Campaign func(*zk.Client) holdfast.Locker
	// check can refuse the session before the client joins the queue.
	check func(*zk.Session) error
	// beside are the paths of the locks that an ancestor shares with this process: see watchShared.
	beside []string
	// claims acquires a lock that no session owns; nil for all other locks.
	claims *claimer
	// stuck is the deadlock that the wait is in, or nil.
	stuck atomic.Pointer[deadlock.Deadlock]
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

// NewTaker returns a taker of the lock that the command line names.
func NewTaker(g *conn.Flags, cmd *cobra.Command, f *WaitFlags, kind *KindFlags, name string) (*Taker, error) {
	given := cmd.Flags().Changed("wait")
	switch {
	case f.Wait < 0:
		return nil, term.Usage("give a time such as 30s, or 0 to try once", "--wait %v is negative", f.Wait)
	case f.Try && given && f.Wait > 0:
		return nil, term.Usage("leave out --try or --wait", "--try and --wait %v do not go together", f.Wait)
	}
	if err := kind.check(cmd); err != nil {
		return nil, err
	}
	find := g.PlainPath
	if kind.tree {
		find = g.LockPath // see place
	}
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	var also []string
	for _, name := range kind.also {
		p, err := g.PlainPath(name)
		if err != nil {
			return nil, err
		}
		also = append(also, p)
	}
	t, err := g.Target()
	if err != nil {
		return nil, err
	}
	place, path, err := kind.place(name, path)
	if err != nil {
		return nil, err
	}
	return &Taker{
		Flags: g, Target: t, Name: name, Path: path, place: place, also: also, Kind: *kind, why: f.Why,
		try: f.Try || given && f.Wait == 0, bounded: given && f.Wait > 0, wait: f.Wait,
	}, nil
}

// tenure is a lock that was acquired, with the connection of its session.
type tenure struct {
	*conn.Connection
	hold *holdfast.Hold
	// release gives the lock up before it is used.
	release func() error
}

// TryPatience is how many session timeouts an attempt without a wait lasts at most, for example while the server throttles.
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
func (k *Taker) take(signals <-chan os.Signal) (*tenure, error) {
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
			if c := k.contact.Load(); stop != nil && k.detached.on && c != nil && c.Lost() == 0 {
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

func (k *Taker) acquire(ctx context.Context) (_ *tenure, err error) {
	start := time.Now()
	var patience time.Duration // for ever
	switch {
	case k.try:
		patience = k.Timeout
	case k.bounded:
		patience = max(k.wait, minPatience)
	}
	t := k.Target
	t.ZK.CreateChroot = true // commands that only read do not make a mistyped one
	c, err := k.Connect(ctx, t, patience, k.say)
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
	k.Steps.connected(c)
	k.Metrics.Connected(c.Contact)
	session, err := c.Client.Session(ctx)
	if err == nil {
		err = k.suits(session)
	}
	if err != nil {
		return nil, err
	}
	var left time.Duration
	if k.bounded {
		left = max(k.wait-time.Since(start), 0)
	}
	h, err := k.enter(ctx, c, left)
	if err != nil {
		return nil, err
	}
	if h != nil { // else it is detached, and printed
		k.say.Detail("%s: acquired after %v, token %d", term.Escape(k.Name), time.Since(start).Round(time.Millisecond), k.token(h))
	}
	return &tenure{c, h, func() error {
		k.unreserve(c.Client, h)
		return k.giveUp(h)
	}}, nil
}

// suits refuses a session whose timeout is too long for the user, or too short for the command.
func (k *Taker) suits(s *zk.Session) error {
	err := conn.Granted(k.Flags, s.Timeout())
	if err == nil && k.check != nil {
		err = k.check(s)
	}
	return err
}

// enter acquires the lock. left is what remains of a bounded wait. If the session ends before the lock can be
// used, the wait goes on in the next session.
func (k *Taker) enter(ctx context.Context, c *conn.Connection, left time.Duration) (*holdfast.Hold, error) {
	for until := time.Now().Add(left); ; left = max(time.Until(until), 0) {
		h, err := k.enterOnce(ctx, c, left)
		over := errors.Is(err, holdfast.ErrLost) || errors.Is(err, zk.ErrSessionExpired)
		if !over || errors.Is(err, holdfast.ErrUncertain) || k.try || k.bounded && left == 0 || ctx.Err() != nil {
			return h, err
		}
	}
}

// enterOnce is enter in one session.
func (k *Taker) enterOnce(ctx context.Context, c *conn.Connection, left time.Duration) (_ *holdfast.Hold, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The check takes two round trips, so it runs during the wait.
	checked := make(chan error, 1)
	go func() {
		err := k.lonely(ctx, c.Client)
		if err != nil {
			cancel(err)
		}
		checked <- err
	}()
	var h *holdfast.Hold
	if k.try || k.bounded && left == 0 {
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
		err = k.once.look(ctx, k, c.Client, h)
	}
	if err == nil {
		err = k.reserve(ctx, c.Client, h)
	}
	if err != nil {
		_ = h.Unlock()
		return nil, err
	}
	return h, nil
}

// giveUp releases a lock that was acquired and is not to be used.
func (k *Taker) giveUp(h *holdfast.Hold) error {
	if k.claims != nil {
		err := k.claims.withdraw(k.Timeout)
		if err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			k.say.Line("cannot release %s, so it stays held: %s. Run: holdfast unlock --id %s %[1]s",
				term.Escape(term.Cut(k.Name, 80)), term.Escape(term.Cut(err.Error(), 250)), k.claims.claim.ID)
		}
		return err
	}
	return h.Unlock()
}

func (k *Taker) tryNow(ctx context.Context, c *conn.Connection, cancel context.CancelCauseFunc) (*holdfast.Hold, error) {
	go c.Watch(ctx, k.Timeout, cancel)
	bounded, stop := context.WithTimeoutCause(ctx, TryPatience*k.Timeout, ErrUndecided)
	defer stop()
	h, err := k.resized(ctx, c.Client, func(l holdfast.Locker) (*holdfast.Hold, error) { return l.TryLock(bounded) })
	switch {
	case errors.Is(err, ErrUndecided):
		return nil, k.unanswered(c, TryPatience*k.Timeout, err)
	case errors.Is(err, holdfast.ErrLocked):
		return nil, k.reservedOr(err, func() error { _, busy := k.busy(ctx, c.Client); return busy })
	case errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, holdfast.ErrUncertain) && c.Contact.Lost() > 0:
		return nil, k.lostContact(c)
	case err != nil:
		return nil, k.failed(err)
	}
	return h, nil
}

// waitFor waits for the lock. left limits a bounded wait.
func (k *Taker) waitFor(ctx context.Context, c *conn.Connection, left time.Duration, cancel context.CancelCauseFunc) (*holdfast.Hold, error) {
	go k.watchShared(ctx, c.Client, cancel)
	wait := ctx
	if k.bounded {
		bounded, stop := context.WithTimeoutCause(ctx, left, errWaitOver)
		defer stop()
		wait = bounded
	}
	stopNotice, stopDeadlock := k.notice(ctx, c.Client), k.tellDeadlock(ctx, c.Client)
	h, err := k.resized(ctx, c.Client, func(l holdfast.Locker) (*holdfast.Hold, error) { return l.Lock(wait) })
	stopNotice()
	stopDeadlock()
	switch {
	case errors.Is(err, errWaitOver) && c.Contact.Lost() > 0:
		return nil, k.lostContact(c)
	case errors.Is(err, errWaitOver):
		busy := k.reservedOr(err, func() error {
			known, busy := k.busy(ctx, c.Client)
			if _, ok := errors.AsType[*zk.Error](err); ok && !known {
				return k.unanswered(c, k.wait, err)
			}
			return busy
		})
		if c.Contact.Lost() > 0 { // it was lost just before the wait ended, so nobody knows who holds the lock
			return nil, k.lostContact(c)
		}
		return nil, busy
	case err != nil:
		return nil, k.failed(err)
	}
	return h, nil
}

// unanswered returns the error of a wait that ended during a request, while a server could be reached. So nobody is known
// to hold the lock. err names the request.
func (k *Taker) unanswered(c *conn.Connection, after time.Duration, err error) error {
	if e, ok := errors.AsType[*holdfast.Error](err); ok {
		err = e.Err
	}
	return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("%s: timed out after %v, and nobody is known to hold it: %v%s", k.Name, duration.Text(after), err, c.Contact.Trouble()), Hint: "holdfast doctor examines the server"}
}

// lostContact returns the error of a wait that lost contact with all servers.
func (k *Taker) lostContact(c *conn.Connection) error {
	return k.Target.Explain(c.Contact.GaveUp(c.Contact.Lost().Round(time.Second)))
}

// failed turns an error of a lock into one with an exit code and a hint.
func (k *Taker) failed(err error) error {
	name, reason := k.Name, err
	if lock, ok := errors.AsType[*holdfast.Error](err); ok {
		name, reason = k.called(lock.Path), lock.Err
		if k.Kind.tree {
			name = k.Name
		}
	}
	switch {
	case errors.Is(err, holdfast.ErrLimit):
		return term.Misconfigured("give the same --of as all other users, or --resize to change the number for all of them", "%s: %w", name, reason)
	case errors.Is(err, holdfast.ErrKind):
		return term.Misconfigured("", "%s: %w", name, reason) // the error says what to do
	case errors.Is(err, holdfast.ErrLayout), errors.Is(err, zk.ErrBadArguments):
		return term.Usage("", "%s: %w", name, reason)
	}
	return k.Target.Explain(err)
}
