package zkserver

import (
	"bytes"
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
// scheme digest is so: it is the ACL that knows whose password has which hash. Only where
// digest is what opens the door, the password must be that of a user.
func (s *Server) authenticate(c *conn, r *request) {
	switch {
	case r.bad:
	case r.auth.Scheme == "ip":
		s.reply(c, r.xid, 0, zkproto.CodeOK) // known from the start
		return
	case r.auth.Scheme == "digest" && r.auth.Auth != nil:
		if user, _, _ := bytes.Cut(r.auth.Auth, []byte(":")); len(user) > maxIdentityBytes {
			s.refused(LimitIdentities, "remote", c.nc.RemoteAddr(), "bytes", len(user))
			break
		}
		ids := []tree.Identity{digest(string(r.auth.Auth))}
		if s.users.isSuper(ids[0]) {
			ids = append(ids, tree.Identity{Scheme: tree.Super})
		} else if s.users.requires("digest") && !s.users.isUser(ids[0]) {
			break
		}
		if s.identify(c, ids...) {
			s.reply(c, r.xid, 0, zkproto.CodeOK)
			return
		}
	}
	s.refuse(c, r, zkproto.CodeAuthFailed)
}

// identify adds to what c is known to be, and reports whether there was room.
func (s *Server) identify(c *conn, ids ...tree.Identity) bool {
	o := &c.owned
	for _, id := range ids {
		if slices.Contains(o.identities, id) {
			continue
		}
		if !roomForIdentity(o.identities, id) {
			s.refused(LimitIdentities, "remote", c.nc.RemoteAddr(), "identities", len(o.identities), "bytes", identityBytes(id))
			return false
		}
		// Not in place: the tree has the old ones.
		o.identities = append(o.identities[:len(o.identities):len(o.identities)], id)
	}
	o.admitted = s.users.admits(o.identities)
	s.owner.tree.Identify(c.id, o.identities)
	return true
}

// The identities of a connection are bounded: a check of an ACL may look at all of them, and the
// scheme auth in an ACL becomes all of them. A login that exceeds a bound is refused.
const (
	maxIdentities         = 64
	maxIdentityBytes      = 1 << 10  // of each
	maxConnIdentitiesSize = 64 << 10 // of one connection
)

func identityBytes(id tree.Identity) int { return len(id.Scheme) + len(id.ID) }

// roomForIdentity reports whether a connection with the identities ids may have id, too.
func roomForIdentity(ids []tree.Identity, id tree.Identity) bool {
	size := identityBytes(id)
	if size > maxIdentityBytes || len(ids) >= maxIdentities {
		return false
	}
	for _, other := range ids {
		size += identityBytes(other)
	}
	return size <= maxConnIdentitiesSize
}

// mayNot reports whether c has yet to authenticate before it may ask for r. Pings are
// answered, so that somebody can type a password, but not for ever.
func (s *Server) mayNot(c *conn, r *request) bool {
	o := &c.owned
	switch {
	case o.admitted, r.op == zkproto.OpCloseSession:
		return false
	case r.op == zkproto.OpPing:
		return s.owner.now.Sub(o.attached) > o.session.timeout
	}
	return true
}

// refuse ends a connection for what it is, or is not. Its session stays: what it holds may
// belong to who was authenticated before.
func (s *Server) refuse(c *conn, r *request, code zkproto.Code) {
	// Neither who nor with what: a password may have come in the place of the user.
	s.counters.loginsRefused.Add(1)
	s.cfg.Logger.Warn("zkserver: client refused", "remote", c.nc.RemoteAddr(), "op", r.op, "err", code)
	if r.op == zkproto.OpSASL {
		s.replySASL(c, r.xid, code, nil)
	} else {
		s.reply(c, r.xid, 0, code)
	}
	s.finish(c)
}

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
