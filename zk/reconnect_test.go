package zk

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk/internal/raw"
	"holdfast/zkproto"
)

// samuel #72: a server made sessions and ended them at once, or hung up on them. The client
// asked it again in a tight loop.
func TestServerThatEndsEverySessionAtOnceIsNotAskedInATightLoop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(p *peer, attempts *int)
	}{
		{"hangs up and then does not know the session", func(p *peer, attempts *int) {
			var req zkproto.ConnectRequest
			req.Decode(zkproto.NewReader(p.frame()))
			resp := zkproto.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: true}
			if req.SessionID == 0 {
				*attempts++
				resp.Timeout, resp.SessionID = 10000, int64(*attempts)
			}
			p.send(resp.Append(nil))
		}},
		{"resumes the session and hangs up", func(p *peer, attempts *int) {
			*attempts++
			p.accept(7, 10*time.Second)
		}},
		{"grants a millisecond", func(p *peer, attempts *int) {
			*attempts++
			p.accept(int64(*attempts), time.Millisecond)
			p.hang()
		}},
		{"says that the session expired", func(p *peer, attempts *int) {
			*attempts++
			p.accept(int64(*attempts), 10*time.Second)
			h, _ := p.request()
			p.answer(h.Xid, 1, zkproto.CodeSessionExpired, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				c := dialTest(t, 10*time.Second, func(p *peer) {
					if attempts > 1000 {
						p.hang() // in a tight loop, the bubble's time would stand still
						return
					}
					tt.serve(p, &attempts)
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for ctx.Err() == nil {
					c.Exists(ctx, "/a")
				}
				if attempts < 20 || attempts > 400 {
					t.Errorf("%d attempts in a minute", attempts)
				}
			})
		})
	}
}

// kazoo #66 and #67: the connection is half dead, and our packets are lost. The client drops it
// while there is still time to resume the session elsewhere.
func TestSilentServerIsLeftForAnotherInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			p.hang()
		}, func(p *peer) {
			if req := p.accept(7, timeout); req.SessionID != 7 {
				t.Errorf("came back with session %d; want 7", req.SessionID)
			}
			p.serve()
		})
		s, start := mustSession(t, c), time.Now()
		_, _, err := s.Exists(t.Context(), "/a")
		wantErr(t, err, ErrConnectionLoss)
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil || time.Since(start) > timeout/2 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		time.Sleep(10 * timeout)
		if s.Context().Err() != nil {
			t.Error("the session was lost")
		}
	})
}

// kazoo 89e0660: an endless stream from the server kept the client from sending.
func TestFloodOfEventsStarvesNeitherPingsNorRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 6 * time.Second
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			var mu sync.Mutex
			go func() {
				for ok := true; ok; time.Sleep(time.Millisecond) {
					mu.Lock()
					ok = p.event(EventNodeDataChanged, "/watched")
					mu.Unlock()
				}
			}()
			for h, _ := p.request(); h.Op != 0; h, _ = p.request() {
				mu.Lock()
				p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
				mu.Unlock()
			}
		}, func(p *peer) { t.Error("the client dropped the connection") })
		s := mustSession(t, c)
		for range 5 {
			if _, _, _, err := s.ExistsW(t.Context(), "/watched"); err != nil {
				t.Error(err)
			}
			time.Sleep(timeout / 10)
		}
		time.Sleep(2 * timeout)
		if left := time.Until(s.Deadline()); left < timeout/2 {
			t.Errorf("only %v left", left)
		}
		c.Close()
		time.Sleep(time.Second) // the peer notices that the client is gone
	})
}

// samuel #83, kazoo #151: the server does not restore the watches. The client does not forget
// them: another connection restores them, or the session ends and notifies them.
func TestWatchesThatAreNotRestoredAreNotForgotten(t *testing.T) {
	watch := func(p *peer) {
		p.accept(7, 10*time.Second)
		p.expect(zkproto.OpExists, nil, &zkproto.StatResponse{})
	}
	refuse := func(p *peer) {
		p.accept(7, 10*time.Second)
		h, _ := p.request()
		if h.Op != zkproto.OpSetWatches {
			t.Errorf("the first request was %v; want the watches", h.Op)
		}
		p.answer(h.Xid, 5, zkproto.CodeMarshallingError, nil)
		p.serve()
	}
	t.Run("the next server does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := dialTest(t, 10*time.Second, watch, refuse, refuse, func(p *peer) {
				p.accept(7, 10*time.Second)
				p.expect(zkproto.OpSetWatches, nil, nil)
				p.event(EventNodeDeleted, "/a")
				p.serve()
			})
			_, _, w, err := c.ExistsW(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			select {
			case ev := <-w.C:
				if ev != (Event{Type: EventNodeDeleted, Path: "/a"}) {
					t.Errorf("got %+v", ev)
				}
			case <-time.After(time.Hour): // pings go on for ever
				t.Error("the watch was forgotten")
			}
		})
	})
	t.Run("nobody does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			refusals := 0
			c := dialTest(t, 10*time.Second, watch, func(p *peer) {
				if refusals++; refusals < 50 {
					refuse(p)
					return
				}
				p.accept(0, 0) // the session has expired
			})
			_, _, w, err := c.ExistsW(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			select {
			case ev := <-w.C:
				wantErr(t, ev.Err, ErrSessionExpired)
			case <-time.After(time.Hour):
				t.Error("the watch was forgotten")
			}
			c.Close()
		})
	})
}

