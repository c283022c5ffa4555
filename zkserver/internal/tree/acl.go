package tree

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"holdfast/zkproto"
)

// The ACLs of clients have bounds. They hold for an ACL as it arrives, and again after the
// client's identities have replaced auth. An ACL from an older store may exceed the bounds:
// it is kept and enforced.
const (
	// MaxACLEntries is the greatest number of entries.
	MaxACLEntries = 64
	maxACLBytes   = 8 << 10 // as on the wire

	// maxGrowth bounds the bytes that auth adds to the ACLs of one transaction, which may
	// have thousands of ACLs.
	maxGrowth = 1 << 20
)

// An acl is the ACL of a node, prepared for checks. It never changes, so nodes may share it.
type acl struct {
	entries  []zkproto.ACL
	anyone   int32     // permissions of world:anyone
	networks []network // the entries of the scheme ip, parsed
	keys     []aclKey  // the other entries
	index    *aclIndex // of a list longer than the bounds; nil otherwise
}

// An aclKey represents the identity of an entry. A check compares these few bytes instead of the
// names, which may have 8 KiB, each in a different place of memory.
type aclKey struct {
	key   uint64
	perms int32
	entry int32
}

// keyOf hashes an identity with a seed of this process, so that no client can choose two
// identities with the same key.
func keyOf(id Identity) uint64 { return maphash.Comparable(keySeed, id) }

var keySeed = maphash.MakeSeed()

type network struct {
	prefix netip.Prefix
	perms  int32
}

// An aclIndex makes a check of a long list as fast as a check of a short one.
type aclIndex struct {
	perms    map[Identity]int32
	networks map[netip.Prefix]int32
}

// openACL is world:anyone with all permissions. Nearly every node has this list, so all
// of them share it.
var openACL = compileACL([]zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}})

var readOnlyACL = compileACL([]zkproto.ACL{{Perms: zkproto.PermRead, Scheme: "world", ID: "anyone"}})

// newACL returns openACL if that has the same entries, and otherwise compileACL(entries).
func newACL(entries []zkproto.ACL) *acl {
	if slices.Equal(entries, openACL.entries) {
		return openACL
	}
	return compileACL(entries)
}

// compileACL prepares a list for checks.
func compileACL(entries []zkproto.ACL) *acl {
	a := &acl{entries: entries}
	for i, e := range entries {
		switch {
		case e.Scheme == "world" && e.ID == "anyone":
			a.anyone |= e.Perms
		case e.Scheme == "ip":
			if prefix, ok := parseNetwork(e.ID); ok {
				a.networks = append(a.networks, network{prefix, e.Perms})
			}
		default:
			a.keys = append(a.keys, aclKey{keyOf(Identity{e.Scheme, e.ID}), e.Perms, int32(i)})
		}
	}
	if len(entries) > MaxACLEntries {
		a.index = &aclIndex{make(map[Identity]int32, len(entries)), make(map[netip.Prefix]int32, len(a.networks))}
		for _, e := range entries {
			a.index.perms[Identity{e.Scheme, e.ID}] |= e.Perms
		}
		for _, n := range a.networks {
			a.index.networks[n.prefix] |= n.perms
		}
		a.networks, a.keys = nil, nil
	}
	return a
}

// shared returns an equal list of the parent or of its last child if there is one, and otherwise
// a. In a directory of locks, most lists are equal.
func shared(a *acl, parent *node) *acl {
	if siblings := parent.below(); len(siblings) > 0 {
		if last := siblings[len(siblings)-1].acl; slices.Equal(a.entries, last.entries) {
			return last
		}
	}
	if slices.Equal(a.entries, parent.acl.entries) {
		return parent.acl
	}
	return a
}

// wireSize returns the length of a list in a request or an answer.
func wireSize(entries []zkproto.ACL) int {
	n := 4
	for _, e := range entries {
		n += 12 + len(e.Scheme) + len(e.ID)
	}
	return n
}

// An Identity is a verified fact about a connection: its address, or a user with the hash of a
// password.
type Identity struct{ Scheme, ID string }

