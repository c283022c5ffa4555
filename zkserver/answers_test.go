package zkserver

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/zkproto"
)

func (c *rawClient) children(path string) []string {
	c.t.Helper()
	a := c.call(zkproto.OpGetChildren, &zkproto.ReadRequest{Path: path})
	var m zkproto.ChildrenResponse
	if m.Decode(a.body); a.Err != zkproto.CodeOK || a.body.Complete() != nil {
		c.t.Fatalf("children of %s: %v", path, a.Err)
	}
	return m.Children
}

// A client that reads an unchanged list twice gets the same order.
func TestChildrenHaveOneOrderWhileTheNodeIsUnchanged(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.create("/p", 0)
		for i := range 50 {
			c.create(fmt.Sprintf("/p/%d", i), 0)
		}
		for _, i := range []int{0, 17, 49} {
			c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: fmt.Sprintf("/p/%d", i), Version: -1})
		}
		want := c.children("/p")
		if len(want) != 47 {
			t.Fatalf("%d children; want 47", len(want))
		}
		assert := func(when string) {
			t.Helper()
			for range 50 {
				if got := c.children("/p"); !slices.Equal(got, want) {
					t.Fatalf("%s: the order changed:\n%v\n%v", when, got, want)
				}
			}
		}
		assert("read again")
		read := zkproto.MultiReadOp{Op: zkproto.OpGetChildren, Path: "/p"}
		a := c.call(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: []zkproto.MultiReadOp{read, read}})
		var m zkproto.MultiReadResponse
		m.Decode(a.body)
		for i, r := range m.Results {
			if !slices.Equal(r.Children, want) {
				t.Errorf("read %d of a multi-read: the order changed:\n%v\n%v", i, r.Children, want)
			}
		}
		// Other changes do not change the order.
		c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/p", Data: []byte("x"), Version: -1})
		c.create("/p/3/below", 0)
		assert("after other changes")
		c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
			{Op: zkproto.OpCreate, Path: "/p/new", ACL: openACL}, {Op: zkproto.OpDelete, Path: "/p/5", Version: -1},
			{Op: zkproto.OpDelete, Path: "/p/48", Version: -1}, {Op: zkproto.OpDelete, Path: "/p/new", Version: -1},
			{Op: zkproto.OpCreate, Path: "/p/5", ACL: openACL}, {Op: zkproto.OpCheck, Path: "/none", Version: -1},
		}})
		assert("after a transaction that failed")
	})
}

func TestEphemeralsHaveOneOrderWhileThereAreNoOthers(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for i := range 50 {
			c.create(fmt.Sprintf("/e%d", i), zkproto.FlagEphemeral)
		}
		list := func() []string {
			a := c.call(zkproto.OpGetEphemerals, &zkproto.GetEphemeralsRequest{Prefix: "/e"})
			var m zkproto.GetEphemeralsResponse
			m.Decode(a.body)
			return m.Paths
		}
		want := list()
		c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
			{Op: zkproto.OpDelete, Path: "/e5", Version: -1}, {Op: zkproto.OpDelete, Path: "/e7", Version: -1}, {Op: zkproto.OpCheck, Path: "/none", Version: -1},
		}})
		if got := list(); len(got) != 50 || !slices.Equal(got, want) {
			t.Errorf("another order:\n%v\n%v", got, want)
		}
	})
}

// Only the superuser may set quotas, unless the operator allows it for all clients.
func TestQuotasAreTheSuperusersUnlessConfigured(t *testing.T) {
	const super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" // super:test
	for _, tt := range []struct {
		name  string
		cfg   Config
		login string
		want  zkproto.Code
	}{
		{"by default", Config{}, "me:pw", zkproto.CodeNoAuth},
		{"the superuser", Config{SuperDigest: super}, "super:test", zkproto.CodeOK},
		{"another user", Config{SuperDigest: super}, "super:guess", zkproto.CodeNoAuth},
		{"writable", Config{QuotaWritable: true}, "me:pw", zkproto.CodeOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				c.auth("digest", tt.login)
				if a := c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/zookeeper/quota/a", ACL: openACL}); a.Err != tt.want {
					t.Errorf("got %v; want %v", a.Err, tt.want)
				}
			})
		})
	}
}

func TestNodesWithATimeToLiveCanBeSwitchedOff(t *testing.T) {
	memory := NewMemory()
	create := func(c *rawClient, path string, ttl int64) zkproto.Code {
		return c.call(zkproto.OpCreateTTL, &zkproto.CreateTTLRequest{Path: path, ACL: openACL, Flags: zkproto.FlagTTL, TTL: ttl}).Err
	}
	inBubble(t, Config{Memory: memory}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		if code := create(c, "/a", 90_000); code != zkproto.CodeOK {
			t.Errorf("with times to live enabled: %v", code)
		}
	})
	inBubble(t, Config{Memory: memory, NoTTLNodes: true, MaxSessionTimeout: time.Hour}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(time.Hour, nil)
		for ttl, what := range map[int64]string{1000: "switched off", 0: "a time that is wrong, too"} {
			if code := create(c, "/b", ttl); code != zkproto.CodeUnimplemented {
				t.Errorf("%s: %v; want %v", what, code, zkproto.CodeUnimplemented)
			}
		}
		ops := []zkproto.MultiOp{{Op: zkproto.OpCreateTTL, Path: "/b", ACL: openACL, Flags: zkproto.FlagTTL, TTL: 1000}}
		a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops})
		var m zkproto.MultiResponse
		if m.Decode(a.body); len(m.Results) != 1 || m.Results[0].Err != zkproto.CodeUnimplemented {
			t.Errorf("in a transaction: %+v", m)
		}
		c.create("/b", 0)
		// An older node keeps its time to live.
		if _, code := c.exists("/a", true); code != zkproto.CodeOK {
			t.Fatalf("after a restart: %v", code)
		}
		if e := c.event(); e.Type != zkproto.EventNodeDeleted {
			t.Errorf("got %v; want the node deleted", e)
		}
	})
}

func TestContainersAreLookedAtAsOftenAsConfigured(t *testing.T) {
	for _, tt := range []struct{ configured, within time.Duration }{{0, 61 * time.Second}, {100 * time.Millisecond, 200 * time.Millisecond}, {time.Hour, time.Hour + time.Second}} {
		t.Run(tt.configured.String(), func(t *testing.T) {
			inBubble(t, Config{ContainerCheckInterval: tt.configured, MaxSessionTimeout: 3 * time.Hour}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(2*time.Hour, nil)
				began := time.Now()
				c.call(zkproto.OpCreateContainer, &zkproto.CreateRequest{Path: "/c", ACL: openACL, Flags: zkproto.FlagContainer})
				c.create("/c/x", 0)
				c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/c/x", Version: -1})
				c.exists("/c", true)
				c.event()
				after := time.Since(began)
				if after > tt.within || after < tt.within*9/10-100*time.Millisecond {
					t.Errorf("removed after %v; want about %v", after, tt.within)
				}
			})
		})
	}
	for _, wrong := range []time.Duration{-1, time.Microsecond} {
		if err := (Config{ContainerCheckInterval: wrong}).Validate(); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}
