package ls

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
	"holdfast/zktest"
)

// No event tells that a node is gone that has become unreadable. ls --watch reads the locks again all the same.
func TestWatchOfLsLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c := srv.Client()
		secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
		if _, _, err := c.Create(t.Context(), "/locks", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Create(t.Context(), "/locks/hidden", nil, zk.Persistent, secret); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		changes, done := make(chan struct{}, 1), make(chan error)
		go func() { done <- watchChanges(ctx, srv.Client(), "/locks", changes) }()
		<-changes // the watch is set
		synctest.Wait()
		if err := c.Delete(t.Context(), "/locks/hidden", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		select {
		case <-changes:
			if took := time.Since(begun); took < time.Second {
				t.Error("an event tells of the node: the test tests nothing")
			}
		case <-time.After(lsWatchAgain + time.Second):
			t.Error("it waits for an event that does not come")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A list of ls --watch that may be older than it should be says so, and no time in it goes on.
func TestLsWatchShowsOldDataAsOld(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var down time.Time
	held := see.Lock{Path: "/l/a", Queue: []locks.Place{{Entry: holdfast.Entry{
		Path: "/l/a/1", Owner: "ann", Token: 1, Session: 1, Held: true, Since: began.Add(-time.Minute), HeldSince: began.Add(-time.Minute),
	}}}}
	s := &picture{
		Flags: &conn.Flags{}, out: io.Discard, printer: &term.Printer{Format: "table", Color: "never"}, found: []see.Lock{held}, now: began,
		contact: func() (time.Time, string) { return down, "h:1: connection refused" },
	}
	expect := func(after time.Duration, want ...string) {
		t.Helper()
		lines, err := s.lines(began.Add(after))
		text := strings.Join(lines, "\n")
		for _, want := range want {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("got\n%s\n%v; want %q", text, err, want)
			}
		}
		if old := strings.HasPrefix(text, "OLD"); old != (len(want) > 1) {
			t.Errorf("old: %v; got\n%s", old, text)
		}
	}
	expect(time.Minute, " 2m ")
	down = began
	expect(time.Minute, " 1m ", ", 1m ago: no server answers: h:1: connection refused\nNAME")
	down, s.failed = time.Time{}, errors.New("holdfast: \x1bbroken")
	expect(time.Minute, " 1m ", `, 1m ago: \x1bbroken`)
	s.failed, s.reading = nil, began.Add(time.Minute)
	expect(time.Minute+lsSlow, " 2m3s ")
	expect(time.Minute+2*lsSlow, " 1m ", "the server is slow: reading for 6s")
}
