package tree

import (
	"bytes"
	"net/netip"
	"testing"
)

// FuzzLoadNode loads arbitrary bytes as a record of a node. An accepted record is written as it
// was read, except for a TTL of zero or less, which means none. DecodeNode and DecodeChildren read the same.
func FuzzLoadNode(f *testing.F) {
	for _, n := range []*node{
		{acl: openACL, data: []byte{}},
		{data: []byte("x"), acl: openACL, czxid: 1, ttl: 5, version: 2},
		{acl: readOnlyACL, owner: 7, container: true, pzxid: 5, creations: -1},
	} {
		for _, p := range Parts() {
			f.Add("/a", byte(p), n.append(nil, p))
		}
	}
	f.Add("a", byte(PartNode), []byte{0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, path string, part byte, record []byte) {
		p := Part(part)
		tr := New()
		pzxid, errChildren := DecodeChildren(record)
		data, stat, errNode := DecodeNode(record)
		if err := tr.LoadNode(path, p, record); err != nil {
			return
		}
		switch n := tr.loading.nodes[path]; {
		case p == PartChildren && (errChildren != nil || pzxid != n.pzxid):
			t.Errorf("DecodeChildren: %d, %v; want %d", pzxid, errChildren, n.pzxid)
		case p == PartNode && (errNode != nil || !bytes.Equal(data, n.data) || stat.Czxid != n.czxid || stat.Mtime != n.mtime || stat.EphemeralOwner != n.owner):
			t.Errorf("DecodeNode: %q, %+v, %v; want %+v", data, stat, errNode, n)
		}
		first := tr.loading.nodes[path].append(nil, p)
		again := New()
		if err := again.LoadNode(path, p, first); err != nil {
			t.Fatalf("%q: the written record is refused: %v", path, err)
		}
		if second := again.loading.nodes[path].append(nil, p); !bytes.Equal(first, second) {
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
