package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/zktest"
)

// The time of a hold excludes the wait. Until the time of the acquire is known, the shown time
// is an upper bound.
func TestHeldForIsTheTenuresTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c := srv.Client()
		m := holdfast.NewMutex(c, "/job", holdfast.WithOwner("next"))
		first, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(4 * time.Second)
			first.Unlock()
		}()
		next, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer next.Unlock()
		began := time.Now()
		for _, tt := range []struct {
			after  time.Duration
			text   string
			known  bool
			heldMS int64
		}{
			{500 * time.Millisecond, "≤5s", false, 4500},
			{3 * time.Second, "3s", true, 3000},
			{time.Hour, "1h", true, 3600_000},
		} {
			time.Sleep(tt.after - time.Since(began))
			queue, err := holdfast.List(t.Context(), c, "/job")
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			if got := show.HeldFor(queue[0], now); got != tt.text {
				t.Errorf("after %v: held for %s; want %s", tt.after, got, tt.text)
			}
			if got, want := show.Holder(queue[0], now), "next for "+tt.text; got != want {
				t.Errorf("after %v: the holder is %s; want %s", tt.after, got, want)
			}
			var status bytes.Buffer
			if err := (&see.Lock{Queue: placed(queue)}).Print(&status, &term.Printer{}, "job", now); err != nil || !strings.Contains(status.String(), "job is held by next for "+tt.text+"\n") ||
				strings.Count(status.String(), " "+tt.text+" ") != 1 {
				t.Errorf("after %v: status (%v)\n%s", tt.after, err, &status)
			}
			d := show.Describe("job", "/job", placed(queue), now).Holder
			if d.HeldMS != tt.heldMS || (d.HeldSince != nil) != tt.known || d.HeldSince != nil && !d.HeldSince.Equal(began) || !d.Since.Before(began) {
				t.Errorf("after %v: in JSON %+v", tt.after, d)
			}
		}
	})
}

// A lock that is kept has no time: nobody knows whether it is in use again.
func TestKeptLockIsShownAsKept(t *testing.T) {
	now := time.Now()
	e := holdfast.Entry{Since: now.Add(-5 * time.Second), Held: true, Kept: true, Owner: "ada", Token: 7}
	var status bytes.Buffer
	if err := (&see.Lock{Queue: placed([]holdfast.Entry{e})}).Print(&status, &term.Printer{}, "job", now); err != nil || !strings.Contains(status.String(), "job is kept by ada for its next use\n") || strings.Contains(status.String(), "5s") {
		t.Errorf("status (%v)\n%s", err, &status)
	}
	if d := show.Describe("job", "/job", placed([]holdfast.Entry{e}), now); d.State != "kept" || d.Token != "7" {
		t.Errorf("in JSON %+v; want the state kept", d)
	}
}

// A waiter that is about to acquire the lock does not hold it.
func TestTheFirstThatDoesNotHoldHasWaited(t *testing.T) {
	now := time.Now()
	e := holdfast.Entry{Since: now.Add(-5 * time.Second)}
	if got := show.For(e, now); got != "5s" {
		t.Errorf("got %s; want 5s", got)
	}
}