// go-zookeeper #13, samuel #211 and #148, ZOOKEEPER-3652: Close hung while the client was
// reconnecting with a full queue, and panicked when it was called twice.
func TestCloseReturnsWhateverTheClientIsDoing(t *testing.T) {
	const timeout = 10 * time.Second
	var dialled chan struct{} // otherwise Dial might miss a session that ends at once, and wait for the next
	accept := func(p *peer) {
		p.accept(7, timeout)
		<-dialled
	}
	for _, tt := range []struct {
		name   string
		within time.Duration
		serve  []func(p *peer)
	}{
		// Close asks these servers to end the session, so it waits for them.
		{"connected to a server that is silent", 2 * time.Second, []func(p *peer){func(p *peer) { accept(p); p.hang() }}},
		{"connected to a server that does not read", 2 * time.Second, []func(p *peer){func(p *peer) { accept(p); time.Sleep(3 * time.Second) }}},
		{"waiting for the handshake", 0, []func(p *peer){accept, (*peer).hang}},
		{"waiting for the next attempt", 0, []func(p *peer){accept, func(*peer) {}}},
		{"between two sessions", 0, []func(p *peer){accept, func(p *peer) { p.accept(0, 0) }, (*peer).hang}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialled = make(chan struct{})
				c := dialTest(t, timeout, tt.serve...)
				close(dialled)
				synctest.Wait()
				const callers = 5000
				var calls sync.WaitGroup
				for range callers {
					calls.Go(func() {
						_, _, _, err := c.ExistsW(t.Context(), "/a")
						wantErr(t, err, ErrClosed)
					})
				}
				time.Sleep(100 * time.Millisecond)
				start := time.Now()
				var closes sync.WaitGroup
				for range 3 {
					closes.Go(func() { c.Close() })
				}
				closes.Wait()
				if took := time.Since(start); took > tt.within {
					t.Errorf("Close took %v; want %v at most", took, tt.within)
				}
				calls.Wait()
				_, _, err := c.Exists(t.Context(), "/a")
				wantErr(t, err, ErrClosed)
				time.Sleep(3 * time.Second) // the peer notices that the client is gone
			})
		})
	}
}

// etcd #9921, #10111: a call with an ended context returned neither an error nor a result.
func TestCallsWithAnEndedContextFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			if h, _ := p.request(); h.Op != zkproto.OpCloseSession {
				t.Errorf("%v was sent", h.Op)
			}
		})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		args := map[reflect.Type]any{
			reflect.TypeFor[context.Context](): ctx,
			reflect.TypeFor[string]():          "/a",
			reflect.TypeFor[time.Duration]():   time.Hour,
			reflect.TypeFor[raw.Request]():     raw.Request{Op: zkproto.OpWhoAmI},
		}
		calls := 0
		for _, v := range []any{c, mustSession(t, c)} {
			typ := reflect.TypeOf(v)
			for i := range typ.NumMethod() {
				m := typ.Method(i)
				if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() {
					continue
				}
				in := []reflect.Value{reflect.ValueOf(v)}
				for i := 1; i < m.Type.NumIn(); i++ {
					switch arg, ok := args[m.Type.In(i)]; {
					case ok:
						in = append(in, reflect.ValueOf(arg))
					case !m.Type.IsVariadic() || i < m.Type.NumIn()-1:
						in = append(in, reflect.Zero(m.Type.In(i)))
					case m.Name == "Multi":
						in = append(in, reflect.ValueOf(SetOp("/a", nil, 0)))
					case m.Name == "Pipeline" || m.Name == "MultiRead":
						in = append(in, reflect.ValueOf(GetOp("/a")))
					}
				}
				out := m.Func.Call(in)
				err, _ := out[len(out)-1].Interface().(error)
				if !errors.Is(err, why) || MayHaveHappened(err) {
					t.Errorf("%v.%s: %v", typ, m.Name, err)
				}
				for _, o := range out[:len(out)-1] {
					if !o.IsZero() {
						t.Errorf("%v.%s returned %v with its error", typ, m.Name, o)
					}
				}
				calls++
			}
		}
		if calls < 36 {
			t.Errorf("only %d operations were tried", calls)
		}
		_, err := Dial(ctx, Config{Servers: []string{"test:1"}, Dial: dialPeers(t, serveSession)})
		wantErr(t, err, why)
	})
}

// etcd #11456: a lease was granted although the session had ended during the wait.
func TestLeaseOfASessionThatEndsMeanwhileIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialLease(t, LeaseQuorum, 20*time.Second, func(p *peer) {
			p.accept(7, 20*time.Second)
			h, _ := p.request()
			for ; h.Op == zkproto.OpPing; h, _ = p.request() {
				p.answer(h.Xid, 1, 0, nil)
			}
			p.answer(h.Xid, 1, zkproto.CodeSessionExpired, nil) // to the lease's first probe
		}, func(p *peer) { p.accept(0, 0) }, func(p *peer) { p.accept(8, 20*time.Second); p.serve() })
		s := mustSession(t, c)
		time.Sleep(15 * time.Second) // the proof from the session's creation is old by now
		l, err := s.Lease(t.Context(), "/a")
		wantErr(t, err, ErrSessionExpired)
		if l != nil {
			t.Error("a lease was granted after the end of the session")
		}
		<-s.Context().Done()
		_, err = s.Lease(t.Context(), "/a")
		wantErr(t, err, ErrSessionExpired)
	})
	synctest.Test(t, func(t *testing.T) {
		cut := make(chan struct{})
		c := dialTest(t, 20*time.Second, func(p *peer) { p.accept(7, 20*time.Second); <-cut }, func(p *peer) { p.accept(0, 0) },
			func(p *peer) { p.accept(8, 20*time.Second); p.serve() })
		s := mustSession(t, c)
		close(cut)
		<-s.Context().Done()
		_, err := s.Lease(t.Context(), "/a")
		wantErr(t, err, ErrSessionExpired)
	})
}
