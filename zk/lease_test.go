package zk

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// member plays a server of an ensemble, or a single one. It answers everything, but transactions only
// while quorum is true.
type member struct {
	config   string // data of /zookeeper/config
	timeout  time.Duration
	quorum   atomic.Bool
	gone     atomic.Bool   // the node of the lease does not exist
	hidden   atomic.Bool   // the node of the lease is unreadable
	slow     time.Duration // from a transaction to its answer
	attaches atomic.Int64
	probes   atomic.Int64
	pings    atomic.Int64
}

func (m *member) serve(p *peer) {
	p.accept(7, m.timeout)
	m.attaches.Add(1)
	for {
		h, _ := p.request()
		switch h.Op {
		case 0:
			return
		case zkproto.OpGetData:
			p.answer(h.Xid, 1, 0, &zkproto.GetDataResponse{Data: []byte(m.config)})
		case zkproto.OpExists:
			p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
		case zkproto.OpMulti:
			m.probes.Add(1)
			time.Sleep(m.slow)
			switch {
			case !m.quorum.Load(): // the answer waits for a quorum that is missing
			case m.gone.Load():
				p.answer(h.Xid, 1, 0, &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpError, Err: zkproto.CodeNoNode}}})
			case m.hidden.Load():
				p.answer(h.Xid, 1, 0, &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpError, Err: zkproto.CodeNoAuth}}})
			default:
				p.answer(h.Xid, 1, 0, &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}})
			}
		case zkproto.OpPing:
			m.pings.Add(1)
			p.answer(h.Xid, 1, 0, nil)
		default:
			p.answer(h.Xid, 1, 0, nil)
			if h.Op == zkproto.OpCloseSession {
				return
			}
		}
	}
}

const leaseTimeout = 15 * time.Second

func newMember(config string) *member {
	m := &member{config: config, timeout: leaseTimeout}
	m.quorum.Store(true)
	return m
}

func lease(t *testing.T, s *Session) *Lease {
	t.Helper()
	l, err := s.Lease(t.Context(), "/lock")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const ensembleConfig = "server.1=a:2888:3888:participant;2181\nserver.2=b:2888:3888:participant;2181\nversion=100000000"

func TestLeaseProbesAnEnsembleAndOnlyWhileThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		time.Sleep(10 * time.Minute)
		if n := m.probes.Load(); n != 0 {
			t.Fatalf("%d probes without a lease", n)
		}
		l := lease(t, s)
		for range 600 {
			time.Sleep(time.Second)
			if left := time.Until(s.Deadline()); left < leaseTimeout/2 {
				t.Fatalf("only %v proven while the ensemble answers", left)
			}
		}
		every := probeEvery(DefaultTickTime, leaseTimeout)
		if n, want := m.probes.Load(), int64(10*time.Minute/every); n > want+2 || n < want*9/10 {
			t.Errorf("%d probes in ten minutes; want %d", n, want)
		}
		l.Release()
		l.Release()
		time.Sleep(leaseTimeout + every)
		n := m.probes.Load()
		time.Sleep(10 * time.Minute)
		if more := m.probes.Load() - n; more > 0 {
			t.Errorf("%d probes later than a session timeout after the release", more)
		}
		if err := s.Context().Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// However old the session is when its place gets the lock, the deadline never comes so near that holdfast run
// stops its command with the longest --term-before that it accepts, two fifths of the timeout.
func TestLeaseLeavesItsHolderTimeWhileTheEnsembleAnswers(t *testing.T) {
	for _, timeout := range []time.Duration{smallestTimeout(DefaultTickTime), leaseTimeout, 40 * time.Second} {
		for waits := time.Duration(0); waits < timeout; waits += timeout / 50 {
			synctest.Test(t, func(t *testing.T) {
				m := newMember(ensembleConfig)
				m.slow = 50 * time.Millisecond
				m.timeout = timeout
				s := mustSession(t, dialLease(t, LeaseAuto, timeout, m.serve))
				place := func() {
					if _, err := s.Multi(t.Context(), CheckOp("/lock", AnyVersion)); err != nil {
						t.Fatal(err)
					}
				}
				place()
				time.Sleep(waits)
				lease(t, s)
				began := time.Now()
				for time.Since(began) < 2*timeout {
					if left := time.Until(s.Deadline()); left <= timeout*2/5 {
						t.Fatalf("timeout %v, a lease after %v: %v later only %v are proven", timeout, waits, time.Since(began), left)
					}
					time.Sleep(7 * time.Millisecond)
					if time.Since(began)/time.Second%5 == 2 {
						place() // a holder that writes now and then
					}
				}
			})
		}
	}
}

// On a connection so slow that half of the timeout and two probes are not left even after a re-attach, a
// lease is granted all the same.
func TestLeaseAttachesOnceOnASlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		m.timeout = smallestTimeout(DefaultTickTime)
		m.slow = m.timeout / 5
		s := mustSession(t, dialLease(t, LeaseAuto, m.timeout, m.serve))
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Lease(ctx, "/lock"); err != nil {
			t.Error(err)
		}
		if n := m.attaches.Load(); n != 2 {
			t.Errorf("the session attached %d times; want 2", n)
		}
	})
}

