package tree

import (
	"slices"
	"testing"

	"holdfast/zkproto"
)

var (
	alice = Identity{"digest", "alice:hashA="}
	bob   = Identity{"digest", "bob:hashB="}
	local = Identity{"ip", "127.0.0.1"}
)

func TestACLsOfClientsAreCheckedAndExpanded(t *testing.T) {
	entry := func(scheme, id string) zkproto.ACL { return zkproto.ACL{Perms: 31, Scheme: scheme, ID: id} }
	world := entry("world", "anyone")
	for _, tt := range []struct {
		name string
		acl  []zkproto.ACL
		as   []Identity
		want []zkproto.ACL // nil: refused
	}{
		{"null", nil, nil, nil},
		{"world", []zkproto.ACL{world}, nil, []zkproto.ACL{world}},
		{"world, somebody", []zkproto.ACL{entry("world", "alice")}, nil, nil},
		{"unknown scheme", []zkproto.ACL{entry("host", "example.org")}, nil, nil},
		{"super cannot be given", []zkproto.ACL{entry("super", "")}, nil, nil},
		{"x509", []zkproto.ACL{entry("x509", "CN=alice")}, nil, []zkproto.ACL{entry("x509", "CN=alice")}},
		{"x509 without a name", []zkproto.ACL{entry("x509", "alice")}, nil, nil},
		{"SASL", []zkproto.ACL{entry("sasl", "alice"), entry("sasl", "a/b@c")}, nil, []zkproto.ACL{entry("sasl", "alice"), entry("sasl", "a/b@c")}},
		{"SASL that is not Kerberos", []zkproto.ACL{entry("sasl", "a@b@c")}, nil, nil},
		{"twice", []zkproto.ACL{world, entry("ip", "::1"), world}, nil, []zkproto.ACL{world, entry("ip", "::1")}},
		{"one bad entry", []zkproto.ACL{world, entry("digest", "alice")}, nil, nil},
		{"digest", []zkproto.ACL{entry("digest", "a:h")}, nil, []zkproto.ACL{entry("digest", "a:h")}},
		{"digest without a user", []zkproto.ACL{entry("digest", ":h")}, nil, []zkproto.ACL{entry("digest", ":h")}},
		{"digest without a hash", []zkproto.ACL{entry("digest", "a:")}, nil, nil},
		{"digest of three", []zkproto.ACL{entry("digest", "a:b:c")}, nil, nil},
		{"address", []zkproto.ACL{entry("ip", "10.0.0.1")}, nil, []zkproto.ACL{entry("ip", "10.0.0.1")}},
		{"network", []zkproto.ACL{entry("ip", "10.0.0.1/8")}, nil, []zkproto.ACL{entry("ip", "10.0.0.1/8")}},
		{"all addresses", []zkproto.ACL{entry("ip", "10.0.0.1/0")}, nil, []zkproto.ACL{entry("ip", "10.0.0.1/0")}},
		{"network of too many bits", []zkproto.ACL{entry("ip", "10.0.0.1/33")}, nil, nil},
		{"network of negative bits", []zkproto.ACL{entry("ip", "10.0.0.1/-1")}, nil, nil},
		{"address of three parts", []zkproto.ACL{entry("ip", "10.0.1")}, nil, nil},
		{"auth of nobody", []zkproto.ACL{entry("auth", "")}, []Identity{local}, nil},
		{"auth of SASL, not of the superuser", []zkproto.ACL{entry("auth", "")}, []Identity{local, {"sasl", "alice"}, {Super, ""}}, []zkproto.ACL{entry("sasl", "alice")}},
		{"auth of the superuser alone", []zkproto.ACL{entry("auth", "")}, []Identity{{Super, ""}}, nil},
		{"auth", []zkproto.ACL{entry("auth", "whatever")}, []Identity{local, alice, bob}, []zkproto.ACL{entry("digest", alice.ID), entry("digest", bob.ID)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []zkproto.ACL
			a, code := New().checkACL(tt.acl, tt.as)
			if a != nil {
				got = a.entries
			}
			if !slices.Equal(got, tt.want) || (code == ok) != (tt.want != nil) || code != ok && code != invalidACL {
				t.Errorf("got %v, %v; want %v", got, code, tt.want)
			}
		})
	}
}

