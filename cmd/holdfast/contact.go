package main

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

	"holdfast/zk"
)

// noticeAgain is the shortest time between two messages about the servers.
const noticeAgain = 10 * time.Second

// noAnswerYet ends the text of state while no attempt has failed.
const noAnswerYet = ": no answer yet"

// A contact knows whether a server answers. If none does, it knows since when and why. It is safe for
// concurrent use.
type contact struct {
	target  target
	changed chan struct{} // has a token after a change

	mu       sync.Mutex // guards the fields below
	down     time.Time  // when contact was lost; zero while a server answers
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

func newContact(t target) *contact {
	return &contact{target: t, changed: make(chan struct{}, 1), down: time.Now()}
}

// trace returns the hooks by which the client reports to c.
func (c *contact) trace() *zk.Trace {
	return &zk.Trace{
		ConnectDone: func(server string, took time.Duration, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case err == nil:
				c.down, c.failures, c.server = time.Time{}, nil, server
			case errors.Is(err, context.Canceled), timedOut(err) && took < time.Second:
				return // the client itself ended the attempt
			default:
				if c.down.IsZero() {
					c.down = time.Now()
				}
				c.add(failure{addressed(server, err), why(err, took), err, time.Now()})
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

func (c *contact) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// add records a failure. It drops failures older than a minute, since the addresses of a host name can
// change. c.mu must be held.
func (c *contact) add(f failure) {
	c.failures = slices.DeleteFunc(c.failures, func(old failure) bool { return f.at.Sub(old.at) > time.Minute })
	for i := range c.failures {
		if c.failures[i].server == f.server {
			c.failures[i] = f
			return
		}
	}
	c.failures = append(c.failures, f)
}

// state returns when contact was lost, and the causes. The time is zero while a server answers.
func (c *contact) state() (down time.Time, causes string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.down.IsZero():
		return time.Time{}, ""
	case len(c.failures) == 0 && c.target.dir != "":
		return c.down, c.target.dir + noAnswerYet
	case len(c.failures) == 0:
		return c.down, strings.Join(c.target.zk.Servers, ", ") + noAnswerYet
	case c.target.dir != "" && strings.Contains(c.failures[0].why, c.target.dir):
		return c.down, c.failures[0].why
	case c.target.dir != "":
		return c.down, c.target.dir + ": " + c.failures[0].why
	}
	// The client tries the servers in a different order each time, so the causes are sorted.
	sorted := slices.SortedFunc(slices.Values(c.failures), func(a, b failure) int { return strings.Compare(a.server, b.server) })
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

// why returns the cause of a failed attempt in few words.
func why(err error, took time.Duration) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return dns.Err
	}
	if timedOut(err) {
		return fmt.Sprintf("no answer in %v", took.Round(time.Second))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if errno, ok := errors.AsType[syscall.Errno](op); ok {
			return errno.Error()
		}
	}
	return strings.TrimPrefix(err.Error(), "zklocal: ")
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// tell reports that no server has answered for a second, and why. It reports again when the causes
// change, at most every noticeAgain, and when a server answers. The first cause does not wait for noticeAgain. stop
// ends the reports, and returns after the last one.
func (c *contact) tell(say *sayer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if say.live() {
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

func (c *contact) report(ctx context.Context, say *sayer) {
	var (
		said string
		last time.Time
	)
	timer := time.NewTimer(noticeAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		case <-timer.C:
		}
		down, causes := c.state()
		now := time.Now()
		due := down.Add(noticeAfter)
		if !last.IsZero() {
			due = latest(due, last.Add(noticeAgain))
		}
		switch {
		case down.IsZero():
			timer.Stop()
			if said != "" {
				say.line("a server answers")
				said = ""
			}
		case causes == said:
			timer.Stop()
		case now.Before(due):
			timer.Reset(due.Sub(now))
		default:
			say.line("waiting for a server: %s", escape(causes))
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

// errUnreachable is wrapped by every [unreachable].
var errUnreachable = errors.New("no server answered")

// unreachable is the error of a wait for a server that has timed out.
type unreachable struct {
	within   time.Duration // length of the wait
	causes   string
	failures []failure
}

func (u *unreachable) Error() string {
	return fmt.Sprintf("%v within %v (%s)", errUnreachable, u.within, u.causes)
}

// Unwrap returns errUnreachable and the errors of the attempts.
func (u *unreachable) Unwrap() []error {
	all := []error{errUnreachable}
	for _, f := range u.failures {
		all = append(all, f.err)
	}
	return all
}

// gaveUp returns the error of a wait for a server that timed out after within.
func (c *contact) gaveUp(within time.Duration) error {
	_, causes := c.state()
	trouble := c.trouble()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) == 0 {
		causes += trouble
	}
	return &unreachable{within, causes, slices.Clone(c.failures)}
}

// connected returns the last server that has attached the session.
func (c *contact) connected() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// trouble says how often connections broke, for the end of a message. It returns "" if none did.
func (c *contact) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broke == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s broke, the last: %v)", counted(c.broke, "connection"), c.cause)
}

// isDown reports whether no server is connected.
func (c *contact) isDown() bool {
	down, _ := c.state()
	return !down.IsZero()
}

// lost returns how long no server has answered. A time below noticeAfter counts as 0.
func (c *contact) lost() time.Duration {
	down, _ := c.state()
	if since := time.Since(down); !down.IsZero() && since >= noticeAfter {
		return since
	}
	return 0
}

// show shows that no server answers, while this is so, until ctx ends.
func (c *contact) show(ctx context.Context, say *sayer) {
	defer say.progress(slotContact, "")
	step := time.NewTicker(progressStep)
	defer step.Stop()
	for {
		say.progress(slotContact, c.connecting())
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		case <-step.C:
		}
	}
}

// connecting returns which servers were tried, and why they do not answer. It returns "" if a server
// answers, or has answered in the last second.
func (c *contact) connecting() string {
	lost := c.lost()
	if lost == 0 {
		return ""
	}
	_, causes := c.state()
	text := fmt.Sprintf("connecting for %v", lost.Truncate(time.Second))
	if all := c.target.zk.Servers; c.target.dir == "" && len(all) > 1 {
		text += fmt.Sprintf(", %d of %d servers tried", c.tried(), len(all))
	}
	return escape(text + ": " + causes)
}

// tried returns how many servers have failed lately.
func (c *contact) tried() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, server := range c.target.zk.Servers {
		for _, f := range c.failures {
			if f.server == server || strings.HasPrefix(f.server, server+" (") {
				n++
				break
			}
		}
	}
	return n
}
