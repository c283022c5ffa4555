//go:build unix

package elect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/hold"
	"holdfast/internal/cli/term"
	"holdfast/zktest"
)

// inBubble runs f with its own server and fake time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

// asked returns the page's answer to GET path.
func asked(t *testing.T, p *page, path string) (code int, d LeaderDocument) {
	t.Helper()
	w := httptest.NewRecorder()
	p.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, w.Body)
	}
	return w.Code, d
}

// electPath is the election of the tests.
const electPath = "/holdfast/locks/job"

// A way leads to a server until it is shut.
type way struct {
	srv *zktest.Server
	no  atomic.Bool
}

// shut ends the connections, and refuses others.
func (w *way) shut() {
	w.no.Store(true)
	w.srv.CloseClientConnections()
}

// connect returns a connection on this way.
func (w *way) connect(t *testing.T) *conn.Connection {
	t.Helper()
	cfg := w.srv.Config()
	dial := cfg.Dial
	cfg.Servers = []string{"h:2181"}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if w.no.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return dial(ctx, network, addr)
	}
	g := &conn.Flags{Namespace: "/holdfast/locks", Timeout: 10 * time.Second}
	c, err := g.Connect(t.Context(), conn.Target{URL: "zk://test", ZK: cfg}, 0, term.NewQueue(nil))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startLeader returns the page of a leader, its hold, and a channel that is closed when the next candidate leads. end ends
// the page and the connection.
func startLeader(t *testing.T, to *way, grace time.Duration) (p *page, leader *holdfast.Hold, next <-chan struct{}, end func()) {
	t.Helper()
	c := to.connect(t)
	p = newPage("job")
	election := holdfast.NewElection(c.Client, electPath)
	p.follow(c, election)
	leader, err := election.Campaign(t.Context(), []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	p.lead(leader, "first", grace)
	leads := make(chan struct{})
	go func() {
		h, err := holdfast.NewElection(to.srv.Client(), electPath).Campaign(t.Context(), []byte("next"))
		if err != nil {
			return // the test has failed
		}
		close(leads)
		<-t.Context().Done()
		_ = h.Unlock()
	}()
	synctest.Wait()
	time.Sleep(time.Second)
	if code, d := asked(t, p, "/leader"); code != 200 || d.Name != "first" || !d.IsLeader || !d.Connected || d.Token == "" || *d.AsOfMS > 5000 {
		t.Fatalf("/leader is %d, %+v; want 200", code, d)
	}
	return p, leader, leads, func() {
		p.close()
		c.Close()
	}
}

// A page says no before another process can lead, whatever separates the leader from the server.
func TestPageSaysNoBeforeAnotherLeads(t *testing.T) {
	const grace = 2 * time.Second
	for _, tt := range []struct {
		name string
		fail func(*zktest.Server, *way) (revert func())
		now  bool // the page says no at once
	}{
		{"the connection ends", func(_ *zktest.Server, door *way) func() {
			door.shut()
			return func() {}
		}, true},
		{"the network loses all packets", func(srv *zktest.Server, door *way) func() {
			door.no.Store(true)
			return srv.Stall()
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				door := &way{srv: srv}
				p, leader, next, end := startLeader(t, door, grace)
				defer end()
				revert := tt.fail(srv, door)
				synctest.Wait()
				code, d := asked(t, p, "/leader")
				if tt.now && (code != 503 || d.Connected || d.IsLeader) {
					t.Errorf("at once /leader is %d, %+v; want 503", code, d)
				}
				deadline := leader.Deadline()
				revert = sync.OnceFunc(revert)
				defer revert()
				for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						revert()
					}
					code, d := asked(t, p, "/leader")
					if left := time.Until(deadline); code == 200 && left <= grace {
						t.Fatalf("/leader is 200 %v before the deadline; want 503 from %v before", left, grace)
					}
					select {
					case <-next:
						if code != 503 || d.IsLeader {
							t.Fatalf("another candidate leads, and /leader is %d, %+v", code, d)
						}
						if code, d := asked(t, p, "/"); d.Name == "first" && d.Connected {
							t.Errorf("another candidate leads, and / is %d, %+v", code, d)
						}
						return
					default:
					}
					if time.Now().After(limit) {
						t.Fatal("the other candidate does not lead")
					}
				}
			})
		})
	}
}

// The page says yes again if the connection returns in time, and no when the term ends, however it ends.
func TestPageFollowsTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		door := &way{srv: srv}
		p, leader, next, end := startLeader(t, door, time.Second)
		defer end()
		door.shut()
		synctest.Wait()
		if code, _ := asked(t, p, "/leader"); code != 503 {
			t.Errorf("without a connection /leader is %d; want 503", code)
		}
		if code, d := asked(t, p, "/"); code != 503 || d.Name != "first" {
			t.Errorf("without a connection / is %d, %+v; want 503 and the last known name", code, d)
		}
		door.no.Store(false)
		time.Sleep(2 * time.Second)
		if code, _ := asked(t, p, "/leader"); code != 200 {
			t.Errorf("after the connection has returned, /leader is %d; want 200", code)
		}
		if code, d := asked(t, p, "/"); code != 200 || d.Name != "first" {
			t.Errorf("after the connection has returned, / is %d, %+v", code, d)
		}

		// Somebody removes the node of the leader.
		if err := holdfast.Break(t.Context(), srv.Client(), electPath, leader.Token()); err != nil {
			t.Fatal(err)
		}
		<-next
		synctest.Wait() // a leader that is removed by force learns of it when the next one does, not before
		if code, d := asked(t, p, "/leader"); code != 503 {
			t.Errorf("without its node /leader is %d, %+v; want 503", code, d)
		}
		if code, d := asked(t, p, "/"); code != 200 || d.Name != "next" || d.IsLeader {
			t.Errorf("under the next leader / is %d, %+v", code, d)
		}
	})
}

func TestPageSaysNoWhenTheCommandHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		p, _, _, end := startLeader(t, &way{srv: srv}, time.Second)
		defer end()
		p.resign()
		if code, _ := asked(t, p, "/leader"); code != 503 {
			t.Errorf("/leader is %d; want 503", code)
		}
	})
}

// The page says no from the moment at which the command gets TERM, also if a server answers again by then.
func TestPageSaysNoFromTERM(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		p, leader, _, end := startLeader(t, &way{srv: srv}, time.Second)
		defer end()
		left := time.Until(leader.Deadline())
		for _, tt := range []struct {
			grace time.Duration
			want  int
		}{{left - time.Millisecond, 200}, {left, 503}, {left + time.Second, 503}} {
			p.lead(leader, "first", tt.grace)
			if code, d := asked(t, p, "/leader"); code != tt.want || d.IsLeader != (tt.want == 200) {
				t.Errorf("%v before the deadline, with TERM %v before it: /leader is %d, %+v; want %d", left, tt.grace, code, d, tt.want)
			}
		}
	})
}

// The name of a leader is not shown for longer than a session lasts without a proof.
func TestPageForgetsTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h, err := holdfast.NewElection(srv.Client(), electPath).Campaign(t.Context(), []byte("other"))
		if err != nil {
			t.Fatal(err)
		}
		defer h.Unlock()
		door := &way{srv: srv}
		c := door.connect(t)
		defer c.Close()
		p := newPage("job")
		defer p.close()
		if code, d := asked(t, p, "/"); code != 503 || d.Connected || d.AsOfMS != nil {
			t.Errorf("before the first contact / is %d, %+v", code, d)
		}
		p.follow(c, holdfast.NewElection(c.Client, electPath))
		synctest.Wait()
		if code, d := asked(t, p, "/"); code != 200 || d.Name != "other" || d.IsLeader {
			t.Errorf("/ is %d, %+v; want the leader", code, d)
		}
		door.shut()
		time.Sleep(11 * time.Second)
		if code, d := asked(t, p, "/"); code != 503 || d.Name != "" || d.Connected || *d.AsOfMS < 10_000 {
			t.Errorf("after the session timeout / is %d, %+v; want no name", code, d)
		}
		door.no.Store(false)
		time.Sleep(5 * time.Second)
		if code, d := asked(t, p, "/"); code != 200 || d.Name != "other" {
			t.Errorf("in the next session / is %d, %+v; want the leader", code, d)
		}
	})
}

func TestHTTPAddress(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"4040", "127.0.0.1:4040"},
		{":4040", "127.0.0.1:4040"},
		{"0", "127.0.0.1:0"},
		{"0.0.0.0:4040", "0.0.0.0:4040"},
		{"[::1]:4040", "[::1]:4040"},
		{"localhost:1", "localhost:1"},
		{"", ""}, {":", ""}, {"x", ""}, {"65536", ""}, {"-1", ""}, {"h:x", ""}, {"::1", ""}, {"1:2:3", ""}, {"unix:/run/x", ""},
	} {
		got, err := term.LocalAddress("--http", "", tt.text)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q: %q, %v; want %q", tt.text, got, err, tt.want)
		}
		if long := strings.Repeat("x", 100_000); err != nil {
			if _, err := term.LocalAddress("--http", "", tt.text+long); err == nil || len(err.Error()) > 400 {
				t.Errorf("a long address: an error of %d bytes", len(err.Error()))
			}
		}
	}
}

func TestTakenAddressIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	flag := httpFlag{l.Addr().String()}
	if _, err := flag.open("job"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("open: %v; want that the address is in use", err)
	}
}

// A page on this machine answers requests for local names only, a client that sends its request slowly
// loses its connection, and there is a limit for streams.
func TestPageIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	flag := httpFlag{"0"}
	p, err := flag.open("job")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	request, err := http.NewRequest("GET", "http://"+p.server.Address+"/leader", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "attacker.example"
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request for another host: %s; want 403", resp.Status)
	}
	if resp, err = http.Post("http://"+p.server.Address+"/leader", "text/plain", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s; want 405", resp.Status)
	}

	slow, err := net.Dial("tcp", p.server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\nHost: localhost\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = slow.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(slow); errors.Is(err, net.ErrClosed) || isTimeout(err) {
		t.Errorf("a slow client: %v; want the end of its connection", err)
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range mostStreams + 1 {
		resp, err := client.Get("http://" + p.server.Address + "/events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want := i < mostStreams; (resp.StatusCode == 200) != want {
			t.Errorf("stream %d: %s", i+1, resp.Status)
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func TestEventsAreTheChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	flag := httpFlag{"0"}
	p, err := flag.open("job")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	srv := zktest.NewServer()
	defer srv.Close()
	h, err := holdfast.NewElection(srv.Client(), electPath).Campaign(t.Context(), []byte("other"))
	if err != nil {
		t.Fatal(err)
	}
	c := (&way{srv: srv}).connect(t)
	defer c.Close()
	resp, err := http.Get("http://" + p.server.Address + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	// until reads events until one has the name, and the connection.
	until := func(name string, connected bool) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			var d LeaderDocument
			if err := json.Unmarshal([]byte(data), &d); err != nil {
				t.Fatal(err)
			}
			if d.Name == name && d.Connected == connected {
				return
			}
		}
	}
	until("", false)
	p.follow(c, holdfast.NewElection(c.Client, electPath))
	until("other", true)
	// A stream lasts longer than a request may take.
	time.Sleep(hold.AnswerPatience + 500*time.Millisecond)
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	until("", true)
}