func TestACLsPermit(t *testing.T) {
	for _, tt := range []struct {
		acl   []zkproto.ACL
		as    []Identity
		perms int32
		want  bool
	}{
		{nil, []Identity{alice}, 31, false},
		{openACL.entries, nil, zkproto.PermAdmin, true},
		{readOnlyACL.entries, nil, zkproto.PermWrite, false},
		{readOnlyACL.entries, nil, zkproto.PermRead | zkproto.PermAdmin, true},
		{[]zkproto.ACL{{Perms: 2, Scheme: "digest", ID: alice.ID}}, []Identity{local, alice}, 2, true},
		{[]zkproto.ACL{{Perms: 2, Scheme: "digest", ID: alice.ID}}, []Identity{local, bob}, 2, false},
		{[]zkproto.ACL{{Perms: 2, Scheme: "digest", ID: alice.ID}}, []Identity{local, alice}, 1, false},
		{[]zkproto.ACL{{Perms: 31, Scheme: "ip", ID: "127.0.0.9/24"}}, []Identity{local}, 1, true},
		{[]zkproto.ACL{{Perms: 31, Scheme: "ip", ID: "127.0.0.9"}}, []Identity{local}, 1, false},
		{[]zkproto.ACL{{Perms: 31, Scheme: "ip", ID: "::/0"}}, []Identity{local}, 1, false},
		{[]zkproto.ACL{{Perms: 31, Scheme: "ip", ID: "2001:db8::/32"}}, []Identity{{"ip", "2001:db8:1::2"}}, 1, true},
		{[]zkproto.ACL{{Perms: 1, Scheme: "x509", ID: "CN=alice"}}, []Identity{local, {"x509", "CN=alice"}}, 1, true},
		{[]zkproto.ACL{{Perms: 1, Scheme: "x509", ID: "CN=alice"}}, []Identity{local, {"x509", "CN=alice,O=other"}}, 1, false},
		{[]zkproto.ACL{{Perms: 31, Scheme: "unknown", ID: "x"}}, []Identity{{"digest", "x"}}, 1, false},
		{[]zkproto.ACL{{Perms: 1, Scheme: "sasl", ID: "alice"}}, []Identity{local, {"sasl", "alice"}}, 1, true},
		{[]zkproto.ACL{{Perms: 1, Scheme: "sasl", ID: "alice"}}, []Identity{local, {"digest", "alice"}, {"sasl", "bob"}}, 1, false},
		{[]zkproto.ACL{{Perms: 1, Scheme: "sasl", ID: "alice"}}, []Identity{{Super, ""}}, zkproto.PermAdmin, true},
		{nil, []Identity{local, {Super, ""}}, 31, true},
	} {
		if got := New().permits(newACL(tt.acl), tt.perms, tt.as); got != tt.want {
			t.Errorf("%v to %v of %v: got %v", tt.perms, tt.as, tt.acl, got)
		}
	}
}

// Apache's server 3.8.0 accepts and refuses these ids of SASL users in an ACL.
func TestSASLUsersAreNamedAsByKerberos(t *testing.T) {
	for user, want := range map[string]bool{
		"bob": true, "": true, "a@b": true, "a/b@c": true, "@": true, "a/b": true, "a/b/c": true, "a:b": true, " ": true,
		"@b": true, "/a@b": true, "a/@b": true, "a@": true, "zoë": true, "a@b@c": false, "a/b/c@d": false, "a@b/c": false,
	} {
		if got := ValidSASL(user); got != want {
			t.Errorf("%q: %v", user, got)
		}
	}
}

func TestSetACLChecksInOrder(t *testing.T) {
	bogus := []zkproto.ACL{{Perms: 31, Scheme: "bogus", ID: "x"}}
	for _, tt := range []struct {
		name, path string
		acl        []zkproto.ACL
		version    int32
		want       zkproto.Code
	}{
		{"any version", "/a", readOnlyACL.entries, -1, ok},
		{"right version", "/a", readOnlyACL.entries, 0, ok},
		{"path before ACL", "/.", bogus, -1, badArgs},
		{"ACL before the node", "/none", bogus, -1, invalidACL},
		{"no ACL", "/a", nil, -1, invalidACL},
		{"missing", "/none", openACL.entries, -1, noNode},
		{"ADMIN before version", "/zookeeper/config", openACL.entries, 7, noAuth},
		{"version of the ACL, not of the data", "/a", openACL.entries, 1, badVersion},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			tr.Set(tx(), "/a", nil, -1)
			tr.WatchData(1, "/a")
			discard(tr)
			before, _ := tr.Exists("/a")
			stat, code := tr.SetACL(tx(), tt.path, tt.acl, tt.version)
			if code != tt.want {
				t.Fatalf("got %v; want %v", code, tt.want)
			}
			if code != ok {
				assertUntouched(t, tr)
				return
			}
			before.Aversion = 1
			if stat != before {
				t.Errorf("stat: got %+v; want %+v", stat, before)
			}
			assertEvents(t, tr)
			if acl, _, code := reload(t, tr).ACL("/a"); code != ok || !slices.Equal(acl, tt.acl) {
				t.Errorf("after a restart: %v, %v; want %v", acl, code, tt.acl)
			}
		})
	}
}

