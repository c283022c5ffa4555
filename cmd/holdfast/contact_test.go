package main

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

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

func refusedBy(ip string) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// A doorway is a dialer to a server that a test can close.
type doorway struct {
	srv *zktest.Server
	mu  sync.Mutex // guards err
	err error      // the error of every dial; nil if the way is open
}

func (d *doorway) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *doorway) config() zk.Config {
	cfg := d.srv.Config()
	dial := cfg.Dial
	cfg.Servers = []string{"h:2181"}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.mu.Lock()
		err := d.err
		d.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return dial(ctx, network, addr)
	}
	return cfg
}

// A diary keeps messages with the time since its start.
type diary struct {
	*sayer
	began time.Time
	mu    sync.Mutex // guards lines
	lines []string
}

// newDiary starts a diary. stop ends it.
func newDiary() (d *diary, stop func()) {
	d = &diary{sayer: newTestSayer(), began: time.Now()}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case m := <-d.queue:
				if m.heard != nil {
					close(m.heard)
					continue
				}
				d.mu.Lock()
				d.lines = append(d.lines, fmt.Sprintf("%v %s", time.Since(d.began).Round(time.Second), strings.TrimSuffix(m.line, "\n")))
				d.mu.Unlock()
			case <-end:
				return
			}
		}
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
		target target
		events []event
		want   []string
	}{
		{"quick enough", target{}, []event{{500 * time.Millisecond, up}}, nil},
		{"no answer at all", target{zk: zk.Config{Servers: []string{"a:1", "b:1"}}}, nil, []string{
			"1s holdfast: waiting for a server: a:1, b:1: no answer yet",
		}},
		{"no answer at first, then a cause, then another", target{dir: "/d"}, []event{
			{3 * time.Second, fail("unix:///d/socket", 0, errors.New("host /d: full"))}, {4 * time.Second, fail("unix:///d/socket", 0, errors.New("host /d: gone"))},
		}, []string{
			"1s holdfast: waiting for a server: /d: no answer yet",
			"3s holdfast: waiting for a server: host /d: full",
			"13s holdfast: waiting for a server: host /d: gone",
		}},
		{"a cause, and the same again", target{}, []event{{0, fail("a:1", 0, errRefused)}, {20 * time.Second, fail("a:1", 0, errRefused)}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"every server has its cause", target{}, []event{
			{0, fail("b:1", 5*time.Second, context.DeadlineExceeded)}, {0, fail("a:1", 0, errRefused)}, {0, fail("b:1", 4*time.Second, context.DeadlineExceeded)},
		}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused; b:1: no answer in 4s",
		}},
		{"the addresses of a name, one of which is given up", target{}, []event{
			{0, fail("h:1", 0, refusedBy("10.0.0.1"))}, {0, fail("h:1", 0, refusedBy("10.0.0.2"))}, {90 * time.Second, fail("h:1", 0, refusedBy("10.0.0.2"))},
		}, []string{
			"1s holdfast: waiting for a server: h:1 (10.0.0.1), h:1 (10.0.0.2): connection refused",
			"1m30s holdfast: waiting for a server: h:1 (10.0.0.2): connection refused",
		}},
		{"the address that was given", target{}, []event{{0, fail("10.0.0.1:1", 0, refusedBy("10.0.0.1"))}}, []string{
			"1s holdfast: waiting for a server: 10.0.0.1:1: connection refused",
		}},
		{"another cause", target{}, []event{{0, fail("a:1", 0, errRefused)}, {30 * time.Second, fail("a:1", 2*time.Second, context.DeadlineExceeded)}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
			"30s holdfast: waiting for a server: a:1: no answer in 2s",
		}},
		{"another cause soon after", target{}, []event{{0, fail("a:1", 0, errRefused)}, {2 * time.Second, fail("b:1", 0, errRefused)}, {3 * time.Second, fail("b:1", 0, errors.New("odd"))}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
			"11s holdfast: waiting for a server: a:1: connection refused; b:1: odd",
		}},
		{"an attempt that we have ended", target{}, []event{{0, fail("a:1", 0, errRefused)}, {0, fail("a:1", 0, context.Canceled)}, {0, fail("a:1", 10*time.Millisecond, os.ErrDeadlineExceeded)}}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"back, and gone again", target{}, []event{
			{0, fail("a:1", 0, errRefused)}, {5 * time.Second, up}, {6 * time.Second, down}, {6 * time.Second, fail("a:1", 0, errRefused)},
		}, []string{
			"1s holdfast: waiting for a server: a:1: connection refused",
			"5s holdfast: a server answers",
			"11s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"lost without a word", target{}, []event{{0, up}, {5 * time.Second, fail("a:1", 0, errRefused)}}, []string{
			"6s holdfast: waiting for a server: a:1: connection refused",
		}},
		{"a moment without", target{}, []event{{0, up}, {5 * time.Second, down}, {5900 * time.Millisecond, up}}, nil},
		{"a directory", target{dir: "/d"}, []event{{0, fail("unix:///d/socket", 0, errors.New("zklocal: host /d: full"))}}, []string{
			"1s holdfast: waiting for a server: host /d: full",
		}},
		{"a directory that the cause does not name", target{dir: "/d"}, []event{{0, fail("unix:///d/socket", time.Second, context.DeadlineExceeded)}}, []string{
			"1s holdfast: waiting for a server: /d: no answer in 1s",
		}},
		{"a cause that would reach the terminal", target{}, []event{{0, fail("a:1", 0, errors.New("\x1b[31m"))}}, []string{
			`1s holdfast: waiting for a server: a:1: \x1b[31m`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, stop := newDiary()
				defer stop()
				c := newContact(tt.target)
				quiet := c.tell(d.sayer)
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
	c := newContact(target{})
	for server, why := range map[string]string{"a:1": "hung up", "c:1": "hung up", "b:1": "connection refused", "unix:///d": "hung up"} {
		c.add(failure{server: server, why: why, at: time.Now()})
	}
	if _, causes := c.state(); causes != "a:1, c:1, /d: hung up; b:1: connection refused" {
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
		if got := why(tt.err, tt.took); got != tt.want {
			t.Errorf("%v: got %q; want %q", tt.err, got, tt.want)
		}
	}
}

// Without --try and --wait, a wait has no limit, even without a server.
func TestWaitForEverOutlastsItsServers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first error // error of the dials before the outage ends
		later bool  // the outage comes after it has a place in the queue
	}{
		{"at first", errRefused, false},
		{"in the middle", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				holder, err := holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("somebody")).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				door := &doorway{srv: srv, err: tt.first}
				k := newTestTaker(srv)
				k.target.zk = door.config()
				d, stop := newDiary()
				defer stop()
				k.say = d.sayer
				var end time.Duration // the end of the outage
				go func() {
					if tt.later {
						time.Sleep(10 * time.Second)
						door.set(errRefused)
						srv.Expire(queueOf(t, srv.Client())[1].Session) // which also breaks its connection
					}
					time.Sleep(time.Hour)
					door.set(nil)
					time.Sleep(time.Minute)
					end = time.Since(d.began)
					holder.Unlock()
				}()
				tenure, err := k.take(nil)
				if err != nil {
					t.Fatalf("take: %v", err)
				}
				if took := time.Since(d.began); took < time.Hour || took > end+time.Second {
					t.Errorf("it took %v; want the outage's %v and little more", took, end)
				}
				if err := tenure.hold.Unlock(); err != nil {
					t.Error(err)
				}
				tenure.close()
				got := strings.Join(d.said(), "\n")
				for _, want := range []string{
					"s holdfast: waiting for a server: h:2181: connection refused\n",
					" holdfast: a server answers\n",
					" holdfast: waiting for job: held by somebody for 1h", // again, after the outage
				} {
					if strings.Count(got, want) != 1 {
						t.Errorf("said\n%s\nwant once %q", got, want)
					}
				}
			})
		})
	}
}

func TestBoundedWaitsForServersEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		try   bool
		wait  time.Duration
		later bool // the outage comes after a minute
		want  time.Duration
		error string
	}{
		{name: "--try gives the server the session timeout", try: true, want: 10 * time.Second,
			error: "cannot reach zk://test: no server answered within 10s (h:2181: connection refused)"},
		{name: "--wait counts", wait: time.Hour, want: time.Hour,
			error: "cannot reach zk://test: no server answered within 1h0m0s (h:2181: connection refused)"},
		{name: "--wait counts, an outage in the middle", wait: time.Hour, later: true, want: time.Hour,
			error: "cannot reach zk://test: no server answered within 59m"},
		{name: "a short --wait leaves time to connect", wait: 10 * time.Millisecond, want: minPatience,
			error: "cannot reach zk://test: no server answered within 2s (h:2181: connection refused)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				holder, err := holdfast.NewMutex(srv.Client(), lockPath).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer holder.Unlock()
				door := &doorway{srv: srv, err: errRefused}
				if tt.later {
					door.set(nil)
					go func() {
						time.Sleep(time.Minute)
						door.set(errRefused)
						srv.Expire(queueOf(t, srv.Client())[1].Session)
					}()
				}
				k := newTestTaker(srv)
				k.target.zk = door.config()
				k.try, k.bounded, k.wait = tt.try, tt.wait > 0, tt.wait
				began := time.Now()
				_, err = k.take(nil)
				took := time.Since(began)
				if !errors.Is(err, errUnreachable) || explain(err).code != exitUnavailable || !strings.HasPrefix(explain(err).err.Error(), tt.error) {
					t.Errorf("take: %v; want %s", err, tt.error)
				}
				if took < tt.want || took > tt.want+time.Second {
					t.Errorf("it took %v; want %v", took, tt.want)
				}
			})
		})
	}
}

func TestSignalEndsAWaitForServersAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		later bool // it has a place in the queue before the servers go
	}{
		{"at first, in a dial that does not heed its context", false}, // as while a host starts
		{"in the middle", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				holder, err := holdfast.NewMutex(srv.Client(), lockPath).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer holder.Unlock()
				k := newTestTaker(srv)
				stuck := make(chan struct{})
				if !tt.later {
					k.target.zk.Dial = func(context.Context, string, string) (net.Conn, error) {
						<-stuck
						return nil, errRefused
					}
				}
				signals, ended := make(chan os.Signal, 1), make(chan error, 1)
				go func() {
					_, err := k.take(signals)
					ended <- err
				}()
				time.Sleep(time.Minute)
				resume := func() {}
				if tt.later {
					resume = srv.Stall()
					time.Sleep(time.Hour)
				}
				signals <- syscall.SIGINT
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, exitCode(128+2)) {
						t.Errorf("take: %v; want exit code 130", err)
					}
				default:
					t.Error("take continues after the signal")
				}
				close(stuck)
				resume()
				time.Sleep(time.Minute) // goroutines that take left behind end
			})
		})
	}
}
