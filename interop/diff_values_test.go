//go:build unix

package interop

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"strings"

	"holdfast/zkproto"
)

// Arguments for the requests of the differential test. Many make requests fail, and all are
// likely to be met again.

// tree returns the root of the tree for the current request.
func (d *diffStream) tree() string {
	if d.secret {
		return d.root + "secret"
	}
	return d.root
}

func (d *diffStream) path() string {
	root := d.tree()
	switch d.n(40) {
	case 0:
		return pick(d, "b", "a", "/a\x00b", "x/y", "/zookeeper/none/x", "/", "/zookeeper", "/zookeeper/config")
	case 1:
		return root + pick(d, "/a/", "//", "/.", "/a/../b", "/\x01", "/ü", "/\u2028", "/\ufffd", "/a/x/")
	case 2, 3: // names of sequential nodes
		return fmt.Sprintf("%s%010d", root+pick(d, "/a", "/a/x", "/b"), d.n(12))
	}
	return root + pick(d, "", "/a", "/b", "/a/x", "/a/y", "/a/x/z", "/b/x")
}

// leaf returns a node that never has children, so a container there is never reaped.
func (d *diffStream) leaf() string { return d.tree() + "/a/x/z" }

func (d *diffStream) oneShotPath() string {
	switch d.n(20) {
	case 0:
		return pick(d, "/", "/zookeeper/config", "/none")
	case 1:
		return fmt.Sprintf("%s%010d", d.tree()+pick(d, "/a", "/a/x", "/b"), d.n(12))
	}
	return d.tree() + pick(d, "/a", "/a/x", "/a/x/z")
}

func (d *diffStream) oneShotPaths() []string {
	paths := make([]string, d.n(3))
	for i := range paths {
		paths[i] = d.oneShotPath()
	}
	return paths
}

func (d *diffStream) version() int32 { return pick[int32](d, -1, -1, -1, 0, 0, 1, 2, -2) }

func (d *diffStream) data() []byte { return pick(d, nil, []byte{}, []byte("abc"), []byte{0, 0xff}) }

func (d *diffStream) user() string {
	return pick(d, "alice:secret", "bob:secret", "bob:", "carol", ":")
}

func (d *diffStream) acl() []zkproto.ACL {
	if d.n(20) == 0 {
		return pick(d, nil, []zkproto.ACL{openACL[0], openACL[0]}, []zkproto.ACL{openACL[0], {Perms: zkproto.PermAll, Scheme: "bogus", ID: "x"}},
			[]zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "digest", ID: "alice"}}, []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "alice"}},
			[]zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "ip", ID: pick(d, "127.0.0", "127.0.0.1/33", "127.0.0.1/x", "")}}, []zkproto.ACL{{Scheme: "super"}})
	}
	if d.n(4) > 0 && !d.secret {
		return openACL
	}
	var acl []zkproto.ACL
	for range 1 + d.n(3) {
		perms := pick(d, zkproto.PermAll, zkproto.PermAll, int32(d.n(32)))
		acl = append(acl, pick(d,
			zkproto.ACL{Perms: perms, Scheme: "world", ID: "anyone"},
			zkproto.ACL{Perms: perms, Scheme: "auth", ID: ""},
			zkproto.ACL{Perms: perms, Scheme: "ip", ID: pick(d, "127.0.0.1", "127.1.2.3/8", "127.1.2.3", "10.0.0.1/0")},
			zkproto.ACL{Perms: perms, Scheme: "digest", ID: digestID(d.user())},
			zkproto.ACL{Perms: perms, Scheme: "digest", ID: pick(d, "a:b", "a:b:", ":b", ":", "a:b:c")},
		))
	}
	if !d.secret {
		acl = append(acl, zkproto.ACL{Perms: zkproto.PermRead | zkproto.PermAdmin, Scheme: "world", ID: "anyone"})
	}
	return acl
}

// digestID returns the digest identity for user:password.
func digestID(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	hash := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(hash[:])
}

func (d *diffStream) flags() int32 {
	if d.n(30) == 0 {
		return pick[int32](d, -1, zkproto.FlagContainer, 7, 100)
	}
	return int32(d.n(4))
}
