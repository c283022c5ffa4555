package hold

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/zk"
	"holdfast/zktest"
)

// errNoServer is the error of a dial to a server that is not there.
var errNoServer = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

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

// Without --try and --wait, a wait has no limit, even without a server.
func TestWaitForEverOutlastsItsServers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first error // error of the dials before the outage ends
		later bool  // the outage comes after it has a place in the queue
	}{
		{"at first", errNoServer, false},
		{"in the middle", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				holder := mustLock(t, holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("somebody")))
				door := &doorway{srv: srv, err: tt.first}
				k := newTestTaker(srv)
				k.plan.Target.ZK = door.config()
				var messages strings.Builder
				enough, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					k.say.Deliver(&messages, enough)
				}()
				began := time.Now()
				var end time.Duration // the end of the outage
				go func() {
					if tt.later {
						time.Sleep(10 * time.Second)
						door.set(errNoServer)
						srv.Expire(queueOf(t, srv.Client())[1].Session) // which also breaks its connection
					}
					time.Sleep(time.Hour)
					door.set(nil)
					time.Sleep(time.Minute)
					end = time.Since(began)
					holder.Unlock()
				}()
				tenure, err := k.take(nil)
				if err != nil {
					t.Fatalf("take: %v", err)
				}
				if took := time.Since(began); took < time.Hour || took > end+time.Second {
					t.Errorf("it took %v; want the outage's %v and little more", took, end)
				}
				if err := tenure.hold.Unlock(); err != nil {
					t.Error(err)
				}
				tenure.Close()
				close(enough)
				<-done
				got := messages.String()
				for _, want := range []string{
					"holdfast: waiting for a server: h:2181: connection refused\n",
					"holdfast: a server answers\n",
					"holdfast: waiting for job: held by somebody for 1h", // again, after the outage
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
			error: "cannot reach zk://test: no server answered within 1h (h:2181: connection refused)"},
		{name: "--wait counts, an outage in the middle", wait: time.Hour, later: true, want: time.Hour,
			error: "cannot reach zk://test: no server answered within 59m"},
		{name: "a short --wait leaves time to connect", wait: 10 * time.Millisecond, want: minPatience,
			error: "cannot reach zk://test: no server answered within 2s (h:2181: connection refused)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				defer mustLock(t, holdfast.NewMutex(srv.Client(), lockPath)).Unlock()
				door := &doorway{srv: srv, err: errNoServer}
				if tt.later {
					door.set(nil)
					go func() {
						time.Sleep(time.Minute)
						door.set(errNoServer)
						srv.Expire(queueOf(t, srv.Client())[1].Session)
					}()
				}
				k := newTestTaker(srv)
				k.plan.Target.ZK = door.config()
				k.plan.try, k.plan.bounded, k.plan.wait = tt.try, tt.wait > 0, tt.wait
				began := time.Now()
				_, err := k.take(nil)
				took := time.Since(began)
				if !errors.Is(err, conn.ErrUnreachable) || term.Explain(err).Code != term.ExitUnavailable || !strings.HasPrefix(term.Explain(err).Err.Error(), tt.error) {
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
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				defer mustLock(t, holdfast.NewMutex(srv.Client(), lockPath)).Unlock()
				k := newTestTaker(srv)
				stuck := make(chan struct{})
				if !tt.later {
					k.plan.Target.ZK.Dial = func(context.Context, string, string) (net.Conn, error) {
						<-stuck
						return nil, errNoServer
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
					if !errors.Is(err, term.ExitCode(128+2)) {
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
