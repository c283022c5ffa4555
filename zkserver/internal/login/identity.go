package login

import (
	"crypto/sha1"
	"encoding/base64"
	"net"
	"net/netip"
	"slices"
	"strings"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// The identities of a connection are bounded. A check of an ACL may look at all of them, and the
// scheme auth in an ACL becomes all of them.
const (
	MaxIdentities    = 64
	MaxIdentityBytes = 1 << 10  // of each, see Size
	maxTotalBytes    = 64 << 10 // of one connection
)

// Size returns the bytes of id that count for the bounds.
func Size(id tree.Identity) int { return len(id.Scheme) + len(id.ID) }

// Add returns ids with id appended. If that exceeds a bound, ok is false. If ids has id already, Add
// returns ids. Add never changes ids in place, because the tree keeps the slice.
func Add(ids []tree.Identity, id tree.Identity) (sum []tree.Identity, ok bool) {
	if slices.Contains(ids, id) {
		return ids, true
	}
	size := Size(id)
	if size > MaxIdentityBytes || len(ids) >= MaxIdentities {
		return nil, false
	}
	for _, other := range ids {
		size += Size(other)
	}
	if size > maxTotalBytes {
		return nil, false
	}
	return append(ids[:len(ids):len(ids)], id), true
}

// OfAddress returns the identity of a client's address, which needs no login. There is none
// if the address is not a TCP address, such as that of a Unix socket.
func OfAddress(remote net.Addr) []tree.Identity {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return nil
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	if !ok {
		return nil
	}
	return []tree.Identity{{Scheme: "ip", ID: addr.Unmap().String()}}
}

// Digest returns the identity of user:password (DigestAuthenticationProvider).
func Digest(userPassword string) tree.Identity {
	user, _, _ := strings.Cut(userPassword, ":")
	hash := sha1.Sum([]byte(userPassword))
	return tree.Identity{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// WhoAmI lists identities without the hashes of passwords.
func WhoAmI(ids []tree.Identity) *zkproto.WhoAmIResponse {
	var m zkproto.WhoAmIResponse
	for _, id := range ids {
		user := id.ID
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		m.Infos = append(m.Infos, zkproto.ClientInfo{Scheme: id.Scheme, User: user})
	}
	return &m
}
