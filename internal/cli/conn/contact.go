package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/zk"
)

// noticeAgain is the shortest time between two messages about the servers.
const noticeAgain = 10 * time.Second

// noAnswerYet ends the text of state while no attempt has failed.
const noAnswerYet = ": no answer yet"

// A Contact knows whether a server answers. If none does, it knows since when and why. It is safe for
// concurrent use.
type Contact struct {
	target  Target
	Changed chan struct{} // has a token after a change

	mu       sync.Mutex // guards the fields below
	down     time.Time  // when contact was lost; zero while a server answers
	up       time.Time  // when a server has attached the session, the last time
	server   string     // the last that has attached the session
	broke    int        // connections that broke
	cause    error      // of the last of them
	failures []failure  // the latest failure of each address
}

// A failure is an attempt to connect that failed.
type failure struct {
	server string // with the address, if the server is a host name
	why    string
	err    error
	at     time.Time
}

func newContact(t Target) *Contact {
	return &Contact{target: t, Changed: make(chan struct{}, 1), down: time.Now()}
}

// trace returns the hooks by which the client reports to c.
func (c *Contact) trace() *zk.Trace {
	return &zk.Trace{
		ConnectDone: func(server string, took time.Duration, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case err == nil:
				c.down, c.failures, c.server, c.up = time.Time{}, nil, server, time.Now()
			case errors.Is(err, context.Canceled), TimedOut(err) && took < time.Second:
				return // the client itself ended the attempt
			default:
				if c.down.IsZero() {
					c.down = time.Now()
				}
				c.add(failure{addressed(server, err), Cause(err, took), err, time.Now()})
			}
			c.wake()
		},
		Disconnected: func(_ int64, cause error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.down = time.Now()
			c.broke++
			c.cause = cause
			c.wake()
		},
	}
}

func (c *Contact) wake() {
	select {
	case c.Changed <- struct{}{}:
	default:
	}
}

// add records a failure. It drops failures older than a minute, since the addresses of a host name can
// change. c.mu must be held.
func (c *Contact) add(f failure) {
	c.failures = slices.DeleteFunc(c.failures, func(old failure) bool { return f.at.Sub(old.at) > time.Minute })
	for i := range c.failures {
		if c.failures[i].server == f.server {
			c.failures[i] = f
			return
		}
	}
	c.failures = append(c.failures, f)
}

// State returns when contact was lost, and the causes. The time is zero while a server answers.
func (c *Contact) State() (down time.Time, causes string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.down.IsZero():
		return time.Time{}, ""
	case len(c.failures) == 0 && c.target.Dir != "":
		return c.down, c.target.Dir + noAnswerYet
	case len(c.failures) == 0:
		return c.down, strings.Join(c.target.ZK.Servers, ", ") + noAnswerYet
	case c.target.Dir != "" && strings.Contains(c.failures[0].why, c.target.Dir):
		return c.down, c.failures[0].why
	case c.target.Dir != "":
		return c.down, c.target.Dir + ": " + c.failures[0].why
	}
	// The client tries the servers in a different order each time, so the causes are sorted.
	sorted := make([]*failure, len(c.failures))
	for i := range c.failures {
		sorted[i] = &c.failures[i]
	}
	slices.SortFunc(sorted, func(a, b *failure) int { return strings.Compare(a.server, b.server) })
	var all []string // each cause once, however many servers have it
	servers := make(map[string][]string)
	for _, f := range sorted {
		if len(servers[f.why]) == 0 {
			all = append(all, f.why)
		}
		servers[f.why] = append(servers[f.why], strings.TrimPrefix(f.server, "unix://"))
	}
	for i, why := range all {
		all[i] = strings.Join(servers[why], ", ") + ": " + why
	}
	return c.down, strings.Join(all, "; ")
}

// addressed returns the server with the address in err, if the server is a host name.
func addressed(server string, err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Addr == nil || op.Addr.Network() != "tcp" || op.Addr.String() == server {
		return server
	}
	host, _, err := net.SplitHostPort(op.Addr.String())
	if err != nil {
		return server
	}
	return server + " (" + host + ")"
}

// Cause returns the cause of a failed attempt in few words.
func Cause(err error, took time.Duration) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return dns.Err
	}
	if TimedOut(err) {
		return fmt.Sprintf("no answer in %s", duration.Age(took))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if errno, ok := errors.AsType[syscall.Errno](op); ok {
			return errno.Error()
		}
	}
	return strings.TrimPrefix(err.Error(), "zklocal: ")
}

