package zkserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
)

func entries(n int, scheme string, id func(i int) string) []zkproto.ACL {
	acl := make([]zkproto.ACL, n)
	for i := range acl {
		acl[i] = zkproto.ACL{Perms: zkproto.PermAll, Scheme: scheme, ID: id(i)}
	}
	return acl
}

func TestACLsAreBounded(t *testing.T) {
	short := func(i int) string { return fmt.Sprintf("user%d:hash", i) }
	of := func(n int) func(int) string {
		return func(i int) string { return fmt.Sprintf("%0*d:hash", n-len(":hash"), i) }
	}
	auth := []zkproto.ACL{{Perms: 31, Scheme: "auth"}}
	for _, tt := range []struct {
		name   string
		logins int
		acl    []zkproto.ACL
		want   zkproto.Code
	}{
		{"64 entries", 0, entries(64, "digest", short), zkproto.CodeOK},
		{"65 entries", 0, entries(65, "digest", short), zkproto.CodeInvalidACL},
		{"many times the same", 0, entries(10_000, "digest", func(int) string { return "a:b" }), zkproto.CodeInvalidACL},
		{"8 KiB", 0, entries(8, "digest", of((8<<10-4)/8-12-len("digest"))), zkproto.CodeOK},
		{"more than 8 KiB", 0, entries(8, "digest", of(1024)), zkproto.CodeInvalidACL},
		{"one long entry", 0, entries(1, "digest", of(900_000)), zkproto.CodeInvalidACL},
		{"auth of 60", 60, auth, zkproto.CodeOK},
		{"auth of 60 and 4 others", 60, append(entries(4, "digest", short), auth...), zkproto.CodeOK},
		{"auth of 60 and 5 others", 60, append(entries(5, "digest", short), auth...), zkproto.CodeInvalidACL},
		{"auth twice", 60, append([]zkproto.ACL{{Perms: 1, Scheme: "auth"}}, auth...), zkproto.CodeInvalidACL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				c.create("/p", 0)
				for i := range tt.logins {
					c.auth("digest", fmt.Sprintf("login%d:x", i))
				}
				create := &zkproto.CreateRequest{Path: "/a", ACL: tt.acl}
				if a := c.call(zkproto.OpCreate, create); a.Err != tt.want {
					t.Errorf("create: %v; want %v", a.Err, tt.want)
				}
				if a := c.call(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/p", ACL: tt.acl, Version: -1}); a.Err != tt.want {
					t.Errorf("setACL: %v; want %v", a.Err, tt.want)
				}
				a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCreate, Path: "/b", ACL: tt.acl}}})
				var m zkproto.MultiResponse
				if m.Decode(a.body); len(m.Results) != 1 || m.Results[0].Err != tt.want {
					t.Errorf("in a transaction: %+v; want %v", m, tt.want)
				}
				want := map[Limit]int64{}
				if tt.want != zkproto.CodeOK {
					want[LimitACL] = 3
				}
				assertRefused(t, s, want)
			})
		})
	}
}

// A create in a transaction may be short and still make a long ACL, because auth expands to all
// identities.
func TestTransactionsDoNotGrowByTheirACLs(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for i := range 64 {
			c.auth("digest", fmt.Sprintf("%080d:x", i))
		}
		transaction := func(n int) zkproto.Code {
			ops := make([]zkproto.MultiOp, n)
			for i := range ops {
				ops[i] = zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/", Flags: zkproto.FlagPersistentSequential, ACL: []zkproto.ACL{{Perms: 31, Scheme: "auth"}}}
			}
			a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops})
			var m zkproto.MultiResponse
			m.Decode(a.body)
			return m.Results[n-1].Err
		}
		if code := transaction(100); code != zkproto.CodeOK {
			t.Errorf("100 creates: %v", code)
		}
		if code := transaction(100); code != zkproto.CodeOK {
			t.Errorf("100 creates again: %v", code)
		}
		if code := transaction(1000); code == zkproto.CodeOK {
			t.Error("1000 creates of 8 KB each by auth were accepted")
		}
		assertRefused(t, s, map[Limit]int64{LimitACL: 1})
	})
}

func TestIdentitiesAreBounded(t *testing.T) {
	// The digest identity of name:x is 36 bytes longer than the name.
	longest := strings.Repeat("n", login.MaxIdentityBytes-len("digest")-len(":")-28)
	for _, tt := range []struct {
		name, login string
		want        zkproto.Code
	}{
		{"as long as may be", longest + ":x", zkproto.CodeOK},
		{"a byte more", longest + "n:x", zkproto.CodeAuthFailed},
		{"a megabyte", strings.Repeat("n", 1_000_000) + ":x", zkproto.CodeAuthFailed},
		{"a long password is no identity", "me:" + strings.Repeat("x", 10_000), zkproto.CodeOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				if a := c.auth("digest", tt.login); a.Err != tt.want {
					t.Errorf("got %v; want %v", a.Err, tt.want)
				}
				want := map[Limit]int64{}
				if tt.want != zkproto.CodeOK {
					want[LimitIdentities] = 1
					c.closed()
				}
				assertRefused(t, s, want)
			})
		})
	}
}

// The bound covers all identities of a connection together, including its address.
func TestIdentitiesOfAConnectionAreBoundedTogether(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := from(t, s, "10.0.0.1")
		c.connect(10*time.Second, nil)
		for i := range 63 {
			name := fmt.Sprintf("%0*d", login.MaxIdentityBytes-len("digest")-len(":")-28, i)
			if a := c.auth("digest", name+":x"); a.Err != zkproto.CodeOK {
				t.Fatalf("login %d: %v", i, a.Err)
			}
		}
		if a := c.auth("digest", "one:more"); a.Err != zkproto.CodeAuthFailed {
			t.Errorf("the 65th identity: %v", a.Err)
		}
		c.closed()
		assertRefused(t, s, map[Limit]int64{LimitIdentities: 1})
	})
}
