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
	"holdfast/once"
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

func TestLogRecordsHoldsOfFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		began := time.Now()
		log := chaos.NewLog(func() time.Duration { return time.Since(began) }, 1, nil)
		o := once.New(srv.Client(), "/o")
		run := func(key string, expire bool) {
			call := log.Now()
			o.Key(key).Do(t.Context(), func(held context.Context) ([]byte, error) {
				h, _ := holdfast.FromContext(held)
				time.Sleep(time.Millisecond) // the claim begins after the call
				claim := log.Begin(chaos.Op{Client: 1, Lock: "/o/" + key, Type: chaos.Once, Call: call}, h)
				if expire {
					srv.Expire(h.SessionID())
					<-h.Lost()
					synctest.Wait()
				}
				claim.Leave()
				return nil, nil
			})
		}
		run("a", false)
		run("b", true)
		want := []struct {
			kind  chaos.Kind
			claim int
			lock  string
		}{{chaos.Acquire, 1, "/o/a"}, {chaos.Release, 1, "/o/a"}, {chaos.Acquire, 2, "/o/b"}, {chaos.Lose, 2, "/o/b"}}
		ops := log.Ops()
		if len(ops) != len(want) {
			t.Fatalf("%v; want %d operations", ops, len(want))
		}
		for i, o := range ops {
			w := want[i]
			if o.Kind != w.kind || o.Claim != w.claim || o.Lock != w.lock || o.Outcome != chaos.OK || o.Token == 0 || o.Session == 0 || o.Node == "" {
				t.Errorf("operation %d is %v; want %v", i, o, w)
			}
			if begins := o.Kind == chaos.Acquire; begins != (o.Return != chaos.Never) || begins && o.Return-o.Call < time.Millisecond/2 {
				t.Errorf("operation %d is %v; its times are wrong", i, o)
			}
		}
	})
}
