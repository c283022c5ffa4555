package tree

import (
	"bytes"
	"net/netip"
	"testing"
)

// FuzzLoadNode loads arbitrary bytes as the record of a node. An accepted record is written as it
// was read, except for a TTL of zero or less, which means none.
func FuzzLoadNode(f *testing.F) {
	tr := New()
	tr.nodes["/a"] = &node{data: []byte("x"), acl: openACL, czxid: 1, ttl: 5, version: 2}
	tr.nodes["/b"] = &node{acl: readOnlyACL, owner: 7, container: true}
	for _, path := range []string{"/", "/a", "/b"} {
		record, _ := tr.AppendNode(nil, path)
		f.Add(path, record)
	}
	f.Add("a", []byte{0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, path string, record []byte) {
		tr := New()
		if err := tr.LoadNode(path, record); err != nil {
			return
		}
		tr.nodes[path] = tr.loading[0] // as Loaded does, if there is a parent
		first, _ := tr.AppendNode(nil, path)
		again := New()
		if err := again.LoadNode(path, first); err != nil {
			t.Fatalf("%q: the written record is refused: %v", path, err)
		}
		again.nodes[path] = again.loading[0]
		if second, _ := again.AppendNode(nil, path); !bytes.Equal(first, second) {
			t.Errorf("%q: %x is written as %x, and that as %x", path, record, first, second)
		}
	})
}

// FuzzParseNetwork checks that a network contains the address that names it, and that its text parses
// to the same network.
func FuzzParseNetwork(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "10.0.0.0/8", "::1/7", "::ffff:1.2.3.4/96", "fe80::1%eth0", "1.2.3.4/33", "1.2.3.4/-1", "/8", "1.2.3.4/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		network, ok := parseNetwork(s)
		if !ok {
			return
		}
		again, ok := parseNetwork(network.String())
		if !ok || again != network {
			t.Errorf("%q is %v, which is %v, %v", s, network, again, ok)
		}
		if network != network.Masked() || network.Addr() == (netip.Addr{}) {
			t.Errorf("%q is %v", s, network)
		}
	})
}