// Super is the scheme of an identity that may do everything. No ACL can name it.
const Super = "super"

// authenticates reports whether a client must prove the identity. Only such identities
// replace the scheme "auth" in an ACL.
func (i Identity) authenticates() bool {
	return i.Scheme == "digest" || i.Scheme == "sasl" || i.Scheme == "x509"
}

// checkACL turns a client's list into the list of a node: without duplicates, and with the
// client's identities in place of "auth". It refuses a list beyond the bounds, and an entry
// that this server could not enforce. Otherwise a node that its creator believes protected would be
// open to everyone.
func (t *Tree) checkACL(list []zkproto.ACL, as []Identity) (*acl, zkproto.Code) {
	if slices.Equal(list, openACL.entries) {
		return openACL, zkproto.CodeOK
	}
	tooLong := func() (*acl, zkproto.Code) {
		t.bounds.exceeded(BoundACL)
		return nil, zkproto.CodeInvalidACL
	}
	if len(list) > MaxACLEntries || wireSize(list) > maxACLBytes {
		return tooLong()
	}
	const few, checkSteps = 4, 50
	var seen map[zkproto.ACL]struct{} // faster for long lists
	if len(list) > few {
		t.steps += checkSteps * len(list)
		seen = make(map[zkproto.ACL]struct{}, len(list))
	}
	var checked []zkproto.ACL
	for i, a := range list {
		if seen == nil && slices.Contains(list[:i], a) {
			continue
		}
		if seen != nil {
			before := len(seen)
			if seen[a] = struct{}{}; len(seen) == before {
				continue
			}
		}
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
			if len(checked) > MaxACLEntries {
				return tooLong()
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
	size := wireSize(checked)
	if t.grown += max(0, size-wireSize(list)); size > maxACLBytes || len(checked) > MaxACLEntries || t.grown > maxGrowth {
		return tooLong()
	}
	return newACL(checked), zkproto.CodeOK
}

func validACL(a zkproto.ACL) bool {
	switch a.Scheme {
	case "world":
		return a.ID == "anyone"
	case "digest":
		// Like Java's split, this ignores empty parts at the end.
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

// ValidSASL reports whether an ACL can name this user. Apache's server parses every SASL user
// as a Kerberos name: name, name@realm or name/host@realm, where each part may be
// empty (KerberosName).
func ValidSASL(user string) bool {
	name, realm, hasRealm := strings.Cut(user, "@")
	return !hasRealm || strings.Count(name, "/") <= 1 && !strings.ContainsAny(realm, "/@")
}

// parseNetwork parses addr or addr/bits. Only the first bits of the address count.
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

// mayWrite is permits for a write to n, or to its list of children. Only the superuser may
// write below the node of all quotas, unless Bounds say otherwise.
func (t *Tree) mayWrite(n *node, perms int32, as []Identity) bool {
	if t.bounds.QuotasBySuper && inQuotas(n.path) && !slices.Contains(as, Identity{Scheme: Super}) {
		return false
	}
	return t.permits(n.acl, perms, as)
}

// permits reports whether a client with these identities may do any of perms. An entry with an
// unknown scheme grants nothing. The superuser needs no entry.
func (t *Tree) permits(a *acl, perms int32, as []Identity) bool {
	if a.anyone&perms != 0 {
		return true
	}
	t.steps += len(as) + len(a.networks)
	for _, id := range as {
		switch {
		case id.Scheme == Super:
			return true
		case id.Scheme != "ip":
			if a.index != nil && a.index.perms[id]&perms != 0 {
				return true
			}
		case len(a.networks) > 0 || a.index != nil:
			if addr, err := netip.ParseAddr(id.ID); err == nil && a.permitsAddress(perms, addr) {
				return true
			}
		}
	}
	t.steps += len(a.keys)
	if len(as) > fewIdentities {
		t.steps += 3 * len(a.keys) // one look-up each
	}
	for _, k := range a.keys {
		if k.perms&perms == 0 {
			continue
		}
		if i, ok := t.find(as, k.key); ok && as[i] == (Identity{a.entries[k.entry].Scheme, a.entries[k.entry].ID}) {
			return true
		}
	}
	return false
}

// permitsAddress is permits for a client with this address.
func (a *acl) permitsAddress(perms int32, addr netip.Addr) bool {
	for _, n := range a.networks {
		if n.perms&perms != 0 && n.prefix.Contains(addr) {
			return true
		}
	}
	for bits := 0; a.index != nil && bits <= addr.BitLen(); bits++ {
		if prefix, err := addr.Prefix(bits); err == nil && a.index.networks[prefix]&perms != 0 {
			return true
		}
	}
	return false
}

// A keyring has the identities of a client with their keys, which take long to compute.
type keyring struct {
	as   []Identity
	keys []uint64
	at   map[uint64]int // index by key; nil for fewIdentities, which are compared one by one
}

const fewIdentities = 4

func newKeyring(as []Identity) *keyring {
	k := &keyring{as: as, keys: make([]uint64, len(as))}
	if len(as) > fewIdentities {
		k.at = make(map[uint64]int, len(as))
	}
	for i, id := range as {
		k.keys[i] = keyOf(id)
		if k.at != nil {
			k.at[k.keys[i]] = i
		}
	}
	return k
}

// find returns the index of the identity with that key. It keeps the keyring of a client until the
// next call for another one, since a transaction has thousands of checks for one client.
func (t *Tree) find(as []Identity, key uint64) (int, bool) {
	if len(as) == 0 {
		return 0, false
	}
	// A slice of identities is replaced and never changed, see Identify.
	if k := t.last; len(k.as) != len(as) || &k.as[0] != &as[0] {
		t.last = newKeyring(as)
	}
	if t.last.at == nil {
		i := slices.Index(t.last.keys, key)
		return i, i >= 0
	}
	i, ok := t.last.at[key]
	return i, ok
}

// ACL returns the ACL of a node. It belongs to the tree: the caller must not change it.
func (t *Tree) ACL(path string, as ...Identity) ([]zkproto.ACL, zkproto.Stat, zkproto.Code) {
	n := t.lookup(path)
	switch {
	case n == nil:
		return nil, zkproto.Stat{}, zkproto.CodeNoNode
	case t.permits(n.acl, zkproto.PermAdmin, as):
		return n.acl.entries, n.stat(), zkproto.CodeOK
	case !t.permits(n.acl, zkproto.PermRead, as):
		return nil, zkproto.Stat{}, zkproto.CodeNoAuth
	}
	// A client that may only read does not see the hashes of passwords.
	acl := slices.Clone(n.acl.entries)
	for i, a := range acl {
		if a.Scheme == "digest" {
			user, _, _ := strings.Cut(a.ID, ":")
			acl[i].ID = user + ":x"
		}
	}
	return acl, n.stat(), zkproto.CodeOK
}

// SetACL replaces the ACL of a node. version is the ACL's version; -1 matches any. No
// watch fires.
func (t *Tree) SetACL(tx Txn, path string, acl []zkproto.ACL, version int32) (zkproto.Stat, zkproto.Code) {
	stat, code := t.setACL(tx, path, acl, version)
	t.finish(code)
	return stat, code
}

func (t *Tree) setACL(tx Txn, path string, list []zkproto.ACL, version int32) (zkproto.Stat, zkproto.Code) {
	refuse := func(code zkproto.Code) (zkproto.Stat, zkproto.Code) { return zkproto.Stat{}, code }
	if zkproto.ValidatePath(path) != nil {
		return refuse(zkproto.CodeBadArguments)
	}
	acl, code := t.checkACL(list, tx.As)
	if code != zkproto.CodeOK {
		return refuse(code)
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return refuse(zkproto.CodeNoNode)
	case !t.mayWrite(n, zkproto.PermAdmin, tx.As):
		return refuse(zkproto.CodeNoAuth)
	case version != -1 && version != n.aversion:
		return refuse(zkproto.CodeBadVersion)
	}
	n.acl, n.aversion = acl, n.aversion+1
	t.touch(n, setOf(PartACL))
	return n.stat(), zkproto.CodeOK
}
