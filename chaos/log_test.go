package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/zktest"
)

func TestLogRecordsClaimsWithTheirEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		began := time.Now()
		var sunk []chaos.Op
		log := chaos.NewLog(func() time.Duration { return time.Since(began) }, 1, func(o chaos.Op) { sunk = append(sunk, o) })
		m := holdfast.NewMutex(srv.Client(), "/m")
		other := holdfast.NewMutex(srv.Client(), "/m")
		one := chaos.Attempt{Client: 1, Locks: []chaos.Op{{Lock: "/m", Type: chaos.Mutex}}}

		first, err := log.Acquire(t.Context(), one, m.Lock)
		if err != nil {
			t.Fatal(err)
		}
		try := one
		try.Client, try.Try = 2, true
		if _, err := log.Acquire(t.Context(), try, other.TryLock); err == nil {
			t.Fatal("TryLock succeeded beside a holder")
		}
		waiting, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := log.Acquire(waiting, one, other.Lock); err == nil {
			t.Fatal("Lock succeeded beside a holder")
		}
		first.Unlock()
		second, err := log.Acquire(t.Context(), one, m.Lock)
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(second.SessionID())
		<-second.Lost()
		synctest.Wait()
		second.Unlock() // too late

		var got []string
		ops := log.Ops()
		for _, o := range ops {
			got = append(got, fmt.Sprintf("%d %d %s %s", o.Client, o.Claim, o.Kind, o.Outcome))
		}
		want := []string{
			"1 1 acquire ok", "2 2 try failed", "1 3 acquire unknown", "1 1 release ok", "1 4 acquire ok", "1 4 lose ok",
		}
		if !slices.Equal(got, want) {
			t.Errorf("recorded %q; want %q", got, want)
		}
		if o := ops[0]; o.Token != first.Token() || o.Session != first.SessionID() || !o.HasSeq || o.Seq != 0 || o.Node != first.Path() {
			t.Errorf("the first claim is %v", o)
		}
		if o := ops[3]; o.Return == chaos.Never {
			t.Errorf("a release that was answered is %v", o)
		}
		if o := ops[5]; o.Return != chaos.Never {
			t.Errorf("a loss is %v; want it to take effect at any time", o)
		}
		if len(sunk) != len(ops)+4 {
			t.Errorf("%d operations recorded, of %d with 4 attempts", len(sunk), len(ops))
		}
	})
}

func TestInstantsOfALogAreInOrderThoughTheClockStands(t *testing.T) {
	log := chaos.NewLog(func() time.Duration { return time.Second }, 1, nil)
	for last, i := time.Duration(0), 0; i < 3; i++ {
		if now := log.Now(); now <= last {
			t.Errorf("%v after %v", now, last)
		} else {
			last = now
		}
	}
}
