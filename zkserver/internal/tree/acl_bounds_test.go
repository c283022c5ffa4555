package tree

import (
	"fmt"
	"testing"

	"holdfast/zkproto"
)

// loadACL loads a node with this list into a tree, as from a store that predates the bounds.
func loadACL(t *testing.T, path string, list []zkproto.ACL) *Tree {
	t.Helper()
	from := New()
	from.link(&node{path: path, acl: &acl{entries: list}})
	return reload(t, from)
}

// A long ACL from an older store is kept unchanged and enforced.
func TestLongACLsOfAnOlderStoreHold(t *testing.T) {
	var list []zkproto.ACL
	for i := range 20_000 {
		list = append(list,
			zkproto.ACL{Perms: zkproto.PermRead, Scheme: "digest", ID: fmt.Sprintf("user%d:hash", i)},
			zkproto.ACL{Perms: zkproto.PermRead, Scheme: "ip", ID: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&0xff)})
	}
	list = append(list, zkproto.ACL{Perms: zkproto.PermWrite, Scheme: "ip", ID: "nonsense"},
		zkproto.ACL{Perms: zkproto.PermWrite, Scheme: "digest", ID: "user7:hash"}, zkproto.ACL{Perms: 31, Scheme: "sasl", ID: "admin"})
	tr := loadACL(t, "/p", list)
	for _, tt := range []struct {
		who   Identity
		perms int32
		want  bool
	}{
		{Identity{"digest", "user19999:hash"}, zkproto.PermRead, true},
		{Identity{"digest", "user19999:hash"}, zkproto.PermWrite, false},
		{Identity{"digest", "user7:hash"}, zkproto.PermWrite, true},
		{Identity{"digest", "user7:hash"}, zkproto.PermRead, true},
		{Identity{"digest", "user20000:hash"}, zkproto.PermRead, false},
		{Identity{"ip", "10.78.31.5"}, zkproto.PermRead, true},
		{Identity{"ip", "10.78.31.5"}, zkproto.PermWrite, false},
		{Identity{"ip", "10.79.1.5"}, zkproto.PermRead, false},
		{Identity{"ip", "::1"}, zkproto.PermRead, false},
		{Identity{"sasl", "admin"}, zkproto.PermAdmin, true},
		{Identity{Super, ""}, zkproto.PermAdmin, true},
	} {
		if got := tr.permits(tr.nodes["/p"].acl, tt.perms, []Identity{tt.who}); got != tt.want {
			t.Errorf("%v to %v: %v", tt.perms, tt.who, got)
		}
	}
	if got, _, code := tr.ACL("/p", Identity{"sasl", "admin"}); code != ok || len(got) != len(list) {
		t.Errorf("getACL: %d entries, %v; want all %d", len(got), code, len(list))
	}
}

// A network is parsed when the ACL is made, and never again.
func TestNetworksAreParsedOnce(t *testing.T) {
	list := []zkproto.ACL{{Perms: zkproto.PermRead, Scheme: "ip", ID: "10.0.0.0/8"}}
	a, _ := New().checkACL(list, nil)
	a.entries[0].ID = "not a network"
	if !New().permits(a, zkproto.PermRead, []Identity{{"ip", "10.1.2.3"}}) {
		t.Error("the check parses the text again")
	}
}

// The identities of a client with many of them are in a set. It must be that client's own.
func TestManyIdentitiesAreThoseOfTheClient(t *testing.T) {
	tr := New()
	ids := func(name string) (as []Identity) {
		for i := range 64 {
			as = append(as, Identity{"digest", fmt.Sprintf("%s%d:hash", name, i)})
		}
		return as
	}
	alice, bob := ids("alice"), ids("bob")
	a := newACL([]zkproto.ACL{{Perms: 31, Scheme: "digest", ID: "alice63:hash"}})
	b := newACL([]zkproto.ACL{{Perms: 31, Scheme: "digest", ID: "bob63:hash"}})
	for range 2 {
		if !tr.permits(a, 1, alice) || tr.permits(b, 1, alice) || !tr.permits(b, 1, bob) || tr.permits(a, 1, bob) || tr.permits(a, 1, alice[:63]) {
			t.Fatal("the wrong client was permitted")
		}
	}
}
