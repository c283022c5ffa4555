package tree

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"holdfast/zkproto"
)

// openACL is world:anyone with all permissions: what nearly every node has, so all
// of them share one.
var openACL = []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}

var readOnlyACL = []zkproto.ACL{{Perms: zkproto.PermRead, Scheme: "world", ID: "anyone"}}

// An Identity is something that a connection has been found to be: an address, or a
// user with the hash of a password.
type Identity struct{ Scheme, ID string }

// Super is the scheme of an identity that may do everything. No ACL can name it.
const Super = "super"

// authenticates reports whether it takes more than being there to have the identity:
// only those stand for the scheme "auth" in an ACL.
func (i Identity) authenticates() bool {
	return i.Scheme == "digest" || i.Scheme == "sasl" || i.Scheme == "x509"
}

// checkACL is what a client's ACL becomes in a node: without duplicates, and with the
// client's identities in place of "auth". It refuses what this server could not enforce:
// a node that its creator believes protected must not be open to everyone.
func checkACL(acl []zkproto.ACL, as []Identity) ([]zkproto.ACL, zkproto.Code) {
	if slices.Equal(acl, openACL) {
		return openACL, zkproto.CodeOK
	}
	var checked []zkproto.ACL
	seen := make(map[zkproto.ACL]struct{}, len(acl)) // a frame has room for tens of thousands
	for _, a := range acl {
		if _, again := seen[a]; again {
			continue
		}
		seen[a] = struct{}{}
		switch {
		case a.Scheme == "auth":
			before := len(checked)
			for _, id := range as {
				if id.authenticates() {
					checked = append(checked, zkproto.ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.ID})
				}
			}
			if len(checked) == before {
				return nil, zkproto.CodeInvalidACL
			}
		case validACL(a):
			checked = append(checked, a)
		default:
			return nil, zkproto.CodeInvalidACL
		}
	}
	if len(checked) == 0 {
		return nil, zkproto.CodeInvalidACL
	}
	return sharedACL(checked), zkproto.CodeOK
}

func validACL(a zkproto.ACL) bool {
	switch a.Scheme {
	case "world":
		return a.ID == "anyone"
	case "digest":
		// As Java's split has it, which leaves out what is empty in the end.
		return strings.Count(strings.TrimRight(a.ID, ":"), ":") == 1
	case "sasl":
		return ValidSASL(a.ID)
	case "x509":
		return strings.Contains(a.ID, "=") // the subject of a certificate
	case "ip":
		_, ok := parseNetwork(a.ID)
		return ok
	}
	return false
}

// ValidSASL reports whether an ACL can name this user. Apache's server reads all users of
// SASL as those of Kerberos: name, name@realm or name/host@realm, of which each may be
// empty (KerberosName).
func ValidSASL(user string) bool {
	name, realm, hasRealm := strings.Cut(user, "@")
	return !hasRealm || strings.Count(name, "/") <= 1 && !strings.ContainsAny(realm, "/@")
}

// parseNetwork reads addr or addr/bits, of which only the first bits count.
func parseNetwork(s string) (netip.Prefix, bool) {
	text, length, hasLength := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	bits := addr.BitLen()
	if hasLength {
		if bits, err = strconv.Atoi(length); err != nil {
			return netip.Prefix{}, false
		}
	}
	network, err := addr.Prefix(bits)
	return network, err == nil
}

func sharedACL(acl []zkproto.ACL) []zkproto.ACL {
	if slices.Equal(acl, openACL) {
		return openACL
	}
	return acl
}

func (n *node) permits(perms int32, as []Identity) bool { return permits(n.acl, perms, as) }

// permits reports whether who has these identities may do any of perms. An entry of a
// scheme that is not known here grants nothing; the superuser needs none.
func permits(acl []zkproto.ACL, perms int32, as []Identity) bool {
	for _, id := range as {
		if id.Scheme == Super {
			return true
		}
	}
	for _, a := range acl {
		if a.Perms&perms == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		for _, id := range as {
			if id.matches(a) {
				return true
			}
		}
	}
	return false
}

func (i Identity) matches(a zkproto.ACL) bool {
	if i.Scheme != a.Scheme {
		return false
	}
	if i.Scheme != "ip" {
		return i.ID == a.ID
	}
	network, ok := parseNetwork(a.ID)
	addr, err := netip.ParseAddr(i.ID)
	return ok && err == nil && network.Contains(addr)
}

// ACL answers with the ACL of a node. It is the tree's: the caller must not change it.
func (t *Tree) ACL(path string, as ...Identity) ([]zkproto.ACL, zkproto.Stat, zkproto.Code) {
	n := t.lookup(path)
	switch {
	case n == nil:
		return nil, zkproto.Stat{}, zkproto.CodeNoNode
	case n.permits(zkproto.PermAdmin, as):
		return n.acl, n.stat(), zkproto.CodeOK
	case !n.permits(zkproto.PermRead, as):
		return nil, zkproto.Stat{}, zkproto.CodeNoAuth
	}
	// Who may only read is not shown the hashes of passwords.
	acl := slices.Clone(n.acl)
	for i, a := range acl {
		if a.Scheme == "digest" {
			user, _, _ := strings.Cut(a.ID, ":")
			acl[i].ID = user + ":x"
		}
	}
	return acl, n.stat(), zkproto.CodeOK
}

// SetACL replaces the ACL of a node. Version is that of the ACL, -1 stands for any. No
// watch fires.
func (t *Tree) SetACL(tx Txn, path string, acl []zkproto.ACL, version int32) (zkproto.Stat, zkproto.Code) {
	stat, code := t.setACL(tx, path, acl, version)
	t.finish(code)
	return stat, code
}

func (t *Tree) setACL(tx Txn, path string, acl []zkproto.ACL, version int32) (zkproto.Stat, zkproto.Code) {
	refuse := func(code zkproto.Code) (zkproto.Stat, zkproto.Code) { return zkproto.Stat{}, code }
	if zkproto.ValidatePath(path) != nil {
		return refuse(zkproto.CodeBadArguments)
	}
	acl, code := checkACL(acl, tx.As)
	if code != zkproto.CodeOK {
		return refuse(code)
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return refuse(zkproto.CodeNoNode)
	case !n.permits(zkproto.PermAdmin, tx.As):
		return refuse(zkproto.CodeNoAuth)
	case version != -1 && version != n.aversion:
		return refuse(zkproto.CodeBadVersion)
	}
	n.acl, n.aversion = acl, n.aversion+1
	t.touched = append(t.touched, path)
	return n.stat(), zkproto.CodeOK
}
