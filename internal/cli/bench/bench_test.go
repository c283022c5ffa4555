package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// patience is how long a test waits before it fails.
const patience = 30 * time.Second

// tenureStub is a Hold for the guard.
type tenureStub struct{ err error }

func (s *tenureStub) Err() error { return s.err }

func TestGuardRefusesAStaleToken(t *testing.T) {
	g := &guard{limit: 1, ordered: true}
	paused, next := &tenureStub{}, &tenureStub{}
	old, _ := g.enter(paused, 5, true)
	paused.err = errors.New("lost") // it was told, so the next holder is right to enter
	fresh, _ := g.enter(next, 6, true)
	g.leave(fresh, time.Now())
	g.leave(old, time.Now())
	if violations, lost, refused := g.result(); violations != 0 || lost != 0 || refused != 1 {
		t.Errorf("%d violations, %d lost updates, %d refused; want 0, 0, 1", violations, lost, refused)
	}
}

func TestGuardCountsViolations(t *testing.T) {
	type step struct {
		holder    int
		token     int64
		exclusive bool
		leave     bool
	}
	enter := func(holder int, token int64, exclusive bool) step { return step{holder, token, exclusive, false} }
	leave := func(holder int) step { return step{holder: holder, leave: true} }
	for _, tt := range []struct {
		name       string
		guard      *guard
		steps      []step
		violations int
		lost       int
	}{
		{"one after the other", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), leave(1), enter(2, 6, true), leave(2)}, 0, 0},
		{"two at once, the older leaves first", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), enter(2, 6, true), leave(1), leave(2)}, 2, 0}, // also the stale write
		{"two at once, the older leaves last", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), enter(2, 6, true), leave(2), leave(1)}, 2, 0},
		{"a token comes twice", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), leave(1), enter(2, 5, true), leave(2)}, 1, 0},
		{"a token shrinks", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), leave(1), enter(2, 4, true), leave(2)}, 2, 0},
		{"two with one token", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), enter(2, 5, true), leave(1), leave(2)}, 2, 1},
		{"readers together", &guard{limit: 1, ordered: true}, []step{enter(1, 6, false), enter(2, 5, false), leave(2), leave(1), enter(3, 7, true), leave(3)}, 0, 0},
		{"a reader beside a writer", &guard{limit: 1, ordered: true}, []step{enter(1, 5, true), enter(2, 6, false), leave(2)}, 1, 0},
		{"a writer beside a reader", &guard{limit: 1, ordered: true}, []step{enter(1, 5, false), enter(2, 6, true), leave(2)}, 1, 0},
		{"a writer behind a later reader", &guard{limit: 1, ordered: true}, []step{enter(1, 7, false), leave(1), enter(2, 6, true), leave(2)}, 2, 0},
		{"as many as a semaphore admits", &guard{limit: 2}, []step{enter(1, 6, true), enter(2, 5, true), leave(1), enter(3, 4, true)}, 0, 0},
		{"one too many for a semaphore", &guard{limit: 2}, []step{enter(1, 6, true), enter(2, 5, true), enter(3, 4, true)}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inside := make(map[int]*presence)
			for _, s := range tt.steps {
				if s.leave {
					tt.guard.leave(inside[s.holder], time.Now())
				} else {
					inside[s.holder], _ = tt.guard.enter(&tenureStub{}, s.token, s.exclusive)
				}
			}
			if violations, lost, _ := tt.guard.result(); violations != tt.violations || lost != tt.lost {
				t.Errorf("%d violations, %d lost updates; want %d, %d", violations, lost, tt.violations, tt.lost)
			}
		})
	}
}

func TestBenchReportsViolations(t *testing.T) {
	b := newBenchmark(flags{clients: 2, locks: 1, mode: modeMutex, duration: time.Second}, &ground{})
	b.cycles, b.took = 2, time.Second
	var out strings.Builder
	if err := b.report(&out, "table"); err != nil || !strings.Contains(out.String(), "0 violations") {
		t.Errorf("without a violation: %v\n%s", err, &out)
	}
	for range 2 {
		b.guards[0].enter(&tenureStub{}, 5, true)
	}
	out.Reset()
	if err := b.report(&out, "table"); err != term.ExitCode(term.ExitNo) || !strings.Contains(out.String(), "2 violations") {
		t.Errorf("with two holders at once: %v; want exit code 1\n%s", err, &out)
	}
}

// The document has what was measured: it is the one that docs/reference/json.md describes.
func TestDocumentOfABenchmark(t *testing.T) {
	f := flags{clients: 8, locks: 2, hold: 5 * time.Millisecond, duration: 10 * time.Second, mode: modeMutex}
	b := newBenchmark(f, &ground{server: "zk://zk1:2181"})
	b.began, b.took = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), 10*time.Second
	b.cycles, b.lost, b.errors, b.first = 1234, 1, 2, errors.New("connection loss")
	b.guards = []*guard{{violations: 1, accepted: 9, value: 7, refused: 3}}
	for i := range 1000 {
		b.wait.add(time.Duration(i) * time.Millisecond)
		b.handoff.add(time.Duration(i) * time.Microsecond)
	}
	want, err := os.ReadFile("../../../cmd/holdfast/testdata/golden/Benchmark.json")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := b.report(&got, "json"); err != term.ExitCode(term.ExitNo) || got.String() != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want)
	}
}

