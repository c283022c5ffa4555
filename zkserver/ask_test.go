package zkserver

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

func TestQuestionsOnTheWire(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		c.connect(10*time.Second, nil)
		other.connect(10*time.Second, nil)
		c.create("/a", zkproto.FlagPersistent)
		c.create("/a/e", zkproto.FlagEphemeral)
		other.create("/a/other", zkproto.FlagEphemeral)
		ask := func(op zkproto.Op, m message, into interface{ Decode(*zkproto.Reader) }) zkproto.Code {
			t.Helper()
			a := c.call(op, m)
			if a.Err != zkproto.CodeOK {
				return a.Err
			}
			into.Decode(a.body)
			if err := a.body.Complete(); err != nil {
				t.Fatalf("%v: %v", op, err)
			}
			return a.Err
		}
		var paths zkproto.GetEphemeralsResponse
		if code := ask(zkproto.OpGetEphemerals, &zkproto.GetEphemeralsRequest{Prefix: "/a"}, &paths); code != zkproto.CodeOK || !slices.Equal(paths.Paths, []string{"/a/e"}) {
			t.Errorf("ephemerals: %v, %v", paths, code)
		}
		var number zkproto.GetAllChildrenNumberResponse
		if code := ask(zkproto.OpGetAllChildrenNumber, &zkproto.GetAllChildrenNumberRequest{Path: "/a"}, &number); code != zkproto.CodeOK || number.Total != 2 {
			t.Errorf("number of all children: %v, %v", number, code)
		}
		if code := ask(zkproto.OpGetAllChildrenNumber, &zkproto.GetAllChildrenNumberRequest{Path: "/none"}, &number); code != zkproto.CodeNoNode {
			t.Errorf("number of nothing's children: %v", code)
		}
		var reads zkproto.MultiReadResponse
		ops := []zkproto.MultiReadOp{
			{Op: zkproto.OpGetData, Path: "/a", Watch: true}, {Op: zkproto.OpGetData, Path: "/none"}, {Op: zkproto.OpGetChildren, Path: "/a"},
		}
		if code := ask(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: ops}, &reads); code != zkproto.CodeOK || len(reads.Results) != 3 {
			t.Fatalf("multi read: %+v, %v", reads, code)
		}
		r := reads.Results
		slices.Sort(r[2].Children)
		if string(r[0].Data) != "x" || r[0].Stat.NumChildren != 2 || r[1].Op != zkproto.OpError || r[1].Err != zkproto.CodeNoNode ||
			!slices.Equal(r[2].Children, []string{"e", "other"}) {
			t.Errorf("multi read: %+v", r)
		}
		// The reads set no watch, so no event comes before the answers.
		other.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1})
		c.call(zkproto.OpPing, nil)
		if a := c.call(zkproto.OpReconfig, &zkproto.ReconfigRequest{Leaving: "1", Version: -1}); a.Err != zkproto.CodeReconfigDisabled {
			t.Errorf("reconfig: %v", a.Err)
		}
	})
}

func TestMultiReadOfTooMuchIsRefused(t *testing.T) {
	s, l := serve(t, Config{})
	c := dialRaw(t, l)
	c.connect(10*time.Second, nil)
	c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/a", Data: make([]byte, 1<<19), ACL: openACL})
	m := &zkproto.MultiReadRequest{Ops: slices.Repeat([]zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/a"}}, 10000)}
	if a := c.call(zkproto.OpMultiRead, m); a.Err != zkproto.CodeMarshallingError {
		t.Errorf("5 GB: %v", a.Err)
	}
	if _, code := c.exists("/a", false); code != zkproto.CodeOK || s.Err() != nil {
		t.Errorf("afterwards: %v, %v", code, s.Err())
	}
}

func TestPersistentWatchesOnTheWire(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		session := c.connect(10*time.Second, nil)
		other.connect(10*time.Second, nil)
		a := c.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/a", Mode: zkproto.ModePersistentRecursive})
		var m zkproto.ErrorResponse
		if m.Decode(a.body); a.Err != zkproto.CodeOK || m.Err != zkproto.CodeOK || a.body.Complete() != nil {
			t.Fatalf("add watch: %+v, %+v", a, m)
		}
		check := func(kind int32, want zkproto.Code) {
			t.Helper()
			if a := c.call(zkproto.OpCheckWatches, &zkproto.RemoveWatchesRequest{Path: "/a", Kind: kind}); a.Err != want {
				t.Errorf("check of kind %d: %v; want %v", kind, a.Err, want)
			}
		}
		check(zkproto.WatchAny, zkproto.CodeOK)
		check(zkproto.WatchData, zkproto.CodeNoWatcher)
		other.create("/a", 0)
		other.create("/a/x", 0)
		for _, path := range []string{"/a", "/a/x"} {
			if e := c.event(); e.Type != zkproto.EventNodeCreated || e.Path != path {
				t.Errorf("got %+v; want the creation of %s", e, path)
			}
		}
		c.nc.Close()
		c = dial()
		c.connect(10*time.Second, session)
		check(zkproto.WatchAny, zkproto.CodeNoWatcher)
		c.call(zkproto.OpSetWatches2, &zkproto.SetWatches2Request{Persistent: []string{"/a"}, PersistentRecursive: []string{"/none"}})
		other.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a/x", Version: -1})
		if e := c.event(); e.Type != zkproto.EventNodeChildrenChanged || e.Path != "/a" {
			t.Errorf("got %+v; want the children of /a", e)
		}
		if a := c.call(zkproto.OpRemoveWatches, &zkproto.RemoveWatchesRequest{Path: "/a", Kind: zkproto.WatchAny}); a.Err != zkproto.CodeOK {
			t.Errorf("remove: %v", a.Err)
		}
		check(zkproto.WatchAny, zkproto.CodeNoWatcher)
	})
}

func TestNodesWithATTLGoAfterIt(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for path, ttl := range map[string]int64{"/minute": 60_000, "/hour": 3_600_000} {
			a := c.call(zkproto.OpCreateTTL, &zkproto.CreateTTLRequest{Path: path, ACL: openACL, Flags: zkproto.FlagTTL, TTL: ttl})
			var m zkproto.Create2Response
			if m.Decode(a.body); a.Err != zkproto.CodeOK || m.Path != path || m.Stat.Czxid != a.Zxid || a.body.Complete() != nil {
				t.Fatalf("create: %+v, %+v", a, m)
			}
		}
		for range 32 { // its pings keep the session alive
			time.Sleep(4 * time.Second)
			synctest.Wait()
			c.call(zkproto.OpPing, nil)
		}
		if _, code := c.exists("/minute", false); code != zkproto.CodeNoNode {
			t.Errorf("after two minutes: %v", code)
		}
		if _, code := c.exists("/hour", false); code != zkproto.CodeOK {
			t.Errorf("the other: %v", code)
		}
	})
}
