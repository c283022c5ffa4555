package zk

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// cutting lets a server serve until cut is closed.
func cutting(cut <-chan struct{}, serve func(p *peer)) func(p *peer) {
	return func(p *peer) {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-cut:
				p.nc.Close()
			case <-stop:
			}
		}()
		serve(p)
	}
}

// A single server comes back as a member of an ensemble, with its sessions. From then on, its answers to
// pings prove nothing.
func TestServerThatJoinsAnEnsembleIsNotBelievedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone, joined := newMember(""), newMember(ensembleConfig)
		cut := make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, cutting(cut, alone.serve), joined.serve))
		lease(t, s)
		time.Sleep(time.Hour)
		close(cut)
		time.Sleep(time.Minute)
		if joined.probes.Load() == 0 {
			t.Error("no probes in the ensemble")
		}
		if s.Context().Err() != nil {
			t.Fatal(context.Cause(s.Context()))
		}
		joined.quorum.Store(false)
		lost := time.Now()
		mustEnd(t, s)
		if lasted := time.Since(lost); lasted > leaseTimeout {
			t.Errorf("the lease lasted for %v without a quorum", lasted)
		}
	})
}

// The reverse: one server of the ensemble continues alone.
func TestServerThatIsAloneFromNowOnIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member, alone := newMember(ensembleConfig), newMember("")
		alone.quorum.Store(false)
		cut := make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, cutting(cut, member.serve), alone.serve))
		lease(t, s)
		time.Sleep(time.Hour)
		close(cut)
		time.Sleep(time.Hour)
		if s.Context().Err() != nil {
			t.Error(context.Cause(s.Context()))
		}
		if n := alone.probes.Load(); n > 1 { // one probe may have been queued
			t.Errorf("%d probes to a single server", n)
		}
	})
}

// Until the answer comes, the client assumes an ensemble. It keeps the proof of the connection before, so
// a session outlasts any number of reconnects to a single server.
func TestReconnectsToAServerAloneDoNotEndALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember("")
		m.quorum.Store(false)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, func(p *peer) {
			cut := make(chan struct{})
			time.AfterFunc(leaseTimeout/3, func() { close(cut) })
			cutting(cut, m.serve)(p)
		}))
		lease(t, s)
		for range 1000 {
			time.Sleep(time.Second)
			if left := time.Until(s.Deadline()); left < leaseTimeout/2 {
				t.Fatalf("only %v left", left)
			}
		}
		if m.attaches.Load() < 100 {
			t.Errorf("only %d attaches: the test shows nothing", m.attaches.Load())
		}
	})
}

// A server too busy to answer the question is asked again.
func TestModeIsAskedAgainWhenTheServerIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, func(p *peer) {
			p.accept(7, leaseTimeout)
			for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
				if h.Op == zkproto.OpGetData && asked.Add(1) < 5 {
					p.answer(h.Xid, 1, zkproto.CodeThrottled, nil)
					continue
				}
				p.answer(h.Xid, 1, 0, &zkproto.GetDataResponse{})
			}
		}))
		lease(t, s)
		time.Sleep(time.Hour)
		if n := asked.Load(); n != 5 {
			t.Errorf("asked %d times; want 5", n)
		}
	})
}

// If the node is unreadable, the client assumes an ensemble.
func TestServerThatHidesItsConfigurationIsTakenForAnEnsemble(t *testing.T) {
	for _, code := range []zkproto.Code{zkproto.CodeNoAuth, zkproto.CodeNoNode} {
		synctest.Test(t, func(t *testing.T) {
			s := mustSession(t, dialLease(t, LeaseAuto, time.Second, func(p *peer) {
				p.accept(7, time.Second)
				for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
					p.answer(h.Xid, 1, code, nil)
				}
			}))
			_, err := s.Lease(t.Context(), "/lock")
			wantErr(t, err, ErrTimeoutTooShort)
		})
	}
}

// Without a connection, a Lease waits for the answer. The wait ends with its context, or with the
// session.
func TestLeaseWithoutAConnectionEndsWithItsContextOrTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, cutting(cut, newMember(ensembleConfig).serve), func(*peer) {}))
		close(cut)
		synctest.Wait()
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		_, err := s.Lease(ctx, "/lock")
		wantErr(t, err, enough)
		_, err = s.Lease(t.Context(), "/lock")
		wantErr(t, err, ErrSessionExpired)
	})
}

// A server never answers the request for its mode, but commits writes. A lease continues: until the
// answer comes, the client assumes an ensemble and probes it.
func TestLeaseGoesOnWhileTheModeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newMember(ensembleConfig)
		cut := make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, cutting(cut, first.serve), func(p *peer) {
			p.accept(7, leaseTimeout)
			for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
				switch h.Op {
				case zkproto.OpGetData:
					p.answer(h.Xid, 1, zkproto.CodeThrottled, nil)
				case zkproto.OpMulti:
					p.answer(h.Xid, 1, 0, &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}})
				default:
					p.answer(h.Xid, 1, 0, nil)
				}
			}
		}))
		lease(t, s)
		time.Sleep(time.Minute)
		close(cut)
		time.Sleep(time.Hour)
		if s.Context().Err() != nil {
			t.Error(context.Cause(s.Context()))
		}
	})
}
