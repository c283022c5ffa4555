package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// lacking plays a server that knows everything but one operation.
func lacking(op zkproto.Op, how string) func(p *peer) {
	return func(p *peer) {
		p.accept(7, 10*time.Second)
		for {
			h, r := p.request()
			switch {
			case h.Op == 0:
				return
			case h.Xid == zkproto.XidPing:
				p.answer(h.Xid, 1, 0, nil)
			case h.Op == op || op == anyOp:
				switch how {
				case "silent":
					p.hang()
				case "answers":
					p.answer(h.Xid, 1, zkproto.CodeUnimplemented, nil)
				}
				return
			default:
				p.answerAny(h, r)
				if h.Op == zkproto.OpCloseSession {
					return
				}
			}
		}
	}
}

const anyOp = zkproto.Op(-1000)

// answerAny answers a request with a success.
func (p *peer) answerAny(h zkproto.RequestHeader, _ *zkproto.Reader) {
	var body encoder
	switch h.Op {
	case zkproto.OpExists, zkproto.OpSetData:
		body = &zkproto.StatResponse{}
	case zkproto.OpGetData:
		body = &zkproto.GetDataResponse{}
	case zkproto.OpGetChildren2:
		body = &zkproto.Children2Response{}
	case zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		body = &zkproto.Create2Response{Path: "/x"}
	case zkproto.OpSync:
		body = &zkproto.SyncRequest{Path: "/"}
	case zkproto.OpMulti:
		body = &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}}
	case zkproto.OpAddWatch:
		body = &zkproto.ErrorResponse{}
	}
	p.answer(h.Xid, 1, 0, body)
}

// A request at which every server drops the connection, or that no server answers, ends as an error that names it. A
// caller that sends it again after each lost connection would do so for ever.
func TestARequestThatTheServersDoNotKnowEnds(t *testing.T) {
	tests := []struct {
		op   zkproto.Op
		send func(ctx context.Context, c *Client) error
		says string
	}{
		{zkproto.OpCreateContainer, func(ctx context.Context, c *Client) error {
			_, _, err := c.Create(ctx, "/a", nil, Container)
			return err
		}, "/a"},
		{zkproto.OpCreateTTL, func(ctx context.Context, c *Client) error {
			_, _, err := c.CreateTTL(ctx, "/a", nil, Persistent, time.Hour)
			return err
		}, "/a"},
		{zkproto.OpCreate2, func(ctx context.Context, c *Client) error {
			_, _, err := c.Create(ctx, "/a", nil, EphemeralSequential)
			return err
		}, "create /a"},
		{zkproto.OpDelete, func(ctx context.Context, c *Client) error { return c.Delete(ctx, "/a", AnyVersion) }, "delete /a"},
		{zkproto.OpSetData, func(ctx context.Context, c *Client) error { _, err := c.Set(ctx, "/a", nil, AnyVersion); return err }, "set /a"},
		{zkproto.OpGetData, func(ctx context.Context, c *Client) error { _, _, err := c.Get(ctx, "/a"); return err }, "get /a"},
		{zkproto.OpGetChildren2, func(ctx context.Context, c *Client) error { _, _, err := c.Children(ctx, "/a"); return err }, "/a"},
		{zkproto.OpExists, func(ctx context.Context, c *Client) error { _, _, _, err := c.ExistsW(ctx, "/a"); return err }, "/a"},
		{zkproto.OpMulti, func(ctx context.Context, c *Client) error {
			_, err := c.Multi(ctx, CheckOp("/a", AnyVersion))
			return err
		}, "multi"},
		{zkproto.OpAddWatch, func(ctx context.Context, c *Client) error {
			_, err := c.AddWatch(ctx, "/a", WatchPersistent)
			return err
		}, "/a"},
		{anyOp, func(ctx context.Context, c *Client) error { _, _, err := c.Get(ctx, "/a"); return err }, "get /a"},
	}
	for _, tt := range tests {
		for _, how := range []string{"drops", "silent", "answers"} {
			t.Run(fmt.Sprintf("%v %s", tt.op, how), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := dialTest(t, 10*time.Second, lacking(tt.op, how))
					began := time.Now()
					var err error
					for range 1000 {
						if err = tt.send(t.Context(), c); !errors.Is(err, ErrConnectionLoss) {
							break
						}
					}
					if errors.Is(err, ErrUnimplemented) != (tt.op != anyOp || how == "answers") || SafeToRetry(err) {
						t.Errorf("got error %v after %v; want one that the server does not know the request", err, time.Since(began))
					}
					if err == nil || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("got error %v; want one that names %s", err, tt.says)
					}
					sent := how != "answers" && tt.op != anyOp // else the last attempt has waited for an answer to the sync
					if MayHaveHappened(err) != sent {
						t.Errorf("MayHaveHappened is %v", MayHaveHappened(err))
					}
					limit := map[string]time.Duration{"drops": 20 * time.Second, "silent": time.Minute}[how]
					if took := time.Since(began); took > limit {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// An outage is no reason to give a request up: no request is answered then. Nor are lost connections that happen to break at
// the same operation, as long as some of them do not.
func TestARequestIsNotGivenUpInAnOutage(t *testing.T) {
	t.Run("nothing is answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			connections := 0
			c := dialTest(t, 10*time.Second, func(p *peer) {
				if connections++; time.Since(began) > 8*time.Second {
					lacking(0, "")(p)
					return
				}
				p.accept(7, 10*time.Second)
				p.request()
			})
			for {
				_, _, err := c.Create(t.Context(), "/a", nil, Container)
				if err == nil {
					break
				}
				if !errors.Is(err, ErrConnectionLoss) {
					t.Fatalf("got error %v after %v", err, time.Since(began))
				}
			}
			if connections < 10 {
				t.Errorf("%d connections: the test shows nothing", connections)
			}
		})
	})
	t.Run("every fourth is answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			c := dialTest(t, 10*time.Second, func(p *peer) {
				if n++; n%4 == 0 {
					lacking(0, "")(p)
					return
				}
				lacking(zkproto.OpCreateContainer, "drops")(p)
			})
			for range 100 {
				_, _, err := c.Create(t.Context(), "/a", nil, Container)
				if err != nil && !errors.Is(err, ErrConnectionLoss) {
					t.Fatal(err)
				}
				if err == nil { // the server is restarted
					c.session.Load().conn.fail(errDown)
					synctest.Wait()
				}
			}
		})
	})
	t.Run("the server throttles what restores the watches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var connections atomic.Int64
			c := dialTest(t, 10*time.Second, func(p *peer) {
				n := connections.Add(1)
				p.accept(7, 10*time.Second)
				for {
					h, r := p.request()
					switch {
					case h.Op == 0:
						return
					case h.Op == zkproto.OpMulti && n == 1: // lost
						return
					case (h.Op == zkproto.OpSetWatches || h.Op == zkproto.OpSetWatches2) && n < 40:
						p.answer(h.Xid, 1, zkproto.CodeThrottled, nil)
					case h.Op == zkproto.OpMulti && n < 40: // it comes behind that
					default:
						p.answerAny(h, r)
					}
				}
			})
			if _, _, _, err := c.ExistsW(t.Context(), "/watched"); err != nil {
				t.Fatal(err)
			}
			err := error(ErrConnectionLoss)
			for errors.Is(err, ErrConnectionLoss) {
				_, err = c.Multi(t.Context(), CheckOp("/a", AnyVersion))
			}
			if err != nil || connections.Load() < 40 {
				t.Errorf("got error %v after %d connections", err, connections.Load())
			}
		})
	})
	t.Run("other paths work", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := dialTest(t, 10*time.Second, func(p *peer) {
				p.accept(7, 10*time.Second)
				for {
					h, r := p.request()
					if h.Op == zkproto.OpGetData {
						var m zkproto.ReadRequest
						if m.Decode(r); m.Path == "/bad" {
							return
						}
					}
					if h.Op == 0 {
						return
					}
					p.answerAny(h, r)
				}
			})
			var err error
			for n := 0; n < 100 && err == nil; n++ {
				if _, _, e := c.Get(t.Context(), "/good"); e != nil && !errors.Is(e, ErrConnectionLoss) {
					t.Fatal(e)
				}
				if _, _, e := c.Get(t.Context(), "/bad"); !errors.Is(e, ErrConnectionLoss) {
					err = e
				}
			}
			wantErr(t, err, ErrUnimplemented)
		})
	})
}

