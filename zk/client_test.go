package zk_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

func dial(t *testing.T, cfg zk.Config) *zk.Client {
	t.Helper()
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func create(t *testing.T, c *zk.Client, path string) {
	t.Helper()
	if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v; want %v", got, want)
	}
}

func wantEvent(t *testing.T, w *zk.Watch, typ zk.EventType, path string) {
	t.Helper()
	select {
	case ev := <-w.C:
		if ev.Type != typ || ev.Path != path || ev.Err != nil {
			t.Errorf("got event %+v; want %v %s", ev, typ, path)
		}
	case <-time.After(time.Minute): // in the bubble's time
		t.Errorf("no event; want %v %s", typ, path)
	}
}

func TestOperations(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := dial(t, srv.Config())

		path, stat, err := c.Create(ctx, "/a", []byte("one"), zk.Persistent)
		if path != "/a" || err != nil || stat.Czxid == 0 || stat.Version != 0 {
			t.Fatalf("create: %q %+v %v", path, stat, err)
		}
		_, _, err = c.Create(ctx, "/a", nil, zk.Persistent)
		wantErr(t, err, zk.ErrNodeExists)
		wantErr(t, err, fs.ErrExist)
		_, _, err = c.Create(ctx, "/none/a", nil, zk.Persistent)
		wantErr(t, err, zk.ErrNoNode)
		wantErr(t, err, fs.ErrNotExist)

		data, stat, err := c.Get(ctx, "/a")
		if string(data) != "one" || err != nil {
			t.Errorf("get: %q %v", data, err)
		}
		if _, err = c.Set(ctx, "/a", []byte("two"), stat.Version+1); !errors.Is(err, zk.ErrBadVersion) {
			t.Errorf("set with another version: %v", err)
		}
		if stat, err = c.Set(ctx, "/a", []byte{}, stat.Version); err != nil || stat.Version != 1 {
			t.Errorf("set: %+v %v", stat, err)
		}
		if data, _, err = c.Get(ctx, "/a"); data == nil || len(data) != 0 || err != nil {
			t.Errorf("empty data came back as %v, %v", data, err)
		}
		if _, err = c.Set(ctx, "/a", nil, zk.AnyVersion); err != nil {
			t.Error(err)
		}
		if data, _, err = c.Get(ctx, "/a"); data != nil || err != nil {
			t.Errorf("null data came back as %v, %v", data, err)
		}

		if _, ok, err := c.Exists(ctx, "/none"); ok || err != nil {
			t.Errorf("exists: %v %v", ok, err)
		}
		first, _, err := c.Create(ctx, "/a/n-", nil, zk.PersistentSequential)
		second, own, err2 := c.Create(ctx, "/a/n-", nil, zk.EphemeralSequential)
		if first != "/a/n-0000000000" || second != "/a/n-0000000001" || err != nil || err2 != nil {
			t.Errorf("sequential: %q %q %v %v", first, second, err, err2)
		}
		if s, _ := c.Session(ctx); own.EphemeralOwner != s.ID() {
			t.Errorf("ephemeral owner %x; the session is %x", own.EphemeralOwner, s.ID())
		}
		names, stat, err := c.Children(ctx, "/a")
		slices.Sort(names)
		if !slices.Equal(names, []string{"n-0000000000", "n-0000000001"}) || stat.NumChildren != 2 || err != nil {
			t.Errorf("children: %v %+v %v", names, stat, err)
		}
		wantErr(t, c.Delete(ctx, "/a", zk.AnyVersion), zk.ErrNotEmpty)
		wantErr(t, c.Delete(ctx, second, 7), zk.ErrBadVersion)
		_, _, err = c.Create(ctx, second+"/x", nil, zk.Persistent)
		wantErr(t, err, zk.ErrNoChildrenForEphemerals)
		for _, p := range []string{first, second, "/a"} {
			if err := c.Delete(ctx, p, zk.AnyVersion); err != nil {
				t.Error(err)
			}
		}
		wantErr(t, c.Delete(ctx, "/a", zk.AnyVersion), zk.ErrNoNode)
		if err := c.Sync(ctx, "/whatever"); err != nil {
			t.Error(err)
		}
		if _, _, err := c.Create(ctx, "/c", nil, zk.Container); err != nil {
			t.Error(err)
		}
		if _, err := c.Set(ctx, "/c", bytes.Repeat([]byte("x"), 1<<19), zk.AnyVersion); err != nil {
			t.Errorf("half a megabyte: %v", err)
		}
	})
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		_, _, err := dial(t, srv.Config()).Get(t.Context(), "/none")
		const want = "zk: get /none: node does not exist"
		if err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
		if zk.MayHaveHappened(err) {
			t.Error("a refused request was executed")
		}
	})
}

func TestMultiIsAllOrNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := dial(t, srv.Config())
		create(t, c, "/a")
		results, err := c.Multi(ctx, zk.CheckOp("/a", 0), zk.CreateOp("/a/n-", []byte("x"), zk.PersistentSequential), zk.SetOp("/a", []byte("y"), 0), zk.DeleteOp("/a/n-0000000000", 0))
		if err != nil || len(results) != 4 || results[1].Path != "/a/n-0000000000" || results[2].Stat.Version != 1 {
			t.Fatalf("%+v %v", results, err)
		}
		results, err = c.Multi(ctx, zk.CreateOp("/b", nil, zk.Persistent), zk.CheckOp("/a", 0), zk.CreateOp("/c", nil, zk.Persistent))
		wantErr(t, err, zk.ErrBadVersion)
		var e *zk.Error
		if !errors.As(err, &e) || e.Path != "/a" || e.Op != "check" {
			t.Errorf("the error does not name the culprit: %v", err)
		}
		if len(results) != 3 || results[0].Err != nil || !errors.Is(results[2].Err, zk.ErrNotTried) {
			t.Errorf("%+v", results)
		}
		if _, ok, _ := c.Exists(ctx, "/b"); ok {
			t.Error("half of a failed transaction was executed")
		}
	})
}

func TestPipelineAnswersInOrderEachForItself(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv.Config())
		r, err := c.Pipeline(t.Context(),
			zk.CreateOp("/a", []byte("1"), zk.Persistent), zk.GetOp("/a"), zk.DeleteOp("/none", 0),
			zk.CreateOp("/a/b", nil, zk.Ephemeral), zk.ChildrenOp("/a"), zk.SetOp("/a", []byte("2"), 0), zk.ExistsOp("/a"), zk.ExistsOp("/none"))
		wantErr(t, err, zk.ErrNoNode)
		if string(r[1].Data) != "1" || !errors.Is(r[2].Err, zk.ErrNoNode) || len(r[4].Children) != 1 || r[6].Stat.Version != 1 || !errors.Is(r[7].Err, zk.ErrNoNode) {
			t.Errorf("%+v", r)
		}
		for _, i := range []int{0, 1, 3, 4, 5, 6} {
			if r[i].Err != nil {
				t.Errorf("operation %d: %v", i, r[i].Err)
			}
		}
	})
}

func TestWatchesFireOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c, other := dial(t, srv.Config()), dial(t, srv.Config())
		_, ok, born, err := c.ExistsW(ctx, "/a")
		if ok || err != nil {
			t.Fatal(ok, err)
		}
		create(t, other, "/a")
		wantEvent(t, born, zk.EventNodeCreated, "/a")

		_, _, changed, err := c.GetW(ctx, "/a")
		if err != nil {
			t.Fatal(err)
		}
		_, _, children, err := c.ChildrenW(ctx, "/a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Set(ctx, "/a", nil, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, changed, zk.EventNodeDataChanged, "/a")
		create(t, other, "/a/b")
		wantEvent(t, children, zk.EventNodeChildrenChanged, "/a")

		_, _, gone, err := c.GetW(ctx, "/a/b")
		if err != nil {
			t.Fatal(err)
		}
		_, _, goneToo, err := c.ExistsW(ctx, "/a/b")
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Delete(ctx, "/a/b", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, gone, zk.EventNodeDeleted, "/a/b")
		wantEvent(t, goneToo, zk.EventNodeDeleted, "/a/b")
		if _, _, w, err := c.GetW(ctx, "/a/b"); !errors.Is(err, zk.ErrNoNode) || w != nil {
			t.Errorf("a watch %v, %v on a missing node", w, err)
		}
		if _, watches := c.Left(); watches != 0 {
			t.Errorf("%d watches left", watches)
		}
	})
}

