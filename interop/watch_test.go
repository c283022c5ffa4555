//go:build unix

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"holdfast/interop/peers"
)

// A seen is an event that holdfast watch -o jsonl has printed.
type seen struct {
	Type, Path, Token, Session, Gap string
}

// A watching is a running holdfast watch.
type watching struct {
	*stage
	mu     sync.Mutex // guards events
	events []seen
}

// watchAll starts holdfast watch for the locks of a layout below a directory, and returns when the watch has begun.
func (s *stage) watchAll(layout, dir string) *watching {
	s.t.Helper()
	w := &watching{stage: s}
	cmd := exec.CommandContext(s.ctx, holdfastBin(s.t), "watch", "-o", "jsonl", "--layout", layout, "--server", "zk://"+s.addr, dir+"/")
	cmd.Env = append(os.Environ(), "HOME="+s.t.TempDir())
	out, err := cmd.StdoutPipe()
	must(s.t, err)
	messages, err := cmd.StderrPipe()
	must(s.t, err)
	must(s.t, cmd.Start())
	var readers sync.WaitGroup
	readers.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e seen
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				s.t.Errorf("%v in %s", err, lines.Text())
			}
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
		}
	})
	begun := make(chan struct{})
	readers.Go(func() {
		lines := bufio.NewScanner(messages)
		lines.Scan()
		close(begun)
		for lines.Scan() {
		}
	})
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		readers.Wait()
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("watch ended with %v", err)
		}
	})
	<-begun
	return w
}

// of returns the events of one lock, and whether there is a gap for it.
func (w *watching) of(dir string) (events []seen, gap bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		switch {
		case e.Type == "gap" && (e.Path == dir || strings.HasPrefix(dir, e.Path+"/") || strings.HasPrefix(e.Path, dir)):
			gap = true
		case e.Type != "gap" && e.Path == dir:
			events = append(events, e)
		}
	}
	return events, gap
}

// types are the types of events.
func types(events []seen) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Type)
	}
	return strings.Join(all, " ")
}

// awaits returns when the lock has had n events of a type.
func (w *watching) awaits(dir, typ string, n int) {
	w.t.Helper()
	w.await(func() string {
		events, _ := w.of(dir)
		if got := len(slices.DeleteFunc(slices.Clone(events), func(e seen) bool { return e.Type != typ })); got < n {
			return fmt.Sprintf("%s: %d times %s in %q; want %d", dir, got, typ, types(events), n)
		}
		return ""
	})
}

// complete fails the test unless these are the events of the lock, and each tenure is of one client.
func (w *watching) complete(dir, want string) {
	w.t.Helper()
	events, gap := w.of(dir)
	if got := types(events); got != want || gap {
		w.t.Errorf("%s: %s (gap: %v); want %s", dir, got, gap, want)
	}
	holder, tokens := "", make(map[string]bool)
	for _, e := range events {
		switch e.Type {
		case "acquired":
			if holder != "" || tokens[e.Token] || e.Token == "" {
				w.t.Errorf("%s: %s acquires the lock of %q, in %+v", dir, e.Token, holder, events)
			}
			holder, tokens[e.Token] = e.Token, true
		case "released":
			if holder != e.Token {
				w.t.Errorf("%s: %s releases the lock of %q, in %+v", dir, e.Token, holder, events)
			}
			holder = ""
		}
	}
}

// Holdfast watch tells what clients of Curator and kazoo do at a real server: each acquisition and each release, once
// and in order, also when a session expires. When the server is restarted, it tells all, or that it has missed some.
func TestWatchTellsOfOtherLibraries(t *testing.T) {
	z := startWatched(t, t.TempDir())
	s := stageOn(t, z.Addrs()[0])
	for _, library := range []struct {
		layout  string
		program *lockProgram
		recipes []string
		begin   func(context.Context) *exec.Cmd
	}{
		{"curator", s.java, []string{"mutex", "read", "write", "semaphore"}, func(ctx context.Context) *exec.Cmd {
			return peers.Curator(ctx, curatorClasses(t), "LockProgram", s.addr)
		}},
		{"kazoo", s.python, []string{"lock", "read", "write", "semaphore"}, func(ctx context.Context) *exec.Cmd {
			return peers.Kazoo(ctx, filepath.Join("py", "lock_program.py"), s.addr)
		}},
	} {
		t.Run(library.layout, func(t *testing.T) {
			s, p := s.in(t), library.program
			root := s.directory("watched-" + library.layout)
			w := s.watchAll(library.layout, root)
			ann, bob := p.actor(), p.actor()
			line := func(who, verb, recipe, dir string) string {
				return fmt.Sprintf("%s %s %s %s", who, verb, recipe, dir)
			}
			writer := func(recipe string) string { // that a waiter of this recipe waits for
				if recipe == "read" {
					return "write"
				}
				return recipe
			}
			// handoff lets bob wait for ann's lock. A client of a semaphore queues, even for a free permit.
			handoff := func(recipe, dir string) (wait string) {
				p.do(t, line(ann, "acquire", writer(recipe), dir))
				w.awaits(dir, "acquired", 1)
				wait = line(bob, "acquire", recipe, dir)
				p.tell(t, wait)
				queued := 1
				if recipe == "semaphore" {
					queued = 2
				}
				w.awaits(dir, "queued", queued)
				return wait
			}
			want := func(recipe string) string {
				if recipe == "semaphore" {
					return "queued acquired queued released acquired released"
				}
				return "acquired queued released acquired released"
			}
			for _, recipe := range library.recipes {
				dir := root + "/" + recipe
				wait := handoff(recipe, dir)
				p.do(t, line(ann, "release", writer(recipe), dir))
				p.answer(t, wait)
				p.do(t, line(bob, "release", recipe, dir))
				w.awaits(dir, "released", 2)
				w.complete(dir, want(recipe))
			}

			// A holder is killed, and its session expires.
			dir := root + "/killed"
			ctx, kill := context.WithCancel(s.ctx)
			defer kill()
			doomed := &lockProgram{turnTaker: startTurnTaker(t, library.begin(ctx)), answers: make(map[string]string)}
			recipe := library.recipes[0]
			doomed.do(t, line("doomed", "acquire", recipe, dir))
			wait := line(bob, "acquire", recipe, dir)
			p.tell(t, wait)
			w.awaits(dir, "queued", 1)
			kill()
			p.answer(t, wait)
			p.do(t, line(bob, "release", recipe, dir))
			w.awaits(dir, "released", 2)
			w.complete(dir, want(recipe))

			// The server is restarted while a client waits.
			dir = root + "/restarted"
			wait = handoff(recipe, dir)
			must(t, z.Kill(0))
			must(t, z.Restart(s.ctx, 0))
			p.do(t, line(ann, "release", recipe, dir))
			p.answer(t, wait)
			p.do(t, line(bob, "release", recipe, dir))
			after := root + "/after"
			p.do(t, line(ann, "acquire", recipe, after))
			p.do(t, line(ann, "release", recipe, after))
			w.await(func() string {
				if events, gap := w.of(after); types(events) != "acquired released" && !gap {
					return fmt.Sprintf("after the restart: %s", types(events))
				}
				return ""
			})
			if events, gap := w.of(dir); !gap {
				w.complete(dir, want(recipe))
			} else {
				t.Logf("over the restart: %s, and a gap", types(events))
			}
		})
	}
}
