package zk

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// event sends a notification; see send.
func (p *peer) event(typ EventType, path string) bool {
	return p.answer(zkproto.XidNotification, -1, 0, &zkproto.WatcherEvent{Type: typ, State: zkproto.StateSyncConnected, Path: path})
}

// expect reads the next request, checks that it is op, decodes its body and answers it.
func (p *peer) expect(op zkproto.Op, body decoder, reply encoder) {
	h, r := p.request()
	if h.Op != op {
		p.t.Errorf("got %v (%d); want %v (%d)", h.Op, h.Op, op, op)
		return
	}
	if body != nil {
		body.Decode(r)
		if err := r.Complete(); err != nil {
			p.t.Errorf("%v: %v", op, err)
		}
	}
	p.answer(h.Xid, 5, 0, reply)
}

func mustWatch(t *testing.T, c *Client, path string, mode WatchMode) *PersistentWatch {
	t.Helper()
	w, err := c.AddWatch(t.Context(), path, mode)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantEvent(t *testing.T, w *PersistentWatch, want Event) {
	t.Helper()
	select {
	case got := <-w.C:
		if got != want {
			t.Errorf("event %+v; want %+v", got, want)
		}
	case <-time.After(time.Minute):
		t.Errorf("no event; want %+v", want)
	}
}

func wantQuiet(t *testing.T, w *PersistentWatch) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-w.C:
		t.Errorf("unexpected event %+v", got)
	default:
	}
}

// go-zookeeper #101: a consumer that does not read must not delay the replies. It is told that it missed
// events.
func TestSlowReaderOfAPersistentWatchHoldsUpNobodyAndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan int)
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
			go func() {
				for n := range more {
					for i := range n {
						p.event(EventNodeDataChanged, fmt.Sprintf("/t/%d", i))
					}
				}
			}()
			p.serve()
		})
		defer close(more)
		w := mustWatch(t, c, "/t", WatchPersistentRecursive)
		ok := func() {
			t.Helper()
			if _, ok, err := c.Exists(t.Context(), "/a"); !ok || err != nil {
				t.Errorf("meanwhile: %v, %v", ok, err)
			}
		}
		for range 3 { // the consumer catches up, and falls behind again
			more <- 5 * persistentBuffer
			synctest.Wait()
			ok()
			for i := range persistentBuffer {
				wantEvent(t, w, Event{Type: EventNodeDataChanged, Path: fmt.Sprintf("/t/%d", i)})
			}
			// Until the consumer has read this event, none is queued after it: the consumer
			// will read again.
			more <- 1
			synctest.Wait()
			wantEvent(t, w, Event{Type: EventNone, Path: "/t", Err: ErrEventsMissed})
			wantQuiet(t, w)
			more <- 1
			synctest.Wait()
			wantEvent(t, w, Event{Type: EventNodeDataChanged, Path: "/t/0"})
		}
		more <- 5 * persistentBuffer
		synctest.Wait()
		c.Close() // there is room for the last event, too
		n := 0
		var last, before Event
		for e := range w.C {
			n, before, last = n+1, last, e
		}
		if n != persistentBuffer+2 || !errors.Is(before.Err, ErrEventsMissed) || !errors.Is(last.Err, ErrClosed) {
			t.Errorf("%d events, the last two %+v, %+v", n, before, last)
		}
	})
}

func TestPersistentWatchesAreRestoredFirstAndToldThatTheyMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
				p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
				p.expect(zkproto.OpGetChildren2, nil, &zkproto.Children2Response{})
				p.expect(zkproto.OpGetData, nil, &zkproto.GetDataResponse{})
				p.event(EventNodeDataChanged, "/n")
			},
			func(p *peer) {
				time.Sleep(time.Second)
				p.accept(7, 10*time.Second)
				// A server before 3.9 keeps one mode per path: the last.
				var one, children zkproto.SetWatchesRequest
				var two zkproto.SetWatches2Request
				p.expect(zkproto.OpSetWatches, &one, nil)
				p.expect(zkproto.OpSetWatches2, &two, nil)
				p.expect(zkproto.OpSetWatches, &children, nil)
				if fmt.Sprint(one) != "{5 [/t] [] []}" || fmt.Sprint(two) != "{{5 [] [] []} [/n] [/t]}" || fmt.Sprint(children) != "{5 [] [] [/t]}" {
					t.Errorf("restored %v, %v, %v", one, two, children)
				}
				p.serve()
			})
		n, tree := mustWatch(t, c, "/n", WatchPersistent), mustWatch(t, c, "/t", WatchPersistentRecursive)
		if _, _, _, err := c.ChildrenW(t.Context(), "/t"); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := c.GetW(t.Context(), "/t"); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, n, Event{Type: EventNodeDataChanged, Path: "/n"})
		wantQuiet(t, n) // missed changes are known once it is armed again, not before
		if _, ok, err := c.Exists(t.Context(), "/b"); !ok || err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
		wantEvent(t, n, Event{Type: EventNone, Path: "/n", Err: ErrEventsMissed})
		wantEvent(t, tree, Event{Type: EventNone, Path: "/t", Err: ErrEventsMissed})
		wantQuiet(t, n)
	})
}

