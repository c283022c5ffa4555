//go:build unix

package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// A stage is an Apache ZooKeeper with programs of other libraries that execute commands step by
// step. It sees which session watches which node. A waiter watches the node it waits for, so a
// wait is visible at once.
type stage struct {
	t            *testing.T
	ctx          context.Context
	addr         string
	admin        *zk.Client
	java, python *lockProgram
}

func newStage(t *testing.T) *stage {
	return stageOn(t, startWatched(t, t.TempDir()).Addrs()[0])
}

// startWatched returns a ZooKeeper that reports its watches.
func startWatched(t *testing.T, dir string) *peers.ZooKeeper {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{Settings: []string{"4lw.commands.whitelist=srvr,ruok,wchp"}})
	return closing(t, z, err)
}

// stageOn returns a stage with the server at an address.
func stageOn(t *testing.T, addr string) *stage {
	need(t, peers.NeedKazoo())
	classes := curatorClasses(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*stepTime)
	t.Cleanup(cancel)
	s := &stage{t: t, ctx: ctx, addr: addr}
	s.admin = dialURL(t, "zk://"+s.addr)
	s.java = &lockProgram{turnTaker: startTurnTaker(t, peers.Curator(ctx, classes, "LockProgram", s.addr)), answers: make(map[string]string)}
	s.python = &lockProgram{turnTaker: startTurnTaker(t, peers.Kazoo(ctx, filepath.Join("py", "lock_program.py"), s.addr)), answers: make(map[string]string)}
	return s
}

// in returns the same stage for a subtest, which reports its own errors.
func (s *stage) in(t *testing.T) *stage {
	c := *s
	c.t = t
	return &c
}

// directory makes a directory for one scene.
func (s *stage) directory(name string) string {
	s.t.Helper()
	dir := "/" + name
	_, _, err := s.admin.Create(s.ctx, dir, []byte{}, zk.Persistent)
	must(s.t, err)
	return dir
}

// actor returns a new name: a session and a thread of a program.
func (p *lockProgram) actor() string {
	p.actors++
	return fmt.Sprintf("actor%d", p.actors)
}

// children waits until the directory has this many, and returns them by number.
func (s *stage) children(dir string, want int) []string {
	s.t.Helper()
	var names []string
	s.await(func() string {
		var err error
		names, _, err = s.admin.Children(s.ctx, dir)
		must(s.t, err)
		if len(names) != want {
			return fmt.Sprintf("%s has the children %v; want %d", dir, names, want)
		}
		return ""
	})
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) })
	return names
}

// watched waits until this many sessions watch the node: its holder, if it is ours, and its waiters.
func (s *stage) watched(path string, want int) {
	s.t.Helper()
	s.await(func() string {
		watches, err := s.watches()
		must(s.t, err)
		if watches[path] < want {
			return fmt.Sprintf("%d sessions watch %s; want %d: %v", watches[path], path, want, watches)
		}
		return ""
	})
}

// watches returns how many sessions watch each path, as the server reports it.
func (s *stage) watches() (map[string]int, error) {
	var d net.Dialer
	conn, err := d.DialContext(s.ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "wchp"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return nil, err
	}
	watches, path := make(map[string]int), ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\t") {
			watches[path]++
		} else {
			path = strings.TrimSpace(line)
		}
	}
	return watches, nil
}

// await returns when nothing is missing any more. It polls, since there is no event.
func (s *stage) await(missing func() string) {
	s.t.Helper()
	for giveUp := time.Now().Add(stepTime); ; time.Sleep(5 * time.Millisecond) {
		m := missing()
		if m == "" {
			return
		}
		if time.Now().After(giveUp) {
			s.t.Fatal(m)
		}
	}
}

// A lockProgram is a running LockProgram or lock_program.py. Only one goroutine may use it.
type lockProgram struct {
	*turnTaker
	answers map[string]string // answers that arrived before they were awaited
	actors  int
}

// tell gives an actor a command: acquire or release, by a recipe, on a path.
func (p *lockProgram) tell(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	must(t, err)
}

// answer waits for the answer to a line.
func (p *lockProgram) answer(t *testing.T, line string) string {
	t.Helper()
	giveUp := time.After(stepTime)
	for {
		if answer, ok := p.answers[line]; ok {
			delete(p.answers, line)
			return answer
		}
		select {
		case got := <-p.lines.ch:
			told, answer, _ := strings.Cut(got, ": ")
			p.answers[told] = answer
		case <-p.ended:
			t.Fatalf("%s has ended; want an answer to %q", p.name, line)
		case <-giveUp:
			t.Fatalf("%s: no answer to %q", p.name, line)
		}
	}
}

// do gives an actor a command and waits until it is done.
func (p *lockProgram) do(t *testing.T, line string) {
	t.Helper()
	p.tell(t, line)
	if got := p.answer(t, line); got != "done" && got != "true" {
		t.Fatalf("%s: %s: %s", p.name, line, got)
	}
}
