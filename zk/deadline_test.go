package zk

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A time with a monotonic reading is compared by that reading. A time without one is compared by the
// wall clock, which can be set back by an hour (CURATOR-442).
func TestDeadlinesAreByAClockThatNobodySets(t *testing.T) {
	monotonic := func(at time.Time) bool { return at != at.Round(0) }
	if !monotonic(time.Now()) || monotonic(time.Now().Round(0)) {
		t.Fatal("this system has no monotonic clock, or the test cannot see it")
	}
	if at := now(); !monotonic(at) {
		t.Errorf("now: %v", at)
	}
	const timeout = 10 * time.Second
	for _, mode := range []LeaseMode{LeasePing, LeaseQuorum} {
		m := newMember(ensembleConfig)
		c := dialLease(t, mode, timeout, m.serve)
		s := mustSession(t, c)
		lease(t, s)
		if at := s.Deadline(); !monotonic(at) {
			t.Errorf("lease mode %d: deadline %v has no monotonic reading", mode, at)
		}
	}
}

// The server's clock may run 1 % faster than ours, and our timer may fire late. The margin must be the
// one that Session.Deadline documents.
func TestDeadlineIsAheadOfASlowClock(t *testing.T) {
	for timeout, off := range map[time.Duration]time.Duration{
		2 * time.Second:  220 * time.Millisecond,
		10 * time.Second: 600 * time.Millisecond,
		60 * time.Second: 1100 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := dialTest(t, timeout, func(p *peer) {
				p.accept(7, timeout)
				h, _ := p.request()
				p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
				for h.Op != 0 { // then the server is silent
					h, _ = p.request()
				}
			}, func(p *peer) {})
			s := mustSession(t, c)
			sent := time.Now()
			if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
				t.Fatal(err)
			}
			if left := s.Deadline().Sub(sent); left != timeout-off {
				t.Errorf("timeout %v: proven for %v; want %v", timeout, left, timeout-off)
			}
			<-s.Context().Done()
			if lasted := time.Since(sent); lasted > timeout-off {
				t.Errorf("timeout %v: over after %v; want %v at the latest", timeout, lasted, timeout-off)
			}
		})
	}
}

// The machine slept while there was no connection, and no timer has fired yet. The server would
// continue the session, but callers may already know that it is over.
func TestSessionThatLapsedWithoutAConnectionIsNotResumed(t *testing.T) {
	var suspended atomic.Int64
	slept = func() time.Duration { return time.Duration(suspended.Load()) }
	defer func() { slept = systemSlept }()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 12 * time.Second
		cut := make(chan struct{})
		peers := dialPeers(t, func(p *peer) {
			p.accept(7, timeout)
			<-cut // otherwise the client may be in the next session before the test has this one
		}, func(p *peer) {
			if req := p.accept(7, timeout); req.SessionID != 7 {
				t.Errorf("asked for session %d: the test shows nothing", req.SessionID)
			}
			p.serve()
		}, func(p *peer) {
			p.accept(8, timeout)
			p.serve()
		})
		var dialled int
		c, err := Dial(t.Context(), Config{Servers: []string{"test:1"}, SessionTimeout: timeout, Lease: LeasePing,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dialled++; dialled == 2 {
					suspended.Store(int64(time.Hour))
				}
				return peers(ctx, network, addr)
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s := mustSession(t, c)
		close(cut)
		mustEnd(t, s)
		wantErr(t, context.Cause(s.Context()), ErrSessionExpired)
		if next := mustSession(t, c); next.ID() != 8 {
			t.Errorf("the client continued in session %d", next.ID())
		}
	})
}