// TimedOut reports whether err says that an answer did not come in time.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// tell reports that no server has answered for a second, and why. It reports again when the causes
// change, at most every noticeAgain, and when a server answers. The first cause does not wait for noticeAgain. stop
// ends the reports, and returns after the last one.
func (c *Contact) tell(say *term.Sayer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if say.Live() {
			c.show(ctx, say)
			return
		}
		c.report(ctx, say)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (c *Contact) report(ctx context.Context, say *term.Sayer) {
	var (
		said string
		last time.Time
	)
	timer := time.NewTimer(term.NoticeAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.Changed:
		case <-timer.C:
		}
		down, causes := c.State()
		now := time.Now()
		due := down.Add(term.NoticeAfter)
		if !last.IsZero() {
			due = latest(due, last.Add(noticeAgain))
		}
		switch {
		case down.IsZero():
			timer.Stop()
			if said != "" {
				say.Line("a server answers")
				said = ""
			}
		case causes == said:
			timer.Stop()
		case now.Before(due):
			timer.Reset(due.Sub(now))
		default:
			say.Line("waiting for a server: %s", term.Escape(causes))
			said = causes
			if !strings.HasSuffix(causes, noAnswerYet) {
				last = now
			}
			timer.Stop()
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ErrUnreachable is wrapped by the error of every wait for a server that timed out.
var ErrUnreachable = errors.New("no server answered")

// unreachable is the error of a wait for a server that has timed out.
type unreachable struct {
	within   time.Duration // length of the wait
	causes   string
	failures []failure
}

func (u *unreachable) Error() string {
	return fmt.Sprintf("%v within %s (%s)", ErrUnreachable, duration.Text(u.within), u.causes)
}

// Unwrap returns ErrUnreachable and the errors of the attempts.
func (u *unreachable) Unwrap() []error {
	all := []error{ErrUnreachable}
	for _, f := range u.failures {
		all = append(all, f.err)
	}
	return all
}

// GaveUp returns the error of a wait for a server that timed out after within.
func (c *Contact) GaveUp(within time.Duration) error {
	_, causes := c.State()
	trouble := c.Trouble()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) == 0 {
		causes += trouble
	}
	return &unreachable{within, causes, slices.Clone(c.failures)}
}

// connected returns the last server that has attached the session.
func (c *Contact) connected() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// Trouble says how often connections broke, for the end of a message. It returns "" if none did.
func (c *Contact) Trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broke == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s broke, the last: %v)", term.Count(c.broke, "connection"), c.cause)
}

// IsDown reports whether no server is connected.
func (c *Contact) IsDown() bool {
	down, _ := c.State()
	return !down.IsZero()
}

// Lost returns how long no server has answered. A time below term.NoticeAfter counts as 0.
func (c *Contact) Lost() time.Duration {
	down, _ := c.State()
	if since := time.Since(down); !down.IsZero() && since >= term.NoticeAfter {
		return since
	}
	return 0
}

// Answered reports whether a server has attached the session since the time. It may have broken the connection again.
func (c *Contact) Answered(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up.After(since)
}

// show shows that no server answers, while this is so, until ctx ends.
func (c *Contact) show(ctx context.Context, say *term.Sayer) {
	defer say.Progress(term.SlotContact, "")
	step := time.NewTicker(term.ProgressStep)
	defer step.Stop()
	for {
		say.Progress(term.SlotContact, c.connecting())
		select {
		case <-ctx.Done():
			return
		case <-c.Changed:
		case <-step.C:
		}
	}
}

// connecting returns which servers were tried, and why they do not answer. It returns "" if a server
// answers, or has answered in the last second.
func (c *Contact) connecting() string {
	lost := c.Lost()
	if lost == 0 {
		return ""
	}
	_, causes := c.State()
	text := fmt.Sprintf("connecting for %v", lost.Truncate(time.Second))
	if all := c.target.ZK.Servers; c.target.Dir == "" && len(all) > 1 {
		text += fmt.Sprintf(", %d of %d servers tried", c.tried(), len(all))
	}
	return term.Escape(text + ": " + causes)
}

// tried returns how many servers have failed lately.
func (c *Contact) tried() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, server := range c.target.ZK.Servers {
		for _, f := range c.failures {
			if f.server == server || strings.HasPrefix(f.server, server+" (") {
				n++
				break
			}
		}
	}
	return n
}