// On reconnect, the client gets the events it missed before any read of its own.
func TestWatchesSurviveAReconnect(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c, other := dial(t, srv.Config()), dial(t, srv.Config())
		for _, p := range []string{"/changed", "/deleted", "/kept"} {
			create(t, other, p)
		}
		_, _, changed, _ := c.GetW(ctx, "/changed")
		_, _, deleted, _ := c.GetW(ctx, "/deleted")
		_, _, kept, _ := c.GetW(ctx, "/kept")
		_, _, children, _ := c.ChildrenW(ctx, "/kept")
		_, _, born, _ := c.ExistsW(ctx, "/born")
		c.Sync(ctx, "/")

		var away atomic.Bool
		away.Store(true)
		srv.CloseClientConnections()
		// The other client may be back first or not: either way the events must come.
		if _, err := other.Set(ctx, "/changed", nil, zk.AnyVersion); err != nil && !errors.Is(err, zk.ErrConnectionLoss) {
			t.Fatal(err)
		}
		for {
			if _, err := other.Multi(ctx, zk.SetOp("/changed", nil, zk.AnyVersion), zk.DeleteOp("/deleted", zk.AnyVersion), zk.CreateOp("/born", nil, zk.Persistent)); err == nil {
				break
			}
		}
		wantEvent(t, changed, zk.EventNodeDataChanged, "/changed")
		wantEvent(t, deleted, zk.EventNodeDeleted, "/deleted")
		wantEvent(t, born, zk.EventNodeCreated, "/born")
		create(t, other, "/kept/x")
		wantEvent(t, children, zk.EventNodeChildrenChanged, "/kept")
		if _, err := other.Set(ctx, "/kept", nil, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, kept, zk.EventNodeDataChanged, "/kept")
	})
}

// A read sent after a change is not answered before the change's event is delivered.
func TestEventComesBeforeTheReadThatShowsTheChange(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c, other := dial(t, srv.Config()), dial(t, srv.Config())
		create(t, other, "/a")
		for i := range 200 {
			_, stat, w, err := c.GetW(ctx, "/a")
			if err != nil {
				t.Fatal(err)
			}
			go other.Set(ctx, "/a", nil, zk.AnyVersion)
			for {
				_, now, err := c.Get(ctx, "/a")
				if err != nil {
					t.Fatal(err)
				}
				if now.Version == stat.Version {
					continue
				}
				select {
				case <-w.C:
				default:
					t.Fatalf("round %d: the change was seen before its event", i)
				}
				break
			}
		}
	})
}

func TestStoppedWatchIsRemovedAtTheServerWhenNobodyNeedsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := dial(t, srv.Config())
		create(t, c, "/a")
		var removals atomic.Int64
		srv.Intercept(zkproto.OpRemoveWatches, func(string) zktest.Action {
			removals.Add(1)
			return zktest.Pass
		})
		_, _, first, _ := c.GetW(ctx, "/a")
		_, _, second, _ := c.ExistsW(ctx, "/a")
		first.Stop()
		first.Stop()
		c.Sync(ctx, "/")
		if n := removals.Load(); n != 0 {
			t.Errorf("the watch was removed at the server %d times while another call still needs it", n)
		}
		if _, err := c.Set(ctx, "/a", nil, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, second, zk.EventNodeDataChanged, "/a")
		second.Stop() // it fired, so there is nothing to remove
		_, _, third, _ := c.GetW(ctx, "/a")
		third.Stop()
		c.Sync(ctx, "/")
		if n := removals.Load(); n != 1 {
			t.Errorf("the watch was removed at the server %d times; want 1", n)
		}
		select {
		case ev := <-first.C:
			t.Errorf("a stopped watch got %+v", ev)
		default:
		}
	})
}

// A call is abandoned, and its watch is armed later. The watch must be removed. But the removal must
// not hit a watch that is being armed for another call.
func TestWatchesOfCallsInFlight(t *testing.T) {
	t.Run("given up", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := dial(t, srv.Config())
			create(t, c, "/a")
			var removals atomic.Int64
			srv.Intercept(zkproto.OpRemoveWatches, func(string) zktest.Action {
				removals.Add(1)
				return zktest.Pass
			})
			resume := srv.Stall()
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, _, _, err := c.GetW(ctx, "/a")
				failed <- err
			}()
			synctest.Wait()
			cancel()
			wantErr(t, <-failed, context.Canceled)
			resume()
			c.Sync(t.Context(), "/")
			c.Sync(t.Context(), "/")
			if n := removals.Load(); n != 1 {
				t.Errorf("the watch was removed at the server %d times; want 1", n)
			}
		})
	})
	t.Run("needed by another", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c, other := dial(t, srv.Config()), dial(t, srv.Config())
			create(t, c, "/a")
			_, _, first, err := c.GetW(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			resume := srv.Stall()
			second := make(chan *zk.Watch)
			go func() {
				_, _, w, _ := c.GetW(t.Context(), "/a")
				second <- w
			}()
			synctest.Wait()
			first.Stop()
			resume()
			w := <-second
			c.Sync(t.Context(), "/")
			if _, err := other.Set(t.Context(), "/a", nil, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			wantEvent(t, w, zk.EventNodeDataChanged, "/a")
		})
	})
}

func TestLostRepliesAreToldFromLostRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := dial(t, srv.Config())
		for _, fault := range []zktest.Action{zktest.DropReply, zktest.DropRequest} {
			srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action { return fault })
			_, _, err := c.Create(ctx, "/a", nil, zk.Persistent)
			wantErr(t, err, zk.ErrConnectionLoss)
			if !zk.MayHaveHappened(err) {
				t.Errorf("MayHaveHappened(%v) = false", err)
			}
			_, ok, err := c.Exists(ctx, "/a")
			if err != nil || ok != (fault == zktest.DropReply) {
				t.Errorf("%v: the node exists: %v, %v", fault, ok, err)
			}
			c.Delete(ctx, "/a", zk.AnyVersion)
		}
	})
}

func TestSessionOutlivesConnectionsAndRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		cfg := srv.Config()
		cfg.SessionTimeout = 10 * time.Second
		c := dial(t, cfg)
		s, err := c.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Create(ctx, "/a", nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if i%2 == 0 {
				srv.CloseClientConnections()
			} else {
				srv.Restart()
			}
			time.Sleep(7 * time.Second)
		}
		if stat, ok, err := s.Exists(ctx, "/a"); !ok || err != nil || stat.EphemeralOwner != s.ID() {
			t.Errorf("after outages of every kind: %+v %v %v", stat, ok, err)
		}
	})
}

func TestCloseEndsTheSessionAtTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := dial(t, srv.Config()), dial(t, srv.Config())
		if _, _, err := c.Create(t.Context(), "/a", nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		c.Close()
		c.Close()
		if _, ok, err := other.Exists(t.Context(), "/a"); ok || err != nil {
			t.Errorf("the ephemeral node still exists after Close: %v, %v", ok, err)
		}
	})
}

func TestExpiryAtTheServerIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c := dial(t, srv.Config())
		s, _ := c.Session(ctx)
		_, _, w, _ := c.ExistsW(ctx, "/a")
		srv.Expire(s.ID())
		<-s.Context().Done()
		wantErr(t, context.Cause(s.Context()), zk.ErrSessionExpired)
		wantErr(t, (<-w.C).Err, zk.ErrSessionExpired)
		if _, _, err := s.Get(ctx, "/"); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("on the old session: %v", err)
		}
		if _, _, err := c.Get(ctx, "/"); err != nil {
			t.Errorf("on the client: %v", err)
		}
	})
}

func TestChrootIsInvisible(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		cfg := srv.Config()
		cfg.Chroot, cfg.CreateChroot = "/app/x", true
		c, outside := dial(t, cfg), dial(t, srv.Config())
		again := dial(t, cfg)
		path, _, err := c.Create(ctx, "/a-", nil, zk.PersistentSequential)
		if path != "/a-0000000000" || err != nil {
			t.Fatal(path, err)
		}
		if _, ok, err := outside.Exists(ctx, "/app/x"+path); !ok || err != nil {
			t.Errorf("seen from outside: %v, %v", ok, err)
		}
		_, _, w, err := again.GetW(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Multi(ctx, zk.SetOp(path, nil, 0), zk.CreateOp("/b", nil, zk.Ephemeral))
		if err != nil || r[1].Path != "/b" {
			t.Errorf("%+v %v", r, err)
		}
		wantEvent(t, w, zk.EventNodeDataChanged, path)
		if names, _, err := c.Children(ctx, "/"); err != nil || len(names) != 2 {
			t.Errorf("children of the root: %v, %v", names, err)
		}
	})
}

// However a call ends, it leaves nothing behind in the client.
func TestCancelledCallsLeaveNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv.Config())
		create(t, c, "/a")
		rng := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		srv.Intercept(zkproto.OpGetData, func(string) zktest.Action {
			mu.Lock()
			defer mu.Unlock()
			return []zktest.Action{zktest.Pass, zktest.Pass, zktest.DropReply, zktest.DropRequest}[rng.IntN(4)]
		})
		var wg sync.WaitGroup
		for range 10_000 {
			mu.Lock()
			d := time.Duration(rng.IntN(100)) * time.Millisecond
			mu.Unlock()
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				if _, _, w, err := c.GetW(ctx, "/a"); err == nil {
					w.Stop()
				}
			})
		}
		wg.Wait()
		srv.Intercept(zkproto.OpGetData, nil)
		if err := c.Sync(t.Context(), "/"); err != nil && !errors.Is(err, zk.ErrConnectionLoss) {
			t.Fatal(err)
		}
		for c.Sync(t.Context(), "/") != nil {
		}
		synctest.Wait()
		if requests, watches := c.Left(); requests != 0 || watches != 0 {
			t.Errorf("%d requests and %d watches left", requests, watches)
		}
	})
}
