package hold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/term"
	"holdfast/layout"
	"holdfast/zktest"
)

func TestHeldLocksAreReadAsTheyAreWritten(t *testing.T) {
	k := &Plan{Target: conn.Target{URL: "zk://h:2181/root"}}
	for _, tt := range []struct {
		name string
		kind KindFlags
		path string
		want string
	}{
		{"exclusive", KindFlags{}, "/ns/job", "zk%3A//h%3A2181/root#/ns/job"},
		{"shared", KindFlags{shared: true}, "/ns/job", "shared zk%3A//h%3A2181/root#/ns/job"},
		{"permits", KindFlags{permits: 2, limit: 3}, "/ns/job", "permits=2/3 zk%3A//h%3A2181/root#/ns/job"},
		{"blanks, colons and percents", KindFlags{}, "/ns/a b:c%3A", "zk%3A//h%3A2181/root#/ns/a b%3Ac%253A"},
		{"named", KindFlags{Layout: kind.Layout{Layout: layout.Named("x")}}, "/ns/job", "zk%3A//h%3A2181/root#/ns/job#named%3Ax"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k.kind = tt.kind
			h := k.held(tt.path)
			if h.String() != tt.want {
				t.Errorf("written as %q; want %q", h, tt.want)
			}
			if got := outer.Parse(h.String()); got != h {
				t.Errorf("read as %+v; want %+v", got, h)
			}
		})
	}
	// An element of an unknown version is a key.
	for _, element := range []string{"", "zk%3A//h#/a", "permits=x/3 zk%3A//h#/a", "permits=1/0 zk%3A//h#/a", "borrowed zk%3A//h#/a"} {
		if got := outer.Parse(element); got != (outer.Lock{Key: element}) {
			t.Errorf("%q is read as %+v; want a key", element, got)
		}
	}
}

func TestNestedRunsNameTheLockThatWouldDeadlock(t *testing.T) {
	exclusive, shared := KindFlags{}, KindFlags{shared: true}
	of := func(permits, limit int) KindFlags { return KindFlags{permits: permits, limit: limit} }
	type outer struct {
		path string
		kind KindFlags
	}
	for _, tt := range []struct {
		name   string
		outer  []outer
		kind   KindFlags
		also   []string
		try    bool
		want   string // the start of the error; "" for none
		beside string // the shared path
	}{
		{name: "nobody holds it", outer: []outer{{"/ns/other", exclusive}}, kind: exclusive},
		{name: "the same", outer: []outer{{"/ns/job", exclusive}}, kind: exclusive, want: "job: would deadlock: the holdfast run around this command holds it"},
		{name: "--try does not wait", outer: []outer{{"/ns/job", exclusive}}, kind: exclusive, try: true},
		{name: "the one of two that is held", outer: []outer{{"/ns/nest", exclusive}}, kind: exclusive, also: []string{"/ns/nest"}, want: "nest: would deadlock"},
		{name: "a grandparent's", outer: []outer{{"/ns/job", exclusive}, {"/ns/other", exclusive}}, kind: exclusive, want: "job: would deadlock"},
		{name: "a reader in a writer", outer: []outer{{"/ns/job", exclusive}}, kind: shared, want: "job: would deadlock"},
		{name: "a writer in a reader", outer: []outer{{"/ns/job", shared}}, kind: exclusive, want: "job: would deadlock"},
		{name: "a reader in a reader", outer: []outer{{"/ns/job", shared}}, kind: shared, beside: "/ns/job"},
		{name: "a reader in a reader in a writer", outer: []outer{{"/ns/job", exclusive}, {"/ns/job", shared}}, kind: shared, want: "job: would deadlock"},
		{name: "permits that are left", outer: []outer{{"/ns/job", of(1, 3)}}, kind: of(2, 3)},
		{name: "permits that are never free", outer: []outer{{"/ns/job", of(2, 3)}}, kind: of(2, 3), want: "job: would deadlock: the holdfast run around this command holds 2 of the 3 permits, so 2 more never become free"},
		{name: "permits of all ancestors", outer: []outer{{"/ns/job", of(1, 3)}, {"/ns/job", of(2, 3)}}, kind: of(1, 3), want: "job: would deadlock"},
		{name: "permits in an exclusive lock", outer: []outer{{"/ns/job", exclusive}}, kind: of(1, 3), want: "job: would deadlock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HOLDFAST_HELD", "")
			g := &conn.Flags{Namespace: "/ns"}
			for _, o := range tt.outer {
				k := &Plan{Flags: g, Target: conn.Target{URL: "zk://h"}, Path: o.path, kind: o.kind}
				t.Setenv("HOLDFAST_HELD", k.heldText())
			}
			k := &Plan{Flags: g, Target: conn.Target{URL: "zk://h"}, Name: "job", Path: "/ns/job", kind: tt.kind, also: tt.also, try: tt.try}
			beside, err := k.deadlock()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v; want none", err)
			case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
				t.Errorf("got %v; want %s…", err, tt.want)
			}
			if got := strings.Join(beside, " "); got != tt.beside {
				t.Errorf("shared with an ancestor: %q; want %q", got, tt.beside)
			}
		})
	}
}