// Registrations in several requests are relative to the zxid before the first. The answer to
// the first must not make the others miss events.
func TestBreakBetweenTwoPartsOfTheRestorationLosesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var two zkproto.SetWatches2Request
		var children zkproto.SetWatchesRequest
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
				p.expect(zkproto.OpGetChildren2, nil, &zkproto.Children2Response{})
			},
			func(p *peer) {
				p.accept(7, 10*time.Second)
				h, _ := p.request()
				p.answer(h.Xid, 9, 0, nil)
			},
			func(p *peer) {
				if req := p.accept(7, 10*time.Second); req.LastZxidSeen != 9 {
					t.Errorf("resumed with zxid %d; want 9", req.LastZxidSeen)
				}
				p.expect(zkproto.OpSetWatches2, &two, nil)
				p.expect(zkproto.OpSetWatches, &children, nil)
				p.serve()
			})
		mustWatch(t, c, "/t", WatchPersistentRecursive)
		if _, _, _, err := c.ChildrenW(t.Context(), "/t"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok, err := c.Exists(t.Context(), "/b"); !ok || err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
		if fmt.Sprint(two) != "{{5 [] [] []} [] [/t]}" || fmt.Sprint(children) != "{5 [] [] [/t]}" {
			t.Errorf("restored %v, %v", two, children)
		}
	})
}

func TestStoppedPersistentWatchIsRemovedAtTheServerWhenNobodyNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan string, 100)
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			for {
				h, r := p.request()
				switch h.Op {
				case 0:
					return
				case zkproto.OpAddWatch:
					p.answer(h.Xid, 5, 0, &zkproto.ErrorResponse{})
				case zkproto.OpGetData:
					var m zkproto.ReadRequest
					m.Decode(r)
					seen <- fmt.Sprintf("%+v", m)
					p.answer(h.Xid, 5, 0, &zkproto.GetDataResponse{})
				case zkproto.OpRemoveWatches:
					var m zkproto.RemoveWatchesRequest
					m.Decode(r)
					seen <- fmt.Sprintf("%+v", m)
					p.answer(h.Xid, 5, 0, nil)
				case zkproto.OpSetWatches:
					var m zkproto.SetWatchesRequest
					m.Decode(r)
					seen <- fmt.Sprintf("%+v", m)
					p.answer(h.Xid, 5, 0, nil)
				default:
					p.answer(h.Xid, 5, 0, nil)
				}
			}
		})
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			select {
			case got = <-seen:
			default:
			}
			if got != want {
				t.Errorf("the server got %q; want %q", got, want)
			}
		}
		a, b := mustWatch(t, c, "/n", WatchPersistent), mustWatch(t, c, "/n", WatchPersistent)
		_, _, w, err := c.GetW(t.Context(), "/n")
		if err != nil {
			t.Fatal(err)
		}
		want("{Path:/n Watch:false}") // true would make it a one-shot watch
		a.Stop()
		want("")
		a.Stop()
		want("")
		b.Stop()
		want("{Path:/n Kind:3}")
		want("{RelativeZxid:5 Data:[/n] Exist:[] Child:[]}")
		w.Stop()
		want("{Path:/n Kind:2}")
		if _, _, _, err = c.GetW(t.Context(), "/n"); err != nil {
			t.Fatal(err)
		}
		want("{Path:/n Watch:true}")
		for _, w := range []*PersistentWatch{a, b} {
			if e, open := <-w.C; open {
				t.Errorf("after Stop: %+v; want no event", e)
			}
		}
	})
}

