package main

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"holdfast"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zktest"
)

// newTestScreen returns a screen with that many columns. 0 means that another job has the terminal.
func newTestScreen(columns *int) *screen { return &screen{width: func() int { return *columns }} }

func TestProgressIsDrawnInPlace(t *testing.T) {
	columns := 40
	s := newTestScreen(&columns)
	show := func(at slot, text string) said { return said{progress: &progress{at, text}} }
	for i, tt := range []struct {
		m       said
		columns int
		want    string
	}{
		{show(slotQueue, ""), 40, ""},
		{show(slotQueue, "one"), 40, "holdfast: one"},
		{show(slotQueue, "one"), 40, ""},
		{show(slotQueue, "two"), 40, "\r\x1b[Kholdfast: two"},
		{said{line: "a message\n"}, 40, "\r\x1b[Ka message\nholdfast: two"},
		// What hinders the contact comes first.
		{show(slotContact, "no contact"), 40, "\r\x1b[Kholdfast: no contact"},
		{show(slotQueue, "three"), 40, ""},
		{show(slotContact, ""), 40, "\r\x1b[Kholdfast: three"},
		{show(slotQueue, strings.Repeat("x", 29)), 40, "\r\x1b[Kholdfast: " + strings.Repeat("x", 29)},
		{show(slotQueue, strings.Repeat("x", 30)), 40, "\r\x1b[Kholdfast: " + strings.Repeat("x", 27) + "…"},
		{show(slotQueue, "short"), 12, "\r\x1b[Kholdfast:…"},
		// Another job gets the terminal, and gives it back.
		{show(slotQueue, "four"), 0, ""},
		{said{line: "a message\n"}, 0, "a message\n"},
		{show(slotQueue, "five"), 40, "holdfast: five"},
		{show(slotQueue, ""), 40, "\r\x1b[K"},
		{said{line: "a message\n"}, 40, "a message\n"},
	} {
		columns = tt.columns
		if got := s.render(tt.m); got != tt.want {
			t.Errorf("step %d: %q; want %q", i, got, tt.want)
		}
	}
}

// A line never wraps, whatever characters it has.
func TestProgressFits(t *testing.T) {
	for _, text := range []string{"", "plain", strings.Repeat("a", 200), strings.Repeat("世", 100), strings.Repeat("a世", 70), "é\u0301…"} {
		for columns := range 120 {
			got := fit(text, columns)
			cells := 0
			for _, r := range got {
				if cells++; r > 0x7e && r != '…' {
					cells++
				}
			}
			switch {
			case !utf8.ValidString(got):
				t.Fatalf("%q in %d columns: %q", text, columns, got)
			case cells > max(columns, 1):
				t.Fatalf("%q in %d columns: %q has %d", text, columns, got, cells)
			case got != text && !strings.HasPrefix(text, strings.TrimSuffix(got, "…")):
				t.Fatalf("%q in %d columns: %q", text, columns, got)
			}
		}
	}
}

// screened returns a taker that shows progress on a screen, and what is on the screen at present. stop ends
// the screen.
func screened(srv *zktest.Server) (k *taker, shown func() string, stop func()) {
	k = newTestTaker(srv)
	columns := 200
	k.say.screen = newTestScreen(&columns)
	var mu sync.Mutex // guards the screen
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case m := <-k.say.queue:
				mu.Lock()
				k.say.screen.render(m)
				mu.Unlock()
				if m.heard != nil {
					close(m.heard)
				}
			case <-end:
				return
			}
		}
	}()
	shown = func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return k.say.screen.drawn
	}
	return k, shown, func() {
		close(end)
		<-done
	}
}

func TestProgressOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		m := holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("ann"), holdfast.WithReason("nightly"))
		holder, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		k, shown, stop := screened(srv)
		defer stop()
		door := &doorway{srv: srv}
		k.target.zk = door.config()
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
		want(time.Hour, waiting+"1h0m12s, position 1 of 1")
		// No server answers for a while.
		door.set(errRefused)
		srv.CloseClientConnections()
		want(3*time.Second, "holdfast: connecting for [23]s: h:2181: connection refused")
		door.set(nil)
		want(5*time.Second, waiting+`1h0m\d\ds, position 1 of 1`)
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
		got := <-ended
		want(0, "")
		defer got.close()
		// Nothing is drawn once the command has the terminal.
		k.say.progress(slotQueue, "late")
		want(0, "")
	})
}

func TestProgressOfServersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContact(target{zk: zk.Config{Servers: []string{"a:1", "b:1", "c:1"}}})
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

// At the head of the queue, the progress shows the --min-hold that the wait is for.
func TestProgressOfAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		m := holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("ann"))
		holder, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := reserve.For(t.Context(), holder, time.Hour); err != nil {
			t.Fatal(err)
		}
		k, shown, stop := screened(srv)
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
		(<-ended).close()
	})
}