// A reader below a reader acquires the lock, unless a writer waits between them: that writer
// waits for the outer reader, which waits for the inner one.
func TestReaderUnderAReaderWaitsForNoWriter(t *testing.T) {
	for _, writes := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			outer, err := holdfast.NewRWMutex(srv.Client(), lockPath).RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer outer.Unlock()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			if writes {
				go func() {
					defer close(ended)
					_, err := holdfast.NewRWMutex(srv.Client(), lockPath, holdfast.WithOwner("the writer")).Lock(ctx)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("the writer: %v", err)
					}
				}()
				synctest.Wait()
			} else {
				close(ended)
			}
			k := newTestTaker(srv)
			k.plan.kind.shared, k.beside = true, []string{lockPath}
			k.plan.bounded, k.plan.wait = true, time.Minute
			began := time.Now()
			inner, err := k.take(nil)
			took := time.Since(began)
			cancel()
			<-ended
			if !writes {
				if err != nil {
					t.Fatal(err)
				}
				inner.Close()
				return
			}
			if want := "job: would deadlock: the holdfast run around this command shares it, and a writer waits in between: the writer"; err == nil || term.Explain(err).Err.Error() != want || term.Explain(err).Code != term.ExitFailed {
				t.Errorf("got %v; want %s", err, want)
			}
			if took > time.Second {
				t.Errorf("it took %v to detect the deadlock", took)
			}
			synctest.Wait() // a client that gives up removes its node in the background
			if queue := queueOf(t, srv.Client()); len(queue) != 1 {
				t.Errorf("the queue is %v; want the outer reader alone", queue)
			}
		})
	}
}

// The session of the outer command counts only if it is on the same server.
func TestOuterSession(t *testing.T) {
	k := &Plan{Target: conn.Target{URL: "zk://h:2181/root"}}
	here := k.held("/ns/job").String()
	elsewhere := (&Plan{Target: conn.Target{URL: "zk://h:2181/rooted"}}).held("/ns/job").String()
	for _, tt := range []struct {
		held, session string
		want          int64
	}{
		{"", "", 0},
		{here, "0x1000abc", 0x1000abc},
		{"shared " + here, "0xffffffffffffffff", -1},
		{elsewhere + ":" + here, "0x7", 7},
		{elsewhere, "0x7", 0},
		{here + ":" + elsewhere, "0x7", 0},
		{here, "", 0},
		{here, "seven", 0},
		{"", "0x7", 0},
	} {
		t.Setenv("HOLDFAST_HELD", tt.held)
		t.Setenv("HOLDFAST_SESSION", tt.session)
		if got := outer.Session(k.Target.URL); got != tt.want {
			t.Errorf("held %q, session %q: %d; want %d", tt.held, tt.session, got, tt.want)
		}
	}
}