// Reads come just before the removal of a persistent watch, and the server removes it before it answers
// them. Their watches are removed with it.
func TestReadsUnderWayWhenAPersistentWatchStopsGetTheirOwnWatch(t *testing.T) {
	for _, tt := range []struct {
		mode  WatchMode
		watch bool // whether the read sets a watch
	}{{WatchPersistent, false}, {WatchPersistentRecursive, true}} {
		synctest.Test(t, func(t *testing.T) {
			stopped := make(chan bool)
			c := dialTest(t, 10*time.Second, func(p *peer) {
				p.accept(7, 10*time.Second)
				p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
				h, r := p.request()
				var read zkproto.ReadRequest
				read.Decode(r)
				if h.Op != zkproto.OpGetChildren2 || read.Watch != tt.watch {
					t.Errorf("mode %d: got %v %+v", tt.mode, h.Op, read)
				}
				stopped <- true
				p.expectOnly(zkproto.OpRemoveWatches, func(xid int32) {
					p.answer(h.Xid, 5, 0, &zkproto.Children2Response{})
					p.answer(xid, 5, 0, nil)
				})
				var m zkproto.SetWatchesRequest
				p.expect(zkproto.OpSetWatches, &m, nil)
				if fmt.Sprint(m) != "{5 [] [] [/n]}" {
					t.Errorf("mode %d: set watches %v", tt.mode, m)
				}
				p.event(EventNodeChildrenChanged, "/n")
				p.serve()
			})
			p := mustWatch(t, c, "/n", tt.mode)
			go func() {
				<-stopped
				p.Stop()
			}()
			_, _, w, err := c.ChildrenW(t.Context(), "/n")
			if err != nil {
				t.Fatal(err)
			}
			if e := <-w.C; e.Type != EventNodeChildrenChanged {
				t.Errorf("event %+v", e)
			}
		})
	}
}

// expectOnly reads the next request, checks that it is op, and leaves the answer to f.
func (p *peer) expectOnly(op zkproto.Op, f func(xid int32)) {
	h, _ := p.request()
	if h.Op != op {
		p.t.Errorf("got %v; want %v", h.Op, op)
	}
	f(h.Xid)
}

func TestCancelledAddWatchLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removed := make(chan zkproto.RemoveWatchesRequest, 1)
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			h, _ := p.request()
			time.Sleep(time.Second)
			p.answer(h.Xid, 5, 0, &zkproto.ErrorResponse{})
			var m zkproto.RemoveWatchesRequest
			p.expect(zkproto.OpRemoveWatches, &m, nil)
			removed <- m
			p.serve()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := c.AddWatch(ctx, "/n", WatchPersistent)
		wantErr(t, err, context.DeadlineExceeded)
		if m := <-removed; m.Path != "/n" || m.Kind != zkproto.WatchAny {
			t.Errorf("removed %+v", m)
		}
		synctest.Wait()
		if requests, watches := c.Left(); requests != 0 || watches != 0 {
			t.Errorf("%d requests and %d watches are left", requests, watches)
		}
	})
}

func TestServerThatDoesNotKnowAddWatchCostsTheConnectionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				h, _ := p.request()
				p.answer(h.Xid, -1, zkproto.CodeUnimplemented, nil)
			},
			func(p *peer) {
				p.accept(7, 10*time.Second)
				p.serve()
			})
		s := mustSession(t, c)
		_, err := c.AddWatch(t.Context(), "/n", WatchPersistent)
		wantErr(t, err, ErrUnimplemented)
		if SafeToRetry(err) || MayHaveHappened(err) {
			t.Errorf("SafeToRetry %v, MayHaveHappened %v of %v", SafeToRetry(err), MayHaveHappened(err), err)
		}
		synctest.Wait() // until the connection is broken
		if _, ok, err := s.Exists(t.Context(), "/a"); !ok || err != nil {
			t.Errorf("the session afterwards: %v, %v", ok, err)
		}
		if requests, watches := c.Left(); requests != 0 || watches != 0 {
			t.Errorf("%d requests and %d watches are left", requests, watches)
		}
	})
}

func TestPersistentWatchEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
			},
			func(p *peer) {
				p.accept(0, 0)
				p.frame()
			},
			func(p *peer) {
				p.accept(8, 10*time.Second)
				p.serve()
			})
		w := mustWatch(t, c, "/n", WatchPersistent)
		wantEvent(t, w, Event{Type: EventNone, Path: "/n", Err: ErrSessionExpired})
		if e, open := <-w.C; open {
			t.Errorf("after the end: %+v; want no event", e)
		}
		w.Stop()
		if _, ok, err := c.Exists(t.Context(), "/a"); !ok || err != nil {
			t.Errorf("in the next session: %v, %v", ok, err)
		}
	})
}

