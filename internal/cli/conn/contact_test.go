package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/zk"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

func refusedBy(ip string) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// A diary keeps messages with the time since its start.
type diary struct {
	*term.Sayer
	began time.Time
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%v %s", time.Since(d.began).Round(time.Second), strings.TrimSuffix(string(p), "\n")))
	return len(p), nil
}

// newDiary starts a diary. stop ends it.
func newDiary() (d *diary, stop func()) {
	d = &diary{Sayer: term.NewQueue(nil), began: time.Now()}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.Deliver(d, end)
	}()
	return d, func() {
		close(end)
		<-done
	}
}

func (d *diary) said() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

func TestThatNoServerAnswersIsSaid(t *testing.T) {

	fail := func(server string, took time.Duration, err error) func(*zk.Trace) {
		return func(t *zk.Trace) { t.ConnectDone(server, took, err) }
	}
	up := func(t *zk.Trace) { t.ConnectDone("a:1", 0, nil) }
	down := func(t *zk.Trace) { t.Disconnected(1, errors.New("EOF")) }
	type event struct {
		at time.Duration
		do func(*zk.Trace)
	}
	for _, tt := range []struct {
		name   string
		target Target
		events []event
		want   []string
	}{
		{"quick enough", Target{}, []event{{500 * time.Millisecond, up}}, nil},
		{"no answer at all", Target{ZK: zk.Config{Servers: []string{"a:1", "b:1"}}}, nil, []string{
			"1s holdfast: waiting for a server: a:1, b:1: no answer yet",
		}},
		{"no answer at first, then a cause, then another", Target{Dir: "/d"}, []event{
			{3 * time.Second, fail("unix:///d/socket", 0, errors.New("host /d: full"))}, {4 * time.Second, fail("unix:///d/socket", 0, errors.New("host /d: gone"))},
		}, []string{
			"1s holdfast: waiting for a server: /d: no answer yet",
			"3s holdfast: waiting for a server: host /d: full",
			"13s holdfast: waiting for a server: host /d: gone",
		}},
		{"a cause, and the same again", Target{}, []event{{0, fail("a:1", 0, errRefused)}, {20 * time.Second, fail("a:1", 0, errRefused)}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"every server has its cause", Target{}, []event{
			{0, fail("b:1", 5*time.Second, context.DeadlineExceeded)}, {0, fail("a:1", 0, errRefused)}, {0, fail("b:1", 4*time.Second, context.DeadlineExceeded)},
		}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused; b:1: no answer in 4s",
		}},
		{"the addresses of a name, one of which is given up", Target{}, []event{
			{0, fail("h:1", 0, refusedBy("10.0.0.1"))}, {0, fail("h:1", 0, refusedBy("10.0.0.2"))}, {90 * time.Second, fail("h:1", 0, refusedBy("10.0.0.2"))},
		}, []string{
			"1s holdfast: waiting for a server: h:1 (10.0.0.1), h:1 (10.0.0.2): connection refused",
			"1m30s holdfast: waiting for a server: h:1 (10.0.0.2): connection refused",
		}},
		{"the address that was given", Target{}, []event{{0, fail("10.0.0.1:1", 0, refusedBy("10.0.0.1"))}}, []string{
			"1s holdfast: waiting for a server: 10.0.0.1:1: connection refused",
		}},
		{"another cause", Target{}, []event{{0, fail("a:1", 0, errRefused)}, {30 * time.Second, fail("a:1", 2*time.Second, context.DeadlineExceeded)}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
			"30s holdfast: waiting for a server: a:1: no answer in 2s",
		}},
		{"another cause soon after", Target{}, []event{{0, fail("a:1", 0, errRefused)}, {2 * time.Second, fail("b:1", 0, errRefused)}, {3 * time.Second, fail("b:1", 0, errors.New("odd"))}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
			"11s holdfast: waiting for a server: a:1: connection refused; b:1: odd",
		}},
		{"an attempt that we have ended", Target{}, []event{{0, fail("a:1", 0, errRefused)}, {0, fail("a:1", 0, context.Canceled)}, {0, fail("a:1", 10*time.Millisecond, os.ErrDeadlineExceeded)}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"back, and gone again", Target{}, []event{
			{0, fail("a:1", 0, errRefused)}, {5 * time.Second, up}, {6 * time.Second, down}, {6 * time.Second, fail("a:1", 0, errRefused)},
		}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
			"5s holdfast: a server answers",
			"11s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"lost without a word", Target{}, []event{{0, up}, {5 * time.Second, fail("a:1", 0, errRefused)}}, []string{
			"6s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"a moment without", Target{}, []event{{0, up}, {5 * time.Second, down}, {5900 * time.Millisecond, up}}, nil},
		{"a directory", Target{Dir: "/d"}, []event{{0, fail("unix:///d/socket", 0, errors.New("zklocal: host /d: full"))}}, []string{
			"1s holdfast: waiting for a server: host /d: full",
		}},
		{"a directory that the cause does not name", Target{Dir: "/d"}, []event{{0, fail("unix:///d/socket", time.Second, context.DeadlineExceeded)}}, []string{
			"1s holdfast: waiting for a server: /d: no answer in 1s",
		}},
		{"a cause that would reach the terminal", Target{}, []event{{0, fail("a:1", 0, errors.New("\x1b[31m"))}}, []string{
			`1s holdfast: waiting for a server: a:1: \x1b[31m`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, stop := newDiary()
				defer stop()
				c := newContact(tt.target)
				quiet := c.tell(d.Sayer)
				defer quiet()
				trace := c.trace()
				for _, e := range tt.events {
					time.Sleep(e.at - time.Since(d.began))
					e.do(trace)
					synctest.Wait()
				}
				time.Sleep(2 * time.Minute)
				if got := d.said(); !slices.Equal(got, tt.want) {
					t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			})
		})
	}
}

// Servers that fail for one reason are named together, with the reason once.
func TestCauseOfManyServersIsSaidOnce(t *testing.T) {
	c := newContact(Target{})
	for server, why := range map[string]string{"a:1": "hung up", "c:1": "hung up", "b:1": "connection refused", "unix:///d": "hung up"} {
		c.add(failure{server: server, why: why, at: time.Now()})
	}
	if _, causes := c.State(); causes != "a:1, c:1, /d: hung up; b:1: connection refused" {
		t.Error(causes)
	}
}

func TestWhyAnAttemptFailedInFewWords(t *testing.T) {
	for _, tt := range []struct {
		err  error
		took time.Duration
		want string
	}{
		{errRefused, 0, "connection refused"},
		{fmt.Errorf("handshake: %w", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), 0, "connection reset by peer"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}}, 0, "no such host"},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, 5*time.Second + 3*time.Millisecond, "no answer in 5s"},
		{fmt.Errorf("handshake: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), 2 * time.Second, "no answer in 2s"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}}, 3 * time.Second, "no answer in 3s"},
		{errors.New("zklocal: host /d: no space left on device"), 0, "host /d: no space left on device"},
		{errors.New("handshake: EOF"), 0, "handshake: EOF"},
	} {
		if got := Cause(tt.err, tt.took); got != tt.want {
			t.Errorf("%v: got %q; want %q", tt.err, got, tt.want)
		}
	}
}

func TestProgressOfServersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContact(Target{ZK: zk.Config{Servers: []string{"a:1", "b:1", "c:1"}}})
		trace := c.trace()
		if got := c.connecting(); got != "" {
			t.Errorf("at first: %q", got)
		}
		time.Sleep(1500 * time.Millisecond)
		for _, tt := range []struct {
			server string
			want   string
		}{
			{"", "connecting for 1s, 0 of 3 servers tried: a:1, b:1, c:1: no answer yet"},
			{"b:1", "connecting for 1s, 1 of 3 servers tried: b:1: connection refused"},
			{"a:1", "connecting for 1s, 2 of 3 servers tried: a:1, b:1: connection refused"},
			{"a:1", "connecting for 1s, 2 of 3 servers tried: a:1, b:1: connection refused"},
		} {
			if tt.server != "" {
				trace.ConnectDone(tt.server, 0, errRefused)
			}
			if got := c.connecting(); got != tt.want {
				t.Errorf("%q; want %q", got, tt.want)
			}
		}
		trace.ConnectDone("c:1", 0, nil)
		if got := c.connecting(); got != "" {
			t.Errorf("connected: %q", got)
		}
	})
}
