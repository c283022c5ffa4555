package zkserver

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

// identitiesOf is who somebody is before he has said anything: an address. It is empty
// for connections that have none, such as Unix sockets.
func identitiesOf(nc net.Conn) []tree.Identity {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	if !ok {
		return nil
	}
	return []tree.Identity{{Scheme: "ip", ID: addr.Unmap().String()}}
}

// authenticate adds an identity to a connection. Whatever a client says of itself by the
// scheme digest is so: it is the ACL that knows whose password has which hash.
func (s *Server) authenticate(c *conn, r *request) {
	o := &c.owned
	switch {
	case r.bad:
	case r.auth.Scheme == "ip":
		s.reply(c, r.xid, 0, zkproto.CodeOK) // known from the start
		return
	case r.auth.Scheme == "digest" && r.auth.Auth != nil && len(o.identities) < maxIdentities:
		if id := digest(string(r.auth.Auth)); !slices.Contains(o.identities, id) {
			o.identities = append(o.identities[:len(o.identities):len(o.identities)], id)
			s.owner.tree.Identify(c.id, o.identities)
		}
		s.reply(c, r.xid, 0, zkproto.CodeOK)
		return
	}
	s.reply(c, r.xid, 0, zkproto.CodeAuthFailed)
	s.finish(c)
}

// maxIdentities keeps what a check of an ACL costs within bounds: a connection with more
// is refused.
const maxIdentities = 64

// digest is the identity of user:password (DigestAuthenticationProvider).
func digest(userPassword string) tree.Identity {
	user, _, _ := strings.Cut(userPassword, ":")
	hash := sha1.Sum([]byte(userPassword))
	return tree.Identity{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// whoAmI lists identities without the hashes of passwords.
func whoAmI(as []tree.Identity) *zkproto.WhoAmIResponse {
	var m zkproto.WhoAmIResponse
	for _, id := range as {
		user := id.ID
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		m.Infos = append(m.Infos, zkproto.ClientInfo{Scheme: id.Scheme, User: user})
	}
	return &m
}
