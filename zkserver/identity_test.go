package zkserver

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
)

func (c *rawClient) auth(scheme, auth string) answer {
	c.t.Helper()
	return c.call(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: scheme, Auth: []byte(auth)})
}

func (c *rawClient) whoAmI() []zkproto.ClientInfo {
	c.t.Helper()
	a := c.call(zkproto.OpWhoAmI, nil)
	var m zkproto.WhoAmIResponse
	m.Decode(a.body)
	if err := a.body.Complete(); err != nil || a.Err != zkproto.CodeOK {
		c.t.Fatalf("who am I: %v, %v", a.Err, err)
	}
	return m.Infos
}

func TestIdentitiesAddUpUntilTheConnectionEnds(t *testing.T) {
	_, l := serve(t, Config{})
	c := dialRaw(t, l)
	session := c.connect(10*time.Second, nil)
	address := zkproto.ClientInfo{Scheme: "ip", User: "127.0.0.1"}
	if got := c.whoAmI(); !slices.Equal(got, []zkproto.ClientInfo{address}) {
		t.Errorf("at first: %v", got)
	}
	for _, a := range []answer{c.auth("digest", "alice:secret"), c.auth("digest", "bob"), c.auth("digest", "alice:secret"), c.auth("ip", "")} {
		if a.Err != zkproto.CodeOK || a.Zxid != 0 || a.body.Remaining() != 0 {
			t.Errorf("%+v; want ok, zxid 0 and no record", a)
		}
	}
	if got := c.whoAmI(); !slices.Equal(got, []zkproto.ClientInfo{address, {Scheme: "digest", User: "alice"}, {Scheme: "digest", User: "bob"}}) {
		t.Errorf("in the end: %v", got)
	}
	next := dialRaw(t, l)
	next.connect(10*time.Second, session)
	if got := next.whoAmI(); !slices.Equal(got, []zkproto.ClientInfo{address}) {
		t.Errorf("on the session's next connection: %v", got)
	}
}

func TestUnixSocketsHaveNoAddress(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := dialRaw(t, listen(t, s, "unix", filepath.Join(t.TempDir(), "s")))
	c.connect(10*time.Second, nil)
	if got := c.whoAmI(); len(got) != 0 {
		t.Errorf("got %v; want no identities", got)
	}
}

func TestFailedAuthenticationEndsTheConnection(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    message
	}{
		{"unknown scheme", &zkproto.AuthRequest{Scheme: "kerberos", Auth: []byte("x")}},
		{"super", &zkproto.AuthRequest{Scheme: "super", Auth: []byte("super:x")}},
		{"world", &zkproto.AuthRequest{Scheme: "world", Auth: []byte("anyone")}},
		{"null", &zkproto.AuthRequest{Scheme: "digest"}},
		{"malformed", raw("\x00\x00\x00\x00\x00\x00\x00\x06dig")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				if a := c.call(zkproto.OpAuth, tt.m); a.Err != zkproto.CodeAuthFailed || a.Zxid != 0 {
					t.Errorf("%+v", a.ReplyHeader)
				}
				c.closed()
			})
		})
	}
}

func TestAConnectionHasABoundedNumberOfIdentities(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for i := range login.MaxIdentities {
			if a := c.auth("digest", fmt.Sprint(i)); a.Err != zkproto.CodeOK {
				t.Fatalf("identity %d: %v", i, a.Err)
			}
		}
		if a := c.auth("digest", "one:more"); a.Err != zkproto.CodeAuthFailed {
			t.Errorf("one more: %v", a.Err)
		}
		c.closed()
	})
}

func TestACLsHoldOnTheWireAndAfterARestart(t *testing.T) {
	stores(t, func(t *testing.T, cfg func() Config) {
		acl := []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "digest", ID: login.Digest("alice:secret").ID}}
		for _, made := range []bool{false, true} {
			s, err := Open(cfg())
			if err != nil {
				t.Fatal(err)
			}
			alice, bob := pipe(t, s), pipe(t, s)
			alice.connect(10*time.Second, nil)
			bob.connect(10*time.Second, nil)
			alice.auth("digest", "alice:secret")
			bob.auth("digest", "bob:secret")
			if !made {
				alice.create("/p", 0)
				a := alice.call(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/p", ACL: []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "auth"}}, Version: 0})
				var m zkproto.StatResponse
				if m.Decode(a.body); a.Err != zkproto.CodeOK || m.Stat.Aversion != 1 || a.body.Complete() != nil {
					t.Fatalf("setACL: %+v, %+v", a, m)
				}
			}
			var m zkproto.GetACLResponse
			a := alice.call(zkproto.OpGetACL, &zkproto.GetACLRequest{Path: "/p"})
			if m.Decode(a.body); a.Err != zkproto.CodeOK || !slices.Equal(m.ACL, acl) || a.body.Complete() != nil {
				t.Errorf("getACL: %+v, %+v", a, m)
			}
			if a := alice.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/p"}); a.Err != zkproto.CodeOK {
				t.Errorf("alice reads: %v", a.Err)
			}
			for op, m := range map[zkproto.Op]message{
				zkproto.OpExists: &zkproto.ReadRequest{Path: "/p"}, zkproto.OpGetData: &zkproto.ReadRequest{Path: "/p"},
				zkproto.OpGetChildren: &zkproto.ReadRequest{Path: "/p"}, zkproto.OpGetChildren2: &zkproto.ReadRequest{Path: "/p"},
				zkproto.OpGetACL: &zkproto.GetACLRequest{Path: "/p"}, zkproto.OpSetData: &zkproto.SetDataRequest{Path: "/p", Version: -1},
				zkproto.OpSetACL: &zkproto.SetACLRequest{Path: "/p", ACL: openACL, Version: -1}, zkproto.OpCreate: &zkproto.CreateRequest{Path: "/p/x", ACL: openACL},
				zkproto.OpGetAllChildrenNumber: &zkproto.GetAllChildrenNumberRequest{Path: "/p"},
			} {
				if a := bob.call(op, m); a.Err != zkproto.CodeNoAuth {
					t.Errorf("bob's %v: %v", op, a.Err)
				}
			}
			s.Close()
			for _, c := range []*rawClient{alice, bob} {
				if _, err := c.in.ReadByte(); err != io.EOF {
					t.Errorf("at the end: %v", err)
				}
			}
		}
	})
}
