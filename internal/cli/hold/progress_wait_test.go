package hold

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/term"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zktest"
)

// A lastLine is a terminal of one line.
type lastLine struct {
	mu   sync.Mutex // guards line
	line string
}

// Write shows text in the line, from its beginning if the text erases the line.
func (p *lastLine) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line += string(text)
	if i := strings.LastIndexAny(p.line, "\n"); i >= 0 {
		p.line = p.line[i+1:]
	}
	if i := strings.LastIndex(p.line, "\r\x1b[K"); i >= 0 {
		p.line = p.line[i+len("\r\x1b[K"):]
	}
	return len(text), nil
}

// screened returns a taker that shows progress on a screen, and what is on the screen at present. stop ends
// the screen.
func screened(t *testing.T, srv *zktest.Server) (k *taker, shown func() string, stop func()) {
	t.Setenv("TERM", "xterm")
	k = newTestTaker(srv)
	k.say = term.NewQueue(term.NewScreen(func() int { return 200 }))
	var p lastLine
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		k.say.Deliver(&p, end)
	}()
	shown = func() string {
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.line
	}
	return k, shown, func() {
		close(end)
		<-done
	}
}

func TestProgressOfAWait(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := mustLock(t, holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("ann"), holdfast.WithReason("nightly")))
		time.Sleep(10 * time.Second)
		k, shown, stop := screened(t, srv)
		defer stop()
		door := &doorway{srv: srv}
		k.plan.Target.ZK = door.config()
		ended := make(chan *tenure, 1)
		go func() {
			got, err := k.take(nil)
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
		want := func(after time.Duration, re string) {
			t.Helper()
			time.Sleep(after)
			if got := shown(); !regexp.MustCompile("^" + re + "$").MatchString(got) {
				t.Errorf("shown: %q; want %q", got, re)
			}
		}
		const waiting = `holdfast: waiting for job: held by ann \("nightly"\) for `
		want(900*time.Millisecond, "")
		want(200*time.Millisecond, waiting+"11s, position 1 of 1")
		want(time.Second, waiting+"12s, position 1 of 1")
		want(time.Hour, waiting+"1h12s, position 1 of 1")
		// No server answers for a while.
		door.set(errNoServer)
		srv.CloseClientConnections()
		want(3*time.Second, "holdfast: connecting for [23]s: h:2181: connection refused")
		door.set(nil)
		want(5*time.Second, waiting+`1h\d\ds, position 1 of 1`)
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
		got := <-ended
		want(0, "")
		defer got.Close()
		// Nothing is drawn once the command has the terminal.
		k.say.Progress(term.SlotQueue, "late")
		want(0, "")
	})
}

// At the head of the queue, the progress shows the --min-hold that the wait is for.
func TestProgressOfAReservation(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := mustLock(t, holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("ann")))
		if err := reserve.For(t.Context(), holder, time.Hour); err != nil {
			t.Fatal(err)
		}
		k, shown, stop := screened(t, srv)
		defer stop()
		ended := make(chan *tenure, 1)
		go func() {
			got, err := k.take(nil)
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
		time.Sleep(time.Minute)
		if got := shown(); !strings.Contains(got, "held by ann for ") || !strings.Contains(got, "position 1 of 1") {
			t.Errorf("behind the holder: %q", got)
		}
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if got := shown(); !strings.Contains(got, "waiting for job: held until 2000-01-01T01:00:0") || !strings.Contains(got, "by ann (--min-hold)") {
			t.Errorf("after its end: %q", got)
		}
		(<-ended).Close()
	})
}

// The progress says what is special about the holder: the lock is detached, or kept, or of another layout.
func TestProgressOfOtherHolders(t *testing.T) {
	since := time.Now()
	me := holdfast.Entry{Session: 7, Since: since}
	for want, first := range map[string]holdfast.Entry{
		"kept by ann for its next use, position 1 of 1":                  {Held: true, Kept: true, Owner: "ann", Session: 1},
		"held by ann for 0s (detached, without expiry), position 1 of 1": {Held: true, Detached: true, Owner: "ann", HeldSince: since},
		"held by id 5 for 0s (detached, expires in 1h), position 1 of 1": {Held: true, Detached: true, ID: "5", HeldSince: since, Expires: since.Add(time.Hour + time.Second/2)},
		"held by session 0x1 for ≤0s, position 1 of 1":                   {Held: true, Session: 1, Since: since},
	} {
		if got := waitingFor([]holdfast.Entry{first, me}, 7, false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	k := &Plan{Name: "job", Path: lockPath, kind: KindFlags{Layout: kind.Layout{Layout: layout.Kazoo}}}
	if got := k.awaited(lockPath); got != "job (layout kazoo)" {
		t.Errorf("%q", got)
	}
}

// With --also, a wait can be in a deadlock: the progress says so within two seconds.
func TestProgressOfADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		other := srv.Client()
		if _, err := holdfast.NewMutex(other, "/holdfast/locks/other", holdfast.WithOwner("ann")).Lock(ctx); err != nil {
			t.Fatal(err)
		}
		k, shown, stop := screened(t, srv)
		defer stop()
		k.plan.also = []string{"/holdfast/locks/other"}
		ended := make(chan error, 1)
		signals := make(chan os.Signal, 1)
		go func() {
			_, err := k.take(signals) // has job, and waits for other
			ended <- err
		}()
		time.Sleep(time.Minute)
		if got := shown(); !strings.Contains(got, "waiting for other: held by ann for ") {
			t.Errorf("before: %q", got)
		}
		go func() { _, _ = holdfast.NewMutex(other, lockPath, holdfast.WithOwner("ann")).Lock(ctx) }()
		time.Sleep(2*time.Second + 10*time.Millisecond)
		if got := shown(); !strings.HasPrefix(got, "holdfast: waiting for job: deadlock: this holdfast waits for other, held by ann 0x") || !strings.Contains(got, " waits for job, held by this holdfast") {
			t.Errorf("in a deadlock: %q", got)
		}
		cancel()
		time.Sleep(5 * time.Second)
		if got := shown(); strings.Contains(got, "deadlock: ") {
			t.Errorf("after it: %q", got)
		}
		signals <- syscall.SIGTERM
		<-ended
	})
}
