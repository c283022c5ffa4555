package login

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// Other servers and clients compute the same hash of the same password.
func TestDigestIsThatOfApacheZooKeeper(t *testing.T) {
	if got := Digest("super:test").ID; got != "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" {
		t.Errorf("got %s", got)
	}
}

func TestAddKeepsTheBounds(t *testing.T) {
	// sized returns an identity of n bytes.
	sized := func(i, n int) tree.Identity {
		return tree.Identity{Scheme: "digest", ID: fmt.Sprintf("%0*d", n-len("digest"), i)}
	}
	several := func(n, bytes int) (ids []tree.Identity) {
		for i := range n {
			ids = append(ids, sized(i, bytes))
		}
		return ids
	}
	for _, tt := range []struct {
		name string
		ids  []tree.Identity
		id   tree.Identity
		ok   bool
	}{
		{"the first", nil, sized(1, 10), true},
		{"the longest", nil, sized(1, MaxIdentityBytes), true},
		{"a byte more", nil, sized(1, MaxIdentityBytes+1), false},
		{"the last", several(MaxIdentities-1, 10), sized(100, 10), true},
		{"one more", several(MaxIdentities, 10), sized(100, 10), false},
		{"one again", several(MaxIdentities, 10), sized(1, 10), true},
		{"the last, all of them long", several(MaxIdentities-1, MaxIdentityBytes), sized(100, MaxIdentityBytes), true},
		{"too much together", several(MaxIdentities-1, MaxIdentityBytes+1), sized(100, MaxIdentityBytes), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Add(tt.ids, tt.id)
			if ok != tt.ok {
				t.Fatalf("ok is %v", ok)
			}
			want := tt.ids
			if !slices.Contains(tt.ids, tt.id) {
				want = slices.Concat(tt.ids, []tree.Identity{tt.id})
			}
			if ok && !slices.Equal(got, want) {
				t.Errorf("got %v; want %v", got, want)
			}
		})
	}
}

func TestAddDoesNotChangeWhatTheTreeHas(t *testing.T) {
	ids := make([]tree.Identity, 1, 8)
	one, _ := Add(ids, Digest("one:x"))
	two, _ := Add(ids, Digest("two:x"))
	if one[1] != Digest("one:x") || two[1] != Digest("two:x") {
		t.Errorf("got %v and %v", one, two)
	}
}

func TestOfAddress(t *testing.T) {
	for _, tt := range []struct {
		remote net.Addr
		want   []tree.Identity
	}{
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}, []tree.Identity{{Scheme: "ip", ID: "10.0.0.1"}}},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.1")}, []tree.Identity{{Scheme: "ip", ID: "10.0.0.1"}}},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1")}, []tree.Identity{{Scheme: "ip", ID: "2001:db8::1"}}},
		{&net.TCPAddr{}, nil},
		{&net.UnixAddr{Name: "@", Net: "unix"}, nil},
		{nil, nil},
	} {
		if got := OfAddress(tt.remote); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v; want %v", tt.remote, got, tt.want)
		}
	}
}

func TestWhoAmIShowsNoHash(t *testing.T) {
	ids := []tree.Identity{{Scheme: "ip", ID: "10.0.0.1"}, Digest("bob:" + planted), {Scheme: tree.Super}, {Scheme: "sasl", ID: "eve"}, {Scheme: "x509", ID: "CN=a:b"}}
	want := []zkproto.ClientInfo{{Scheme: "ip", User: "10.0.0.1"}, {Scheme: "digest", User: "bob"}, {Scheme: "super"}, {Scheme: "sasl", User: "eve"}, {Scheme: "x509", User: "CN=a:b"}}
	if got := WhoAmI(ids).Infos; !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
	if all := fmt.Sprint(WhoAmI(ids)); strings.Contains(all, strings.TrimPrefix(Digest("bob:"+planted).ID, "bob:")) {
		t.Errorf("the text shows the hash: %s", all)
	}
}