// A measurement whose duration has passed is not interrupted, even if its clients began late.
func TestBenchIsInterruptedBySignalsOnly(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		b := newBenchmark(flags{clients: 1, locks: 1, mode: modeMutex, duration: time.Nanosecond}, &ground{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if signalled {
			b.duration = time.Hour
			cancel()
		}
		b.run(ctx, nil)
		b.took = min(b.took, b.duration/2)
		if b.document().Interrupted != signalled {
			t.Errorf("interrupted %t after a signal: %t", !signalled, signalled)
		}
	}
}

// A tenure that the end of the measurement has cut off is no cycle, also if its release is sooner than the clock stops.
func TestATenureThatIsCutOffIsNoCycle(t *testing.T) {
	s := zktest.NewServer()
	defer s.Close()
	for _, over := range []bool{false, true} {
		b := newBenchmark(flags{clients: 1, locks: 1, mode: modeMutex, duration: time.Hour}, &ground{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hold, err := holdfast.NewMutex(s.Client(), "/lock").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if over {
			b.hold, want = time.Hour, 0
			cancel()
		}
		b.held(ctx, b.guards[0], hold, true, time.Now())
		if b.cycles != want {
			t.Errorf("over=%t: %d cycles, want %d", over, b.cycles, want)
		}
	}
}

func TestPercentilesAreRightToOneIn100(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	h := newHistogram()
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(rnd.Int64N(1 << rnd.IntN(47)))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, p := range []float64{0.01, 1, 50, 90, 99, 99.9, 99.99, 100} {
		want := all[int(float64(len(all))*p/100+0.5)-1]
		got := h.percentile(p)
		if got < want || float64(got) > float64(want)*1.01+1 {
			t.Errorf("p%v: %d; want %d, or a little more", p, got, want)
		}
	}
	if h.percentile(100) != all[len(all)-1] {
		t.Errorf("the maximum is %d; want %d", h.percentile(100), all[len(all)-1])
	}
	h.add(-1)
	h.add(1000 * time.Hour)
	if got := h.document(); got.Samples != 10_002 || *got.Max != longestTime.Microseconds() {
		t.Errorf("%d samples up to %dµs", got.Samples, *got.Max)
	}
	none := newHistogram()
	if d := none.document(); none.percentile(99) != 0 || d.Max != nil {
		t.Error("no samples have a percentile")
	}
}

func TestBenchLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := zktest.NewServer()
	defer s.Close()
	c := s.Client()
	at := &ground{path: "/app/locks/holdfast-bench-1", connection: &conn.Connection{Client: c}, patience: patience}
	if err := at.make(ctx); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{at.path + "/lock-0", at.path + "/lock-0/leases", at.path + "/lock-0/leases/x-0000000001"} {
		if _, _, err := c.Create(ctx, path, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	if err := at.remove(); err != nil {
		t.Fatal(err)
	}
	if _, there, err := c.Exists(ctx, "/app"); there || err != nil {
		t.Errorf("/app is left: %v, %v", there, err)
	}
	// Somebody else uses a directory that bench has made.
	at = &ground{path: at.path, connection: at.connection, patience: patience}
	if err := at.make(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Create(ctx, "/app/locks/other", nil, zk.Persistent); err != nil {
		t.Fatal(err)
	}
	if err := at.remove(); err != nil {
		t.Fatal(err)
	}
	if names, _, err := c.Children(ctx, "/app/locks"); !slices.Equal(names, []string{"other"}) {
		t.Errorf("%q, %v; want the other's node", names, err)
	}
}

// The limit is for the time without progress: to remove many nodes from a slow server takes longer.
func TestBenchRemovesManyNodesFromASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer()
		defer s.Close()
		c := s.Client()
		at := &ground{path: "/holdfast-bench-1", connection: &conn.Connection{Client: c}, patience: time.Second}
		if err := at.make(t.Context()); err != nil {
			t.Fatal(err)
		}
		for path := at.path + "/a"; len(path) < 60; path += "/a" { // one below the other, so they go one by one
			if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		s.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			time.Sleep(300 * time.Millisecond)
			return zktest.Pass
		})
		if err := at.remove(); err != nil {
			t.Fatalf("%v, though the server removed a node every 300ms", err)
		}
		if err := at.make(t.Context()); err != nil {
			t.Fatal(err)
		}
		resume := s.Stall()
		defer resume()
		if err := at.remove(); err == nil {
			t.Error("no error though the server does not answer")
		}
	})
}
