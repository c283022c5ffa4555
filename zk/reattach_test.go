package zk

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A recorder notes the requests that the servers of a client get, over all connections.
type recorder struct {
	mu    sync.Mutex
	notes []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// take returns the notes since the last take, without pings.
func (r *recorder) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := slices.DeleteFunc(r.notes, func(n string) bool { return n == "ping" })
	r.notes = nil
	return notes
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("the servers got\n%q\nwant\n%q", got, want)
	}
}

// member returns a server of an ensemble that answers and records everything. With held,
// answers to exists wait until held is closed.
func (r *recorder) member(held <-chan struct{}) func(p *peer) {
	return func(p *peer) {
		req := p.accept(7, leaseTimeout)
		r.note("attach %d", req.SessionID)
		for {
			h, _ := p.request()
			if h.Op == 0 {
				return
			}
			r.note("%v", h.Op)
			var body encoder
			switch h.Op {
			case zkproto.OpExists:
				if held != nil {
					<-held
				}
				body = &zkproto.StatResponse{}
			case zkproto.OpGetData:
				body = &zkproto.GetDataResponse{Data: []byte(ensembleConfig)}
			case zkproto.OpMulti:
				body = &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}}
			}
			p.answer(h.Xid, 1, 0, body)
			if h.Op == zkproto.OpCloseSession {
				return
			}
		}
	}
}

// An idle session attaches again, and a write on the new connection confirms it. The deadline counts from
// the attach.
func TestLeaseOfAnIdleSessionAttachesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, r.member(nil)))
		r.want(t, "attach 0", "get")
		time.Sleep(time.Hour)
		attached := time.Now()
		lease(t, s)
		r.want(t, "attach 7", "get", "multi")
		if left := s.Deadline().Sub(attached); left != deadlineFrom(attached, leaseTimeout).Sub(attached) {
			t.Errorf("proven for %v from the attach", left)
		}
		lease(t, s)
		r.want(t)
	})
}

// The attach proves nothing before a write on its connection is answered. A write answered
// earlier does not count.
func TestLeaseWaitsForAWriteBehindTheAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		time.Sleep(time.Hour)
		if _, err := s.Multi(t.Context(), CheckOp("/a", AnyVersion)); err != nil {
			t.Fatal(err)
		}
		m.quorum.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Lease(ctx, "/lock")
		wantErr(t, err, context.DeadlineExceeded)
		if n := m.attaches.Load(); n != 2 {
			t.Errorf("%d attaches; want 2", n)
		}
		if d := s.proof.touched; time.Since(d) < time.Hour {
			t.Errorf("proven at %v before now; want the time of the second attach", time.Since(d))
		}
	})
}

// After a reconnect for another reason, only the write is missing.
func TestLeaseAfterAReconnectTakesNoOtherAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		cut := make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, func(p *peer) {
			go func() { <-cut; p.nc.Close() }()
			r.member(nil)(p)
		}, r.member(nil)))
		time.Sleep(time.Hour)
		r.take()
		close(cut)
		r.want(t, "attach 7", "get")
		lease(t, s)
		r.want(t, "multi")
	})
}

// Requests in flight are answered before the connection is closed. Later ones wait for the next
// connection. No request fails.
func TestPlannedReattachLosesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		held := make(chan struct{})
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, r.member(held)))
		time.Sleep(time.Hour)
		r.take()
		errs := make(chan error, 3)
		go func() {
			_, _, err := s.Exists(t.Context(), "/under way")
			errs <- err
		}()
		r.want(t, "exists")
		go func() {
			_, err := s.Lease(t.Context(), "/lock")
			errs <- err
		}()
		synctest.Wait()
		go func() {
			_, _, err := s.Get(t.Context(), "/later")
			errs <- err
		}()
		r.want(t)
		close(held)
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		r.want(t, "attach 7", "get", "multi", "get")
	})
}

// A request that is never answered delays a re-attach no longer than any other silence of a server.
func TestPlannedReattachIsBoundedWhenAnAnswerDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		never := make(chan struct{})
		defer close(never)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, r.member(never), r.member(nil)))
		time.Sleep(time.Hour)
		lost := make(chan error)
		go func() {
			_, _, err := s.Exists(t.Context(), "/a")
			lost <- err
		}()
		synctest.Wait()
		began := time.Now()
		leased := make(chan error)
		go func() {
			_, err := s.Lease(t.Context(), "/lock")
			leased <- err
		}()
		wantErr(t, <-lost, ErrConnectionLoss)
		wantErr(t, <-leased, nil)
		if took := time.Since(began); took > leaseTimeout/2 {
			t.Errorf("the lease took %v", took)
		}
		if s.Context().Err() != nil || len(s.leases) != 1 {
			t.Errorf("%d leases granted, %v", len(s.leases), context.Cause(s.Context()))
		}
	})
}