// The follower answers pings and reads for ever, but its leader is gone.
func TestLeaseEndsWhenNothingIsCommittedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		c := dialLease(t, LeaseAuto, leaseTimeout, m.serve)
		s := mustSession(t, c)
		lease(t, s)
		time.Sleep(time.Minute)
		m.quorum.Store(false)
		cut := time.Now()
		pings := m.pings.Load()
		mustEnd(t, s)
		wantErr(t, context.Cause(s.Context()), ErrSessionExpired)
		if lasted := time.Since(cut); lasted >= leaseTimeout-2*probeEvery(DefaultTickTime, leaseTimeout)+time.Second || lasted < leaseTimeout/2 {
			t.Errorf("the lease lasted for another %v", lasted)
		}
		if m.pings.Load() == pings {
			t.Error("no ping was answered meanwhile: the test shows nothing")
		}
	})
}

func TestPingModeBelievesTheFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeasePing, leaseTimeout, m.serve))
		lease(t, s)
		m.quorum.Store(false)
		time.Sleep(10 * time.Minute)
		if s.Context().Err() != nil || m.probes.Load() != 0 {
			t.Errorf("%v, %d probes", s.Context().Err(), m.probes.Load())
		}
	})
}

func TestSingleServerNeedsNoProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember("")
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		lease(t, s)
		time.Sleep(10 * time.Minute)
		if s.Context().Err() != nil || m.probes.Load() != 0 {
			t.Errorf("%v, %d probes", s.Context().Err(), m.probes.Load())
		}
	})
}

// A session that leases every few seconds stays proven in between. It neither attaches again nor waits
// for a write.
func TestSessionThatLeasesOftenStaysProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		for range 100 {
			lease(t, s).Release()
			time.Sleep(leaseTimeout)
		}
		if n := m.attaches.Load(); n != 1 {
			t.Errorf("the session attached %d times; want 1", n)
		}
		m.quorum.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lease(ctx, "/lock"); err != nil {
			t.Errorf("a lease on a proven session waits for a write: %v", err)
		}
	})
}

// A lease is granted even if its node is unreadable for us. The transaction that checks the node is a
// proof all the same.
func TestLeaseOnANodeThatWeMayNotReadIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		m.hidden.Store(true)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		time.Sleep(time.Hour)
		lease(t, s)
		time.Sleep(time.Hour)
		if s.Context().Err() != nil {
			t.Error(context.Cause(s.Context()))
		}
	})
}

func TestLeaseTellsThatItsNodeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		l := lease(t, s)
		time.Sleep(time.Minute)
		m.gone.Store(true)
		gone := time.Now()
		<-l.Gone()
		if late := time.Since(gone); late > leaseTimeout/3 {
			t.Errorf("told after %v of the node's removal", late)
		}
		l.Release()
		time.Sleep(time.Hour)
		_, err := s.Lease(t.Context(), "/lock")
		wantErr(t, err, ErrNoNode)
		if s.Context().Err() != nil {
			t.Error("the session is over, though only the node was removed")
		}
	})
}

func TestTimeoutTooShortForTheProofIsRefusedWithOneThatWouldDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		c, err := Dial(t.Context(), Config{
			Servers: []string{"test:1"}, SessionTimeout: leaseTimeout, TickTime: 10 * time.Second,
			Dial: dialPeers(t, m.serve),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = mustSession(t, c).Lease(t.Context(), "/lock")
		wantErr(t, err, ErrTimeoutTooShort)
		if err != nil && !strings.Contains(err.Error(), smallestTimeout(10*time.Second).String()) {
			t.Errorf("%v does not name a sufficient timeout", err)
		}
	})
}

func TestLeaseWaitsForTheAnswerAndHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		time.Sleep(time.Hour)
		m.quorum.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Lease(ctx, "/lock")
		wantErr(t, err, context.DeadlineExceeded)
	})
}

// Several leases wait for the server's mode, and the request is lost with the connection. All of them
// wait for the answer on the next connection. None acts on the assumption in between.
func TestLeasesThatWaitForOneLostAnswerAllWaitForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second // too short for an ensemble
		lose := make(chan struct{})
		c := dialLease(t, LeaseAuto, timeout, func(p *peer) {
			p.accept(7, timeout)
			p.request()
			<-lose
		}, func(p *peer) {
			p.accept(7, timeout)
			for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
				p.answer(h.Xid, 1, 0, &zkproto.GetDataResponse{}) // the mode of a single server
			}
		})
		s := mustSession(t, c)
		errs := make(chan error)
		const n = 5
		for range n {
			go func() {
				_, err := s.Lease(t.Context(), "/lock")
				errs <- err
			}()
		}
		synctest.Wait()
		close(lose)
		for range n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// Without a connection, the session's end is computed from the proof without a lease. A lease granted
// then would promise more or less than that.
func TestLeaseIsNotGrantedWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		cut, back := make(chan struct{}), make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseQuorum, leaseTimeout, cutting(cut, m.serve), func(p *peer) {
			<-back
			m.serve(p)
		}))
		time.Sleep(leaseTimeout / 10) // a proof so young is good enough for a lease
		close(cut)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Lease(ctx, "/lock")
		wantErr(t, err, context.DeadlineExceeded)
		close(back)
		lease(t, s)
		if left := time.Until(s.Deadline()); left < leaseTimeout/2 {
			t.Errorf("only %v proven", left)
		}
	})
}
