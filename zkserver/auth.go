package zkserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/tree"
)

// ParseUsers reads [Config.Users] from lines of user:password. It skips empty lines and lines that
// begin with #. The password is all text after the first colon, blanks included. The error names
// the line, and shows no password.
func ParseUsers(text string) (map[string]string, error) { return login.ParseUsers(text) }

// newUsers checks the fields of cfg for authentication. Its errors show no password.
func newUsers(cfg Config) (login.Users, error) {
	users, err := login.NewUsers(cfg.Users, cfg.SuperDigest, cfg.RequireAuth)
	if err != nil {
		return users, fmt.Errorf("zkserver: %w", err)
	}
	return users, nil
}

// SetUsers replaces Users, SuperDigest and RequireAuth of the server's Config by those of cfg.
// It ignores the other fields. It closes the connections of users that were removed or have a new
// password. Their clients may connect again, and must authenticate again. Their sessions live
// until they time out. Wrong guesses until now delay nobody any more.
//
// If cfg is not valid, SetUsers returns an error and changes nothing. If ctx ends first, the
// error is its cause, and the change may happen later. If the server has stopped, the error is
// ErrServerClosed, or the error that stopped it. SetUsers is safe for concurrent use.
func (s *Server) SetUsers(ctx context.Context, cfg Config) error {
	users, err := newUsers(cfg)
	if err != nil {
		return err
	}
	return s.inTurn(ctx, func(done chan<- struct{}) {
		old := s.users
		s.users = users
		s.guesses.Forget()
		for _, c := range s.owner.watchers {
			if !users.Knows(c.owned.identities, &old) {
				s.cfg.Logger.Info("zkserver: connection closed: its user was removed or has a new password", "remote", c.nc.RemoteAddr())
				s.finish(c)
				continue
			}
			s.setAdmitted(c, users.Admits(c.owned.identities))
		}
		close(done)
	})
}

// certificateOf returns a client's identity from its certificate. The TLS handshake must be over.
func certificateOf(nc net.Conn) []tree.Identity {
	if t, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return login.OfCertificate(t.ConnectionState().VerifiedChains)
	}
	return nil
}

// authenticate answers a login with the scheme digest. SchemeProcesses is no login. A login with the scheme ip always succeeds,
// because the server knows the address from the start.
func (s *Server) authenticate(c *conn, r *request) {
	ok := false
	switch {
	case r.bad:
	case r.auth.Scheme == "ip":
		ok = true
	case r.auth.Scheme == zkproto.SchemeProcesses:
		s.rebind(c.owned.session, r.group)
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeOK)
		return
	case r.auth.Scheme == "digest" && r.auth.Auth != nil:
		decide := func(bool) {}
		if name, guessed := s.users.Guessed(r.auth.Auth); guessed {
			if decide, ok = s.mayGuess(c, name); !ok {
				s.finishAnswered(c)
				return
			}
		}
		var ids []tree.Identity
		ids, ok = s.users.ByDigest(r.auth.Auth)
		decide(s.users.IsRight(ids))
		ok = ok && s.identify(c, ids...)
	}
	if !ok {
		s.refuse(c, r, zkproto.CodeAuthFailed)
		return
	}
	s.reply(c, r.xid, 0, zkproto.CodeOK)
}

// sasl answers one step of SASL DIGEST-MD5.
func (s *Server) sasl(c *conn, r *request) {
	if !r.bad {
		decide, early := func(bool) {}, false
		answer, ids, ok := c.owned.sasl.Step(&s.users, r.sasl.Token, func(name string) (ok bool) {
			decide, ok = s.mayGuess(c, name)
			early = !ok
			return ok
		})
		if early {
			s.finishAnswered(c)
			return
		}
		decide(ok)
		if ok && s.identify(c, ids...) {
			s.replySASL(c, r.xid, zkproto.CodeOK, answer)
			return
		}
	}
	code := zkproto.CodeAuthFailed
	if s.users.Requires("sasl") {
		code = zkproto.CodeSessionClosedRequireSASL // as Apache's server answers
	}
	s.refuse(c, r, code)
}

// mayGuess begins an attempt with the password of a user. It returns false if the attempt comes too early after wrong ones.
// The connection is then closed without an answer, as at other limits: AuthFailed would be final for most clients, also for
// one with the right password. decide tells whether the password was right.
func (s *Server) mayGuess(c *conn, name string) (decide func(right bool), ok bool) {
	attempt, wait := s.guesses.Begin(name, addressOf(c.nc).String())
	if wait > 0 {
		s.refused(LimitGuesses, "remote", c.nc.RemoteAddr(), "wait", wait)
	}
	return func(right bool) {
		if right {
			attempt.Right()
		} else {
			attempt.Wrong()
		}
	}, wait == 0
}

// identify adds to the identities of c. It reports whether there was room.
func (s *Server) identify(c *conn, ids ...tree.Identity) bool {
	o := &c.owned
	for _, id := range ids {
		sum, ok := login.Add(o.identities, id)
		if !ok {
			s.refused(LimitIdentities, "remote", c.nc.RemoteAddr(), "identities", len(o.identities), "bytes", login.Size(id))
			return false
		}
		o.identities = sum
	}
	s.setAdmitted(c, s.users.Admits(o.identities))
	s.owner.tree.Identify(c.id, o.identities)
	return true
}

// mayNot reports whether c must authenticate before the server answers r. For one session timeout
// the server answers pings, so that a person has time to type a password.
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

// refuse answers r with code and closes the connection. The session stays, because its nodes may
// belong to a client that was authenticated before.
func (s *Server) refuse(c *conn, r *request, code zkproto.Code) {
	// The log has no user and no scheme, because a client may have sent a password in their place.
	s.counters.loginsRefused.Add(1)
	s.cfg.Logger.Warn("zkserver: client refused", "remote", c.nc.RemoteAddr(), "op", r.op, "err", code)
	if r.op == zkproto.OpSASL {
		s.replySASL(c, r.xid, code, nil)
	} else {
		s.reply(c, r.xid, 0, code)
	}
	s.finish(c)
}

// replySASL answers one step. Like every answer to a login, it has no zxid.
func (s *Server) replySASL(c *conn, xid int32, code zkproto.Code, token []byte) {
	b := s.stage(c)
	start := len(b)
	b = (&zkproto.ReplyHeader{Xid: xid, Err: code}).Append(zkproto.BeginFrame(b))
	c.owned.staged = zkproto.EndFrame((&zkproto.SASLToken{Token: token}).Append(b), start)
	s.answered(c)
}