func TestACLHidesHashesFromWhoMayOnlyRead(t *testing.T) {
	tr := New()
	acl := []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "digest", ID: alice.ID}, {Perms: zkproto.PermRead, Scheme: "ip", ID: local.ID}}
	tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/p", ACL: acl})
	if got, _, code := tr.ACL("/p", local, alice); code != ok || !slices.Equal(got, acl) {
		t.Errorf("to its owner: %v, %v; want %v", got, code, acl)
	}
	got, _, code := tr.ACL("/p", local)
	if code != ok || got[0].ID != "alice:x" || got[1] != acl[1] {
		t.Errorf("to a reader: %v, %v; want no hash", got, code)
	}
	if _, _, code := tr.ACL("/p", bob); code != noAuth {
		t.Errorf("to a stranger: %v", code)
	}
	if _, _, code := tr.ACL("/none", bob); code != noNode {
		t.Errorf("of no node: %v", code)
	}
}

func TestWritesNeedWhatTheACLAsks(t *testing.T) {
	tr := New()
	acl := []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "digest", ID: alice.ID}}
	as := func(ids ...Identity) Txn {
		tx := tx()
		tx.As = ids
		return tx
	}
	tr.Create(as(alice), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/p", ACL: []zkproto.ACL{{Perms: 31, Scheme: "auth"}}})
	if got, _, _ := tr.ACL("/p", alice); !slices.Equal(got, acl) {
		t.Fatalf("ACL: %v; want %v", got, acl)
	}
	for _, tt := range []struct {
		who  []Identity
		want zkproto.Code
	}{{nil, noAuth}, {[]Identity{local, bob}, noAuth}, {[]Identity{bob, alice}, ok}} {
		_, _, create := tr.Create(as(tt.who...), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/p/x", ACL: openACL.entries})
		_, set := tr.Set(as(tt.who...), "/p", nil, -1)
		results, _ := tr.Multi(as(tt.who...), []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/p", Version: -1}})
		_, _, get := tr.Get("/p", tt.who...)
		_, count := tr.Descendants("/p", tt.who...)
		del := tr.Delete(as(tt.who...), "/p/x", -1)
		if tt.want != ok {
			del, tt.want = tr.Delete(as(tt.who...), "/p/none", -1), noAuth
		}
		for what, code := range map[string]zkproto.Code{"create": create, "set": set, "check": results[0].Err, "get": get, "count": count, "delete": del} {
			if code != tt.want {
				t.Errorf("%s as %v: got %v; want %v", what, tt.who, code, tt.want)
			}
		}
	}
}

func TestEventsGoToWhoMayRead(t *testing.T) {
	tr := New()
	secret := []zkproto.ACL{{Perms: zkproto.PermRead, Scheme: "digest", ID: alice.ID}}
	tr.Identify(1, []Identity{local, alice})
	tr.Identify(2, []Identity{local, bob})
	for _, by := range []Watcher{1, 2, 3} {
		tr.WatchData(by, "/p")
		tr.AddWatch(by, "/", zkproto.ModePersistentRecursive)
	}
	tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/p", ACL: secret})
	assertEvents(t, tr, Event{1, created, "/p"})
	tr.SetWatches(2, &zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{Data: []string{"/p"}, Exist: []string{"/p"}, Child: []string{"/p"}}})
	assertEvents(t, tr)
	tr.Delete(tx(), "/p", -1) // the ACL of the deleted node decides
	assertEvents(t, tr, Event{1, deleted, "/p"})

	// The node's current ACL decides, not its ACL when the watch was set.
	tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/q", ACL: openACL.entries})
	if heard := tr.TakeEvents(); len(heard) != 3 { // in any order
		t.Errorf("events: got %v; want one for each watcher", heard)
	}
	tr.SetACL(tx(), "/q", append(secret, zkproto.ACL{Perms: zkproto.PermWrite, Scheme: "world", ID: "anyone"}), -1)
	tr.Set(tx(), "/q", []byte("x"), -1)
	assertEvents(t, tr, Event{1, changed, "/q"})
}