func TestEventsReachTheWatchesThatTheyConcern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan Event)
		peers := dialPeers(t, func(p *peer) {
			p.accept(7, 10*time.Second)
			for range 5 {
				p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
			}
			go func() {
				for e := range events {
					p.event(e.Type, e.Path)
				}
			}()
			p.serve()
		})
		c, err := Dial(t.Context(), Config{Servers: []string{"test:1"}, SessionTimeout: 10 * time.Second, Chroot: "/app", Lease: LeasePing, Dial: peers})
		if err != nil {
			t.Fatal(err)
		}
		defer close(events)
		defer c.Close()
		watches := []*PersistentWatch{
			mustWatch(t, c, "/", WatchPersistentRecursive), mustWatch(t, c, "/a", WatchPersistent), mustWatch(t, c, "/b", WatchPersistentRecursive),
			mustWatch(t, c, "/b/c", WatchPersistentRecursive), mustWatch(t, c, "/b/c/d", WatchPersistent),
		}
		for _, tt := range []struct {
			typ    EventType
			path   string // including the chroot
			reach  [5]bool
			asPath string
		}{
			{EventNodeDataChanged, "/app", [5]bool{true}, "/"},
			{EventNodeCreated, "/app/a", [5]bool{true, true}, "/a"},
			{EventNodeChildrenChanged, "/app/a", [5]bool{false, true}, "/a"},
			{EventNodeCreated, "/app/a/x", [5]bool{true}, "/a/x"},
			{EventNodeDeleted, "/app/b", [5]bool{true, false, true}, "/b"},
			{EventNodeDeleted, "/app/b/c/d", [5]bool{true, false, true, true, true}, "/b/c/d"},
			{EventNodeCreated, "/app/b/cc", [5]bool{true, false, true}, "/b/cc"},
			{EventNodeCreated, "/other", [5]bool{}, ""},
			{EventNodeCreated, "", [5]bool{}, ""},
			{EventNodeCreated, "nonsense", [5]bool{}, ""},
		} {
			events <- Event{Type: tt.typ, Path: tt.path}
			synctest.Wait()
			for i, w := range watches {
				if tt.reach[i] {
					wantEvent(t, w, Event{Type: tt.typ, Path: tt.asPath})
				}
				wantQuiet(t, w)
			}
		}
	})
}

// ZOOKEEPER-706: the requests that restore watches are small enough for a server.
func TestPersistentWatchesAreRestoredInPieces(t *testing.T) {
	table := newWatchTable()
	const n = 5000
	for i := range n {
		w := &PersistentWatch{node: fmt.Sprintf("/a/rather/long/path/so/that/it/takes/some/room/%060d", i), mode: WatchMode(i % 2)}
		table.persistent.arming(w)
		table.persistent[w.node].armed = append(table.persistent[w.node].armed, w)
		table.persistent.doneArming(w)
	}
	reqs := table.registrations(9, "")
	restored := make(map[string]bool)
	for _, r := range reqs {
		if r.op != zkproto.OpSetWatches2 || len(r.frame) > maxSetWatches+200 {
			t.Errorf("%v of %d bytes; want at most %d", r.op, len(r.frame), maxSetWatches)
		}
		for node := range r.covers {
			restored[node] = true
		}
	}
	if len(restored) != n || len(reqs) < 4 {
		t.Errorf("%d requests restore %d watches; want %d", len(reqs), len(restored), n)
	}
}

func TestOneModeOfPersistentWatchPerNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
			p.expect(zkproto.OpRemoveWatches, nil, nil)
			p.expect(zkproto.OpAddWatch, nil, &zkproto.ErrorResponse{})
			p.serve()
		})
		w := mustWatch(t, c, "/n", WatchPersistent)
		_, err := c.AddWatch(t.Context(), "/n", WatchPersistentRecursive)
		wantErr(t, err, ErrBadArguments)
		_, err = c.AddWatch(t.Context(), "/n", 7)
		wantErr(t, err, ErrBadArguments)
		_, err = c.AddWatch(t.Context(), "n", WatchPersistent)
		wantErr(t, err, ErrInvalidPath)
		w.Stop()
		mustWatch(t, c, "/n", WatchPersistentRecursive)
	})
}