// A member of version 3.5 does not know setWatches2. A persistent watch that arrives there ends with an error: otherwise it
// would wait for events that never come, behind connections that break again and again. One-shot watches go on.
func TestPersistentWatchEndsWhereTheServerHasNone(t *testing.T) {
	for _, how := range []string{"answers", "drops", "silent"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				move := make(chan struct{})
				fire := make(chan struct{})
				c := dialTest(t, 10*time.Second,
					func(p *peer) {
						stop := context.AfterFunc(t.Context(), func() {})
						defer stop()
						go func() {
							<-move
							p.nc.Close()
						}()
						lacking(0, "")(p)
					},
					func(p *peer) {
						go func() {
							select {
							case <-fire:
								p.send((&zkproto.WatcherEvent{Type: EventNodeDataChanged, State: 3, Path: "/a"}).Append((&zkproto.ReplyHeader{Xid: zkproto.XidNotification, Zxid: -1}).Append(nil)))
							case <-t.Context().Done():
							}
						}()
						lacking(zkproto.OpSetWatches2, how)(p)
					})
				w, err := c.AddWatch(t.Context(), "/a", WatchPersistentRecursive)
				if err != nil {
					t.Fatal(err)
				}
				_, _, once, err := c.GetW(t.Context(), "/a")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				close(move)
				select {
				case ev, open := <-w.C:
					wantErr(t, ev.Err, ErrUnimplemented)
					if _, again := <-w.C; !open || again {
						t.Error("want one event with the error, and then a closed channel")
					}
				case <-time.After(time.Minute):
				}
				if took := time.Since(began); took >= time.Minute {
					t.Fatalf("the watch is blind for %v", took)
				}
				if _, _, err := c.Get(t.Context(), "/a"); err != nil && !errors.Is(err, ErrConnectionLoss) {
					t.Error(err)
				}
				if _, _, err := c.Get(t.Context(), "/a"); err != nil {
					t.Errorf("the session does not work: %v", err)
				}
				close(fire)
				if ev := <-once.C; ev.Err != nil || ev.Type != EventNodeDataChanged {
					t.Errorf("the one-shot watch got %+v", ev)
				}
			})
		})
	}
}

// Watches are stopped all the time. A server that does not know the request for it must not lose a connection each time.
func TestWatchesThatTheServerCannotRemoveAreKept(t *testing.T) {
	for _, how := range []string{"answers", "drops"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				connections := 0
				c := dialTest(t, 10*time.Second, func(p *peer) {
					connections++
					lacking(zkproto.OpRemoveWatches, how)(p)
				})
				for range 100 {
					_, _, w, err := c.GetW(t.Context(), "/a")
					if err != nil && !errors.Is(err, ErrConnectionLoss) {
						t.Fatal(err)
					}
					if err == nil {
						w.Stop()
					}
					synctest.Wait()
				}
				if connections > 7 {
					t.Errorf("%d connections", connections)
				}
			})
		})
	}
}