func TestManyLeasesShareOneReattach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, m.serve))
		time.Sleep(time.Hour)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := s.Lease(t.Context(), "/lock"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := m.attaches.Load(); n != 2 {
			t.Errorf("the session attached %d times; want 2", n)
		}
	})
}

// The session's own server is asked first: others may lag behind it.
func TestPlannedReattachGoesToTheSameServerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []string
		m := newMember(ensembleConfig)
		dial := dialPeers(t, m.serve)
		c, err := Dial(t.Context(), Config{
			Servers: []string{"a:1", "b:1", "c:1", "d:1"}, SessionTimeout: leaseTimeout,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				tried = append(tried, addr)
				return dial(ctx, network, addr)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 3 {
			time.Sleep(time.Hour)
			lease(t, mustSession(t, c)).Release()
		}
		if len(tried) != 4 || len(slices.Compact(slices.Clone(tried))) != 1 {
			t.Errorf("tried %v; want one server four times", tried)
		}
	})
}

// No loss is reported, because nothing was lost.
func TestPlannedReattachIsNoLossInTraceAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		var log bytes.Buffer
		var story []string
		tell := func(what string) { story = append(story, what) }
		c, err := Dial(t.Context(), Config{
			Servers: []string{"test:1"}, SessionTimeout: leaseTimeout, Dial: dialPeers(t, m.serve),
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Trace: &Trace{
				ConnectDone:    func(string, time.Duration, error) { tell("connected") },
				Disconnected:   func(int64, error) { tell("disconnected") },
				Reattaching:    func(int64) { tell("reattaching") },
				SessionCreated: func(int64, time.Duration) { tell("created") },
				SessionResumed: func(int64) { tell("resumed") },
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(time.Hour)
		lease(t, mustSession(t, c))
		synctest.Wait()
		if want := []string{"connected", "created", "reattaching", "connected", "resumed"}; !slices.Equal(story, want) {
			t.Errorf("the trace reports %q; want %q", story, want)
		}
		if strings.Contains(log.String(), "lost") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}

// Watches are restored before any request of a caller, and report the events that they missed.
func TestPlannedReattachRestoresWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := mustSession(t, dialLease(t, LeaseAuto, leaseTimeout, r.member(nil), func(p *peer) {
			p.accept(7, leaseTimeout)
			p.expect(zkproto.OpSetWatches, nil, nil)
			p.event(EventNodeDeleted, "/a")
			for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
				var body encoder
				switch h.Op {
				case zkproto.OpGetData:
					body = &zkproto.GetDataResponse{Data: []byte(ensembleConfig)}
				case zkproto.OpMulti:
					body = &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}}
				}
				p.answer(h.Xid, 1, 0, body)
			}
		}))
		_, _, w, err := s.ExistsW(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		lease(t, s)
		if ev := <-w.C; ev.Type != EventNodeDeleted {
			t.Errorf("got %+v", ev)
		}
	})
}

// A client is closed while its session attaches again. It still tells the server, which would
// otherwise keep the session's nodes.
func TestCloseDuringAPlannedReattachEndsTheSessionAtTheServer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		delay time.Duration // delay of the answer to the attach
		want  []string
	}{
		{"soon answered", time.Second, []string{"attach 7", "closeSession"}},
		{"not answered", time.Hour, []string{"attach 7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				answer := make(chan struct{})
				c := dialLease(t, LeaseAuto, leaseTimeout, r.member(nil), func(p *peer) {
					var req zkproto.ConnectRequest
					req.Decode(zkproto.NewReader(p.frame()))
					r.note("attach %d", req.SessionID)
					<-answer
					p.send((&zkproto.ConnectResponse{Timeout: 15000, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true}).Append(nil))
					for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
						var body encoder = &zkproto.GetDataResponse{}
						switch h.Op {
						case zkproto.OpCloseSession:
							r.note("closeSession")
						case zkproto.OpMulti: // the proof, if it is asked for before the client sees that it is closed
							body = &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}}
						}
						p.answer(h.Xid, 1, 0, body)
					}
				})
				s := mustSession(t, c)
				time.Sleep(time.Hour)
				r.take()
				leased := make(chan error)
				go func() {
					_, err := s.Lease(t.Context(), "/lock")
					leased <- err
				}()
				r.want(t, "attach 7")
				began := time.Now()
				time.AfterFunc(tt.delay, func() { close(answer) })
				closed := make(chan struct{})
				go func() { defer close(closed); c.Close() }()
				<-s.Context().Done()
				if took := time.Since(began); took != 0 {
					t.Errorf("the session ended after %v; want at once", took)
				}
				<-closed
				wantErr(t, <-leased, ErrClosed)
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("Close took %v", took)
				}
				r.want(t, tt.want[1:]...)
				time.Sleep(2 * time.Hour) // the second server answers
			})
		})
	}
}
