package zk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"holdfast/zkproto"
)

// An Auth is an identity that the client proves to every server that it connects to. Make one
// with [DigestAuth], [SASLDigestAuth] or [SASLAuth]. Printing or logging it never shows its password.
type Auth struct {
	scheme string
	user   string
	// A function, because fmt prints only an address for it, even where it prints the fields of
	// a struct without calling its methods.
	password func() string
	start    SASLStart // of SASLAuth
}

const (
	schemeDigest = "digest"
	schemeSASL   = "sasl-digest"
)

// DigestAuth is ZooKeeper's scheme "digest". Servers accept every password: another password is
// another identity, which may have no permission on a node (ErrNoAuth). The password is sent in
// clear text, so use TLS.
func DigestAuth(user, password string) Auth {
	return Auth{scheme: schemeDigest, user: user, password: func() string { return password }}
}

// SASLDigestAuth is SASL DIGEST-MD5, which ZooKeeper servers with a JAAS file offer. The server
// checks the password and proves that it knows it, too. The password itself is not sent. But
// MD5 protects a weak password badly, and nothing protects the requests that follow: use TLS.
// The identity has the scheme "sasl".
func SASLDigestAuth(user, password string) Auth {
	return Auth{scheme: schemeSASL, user: user, password: func() string { return password }}
}

// String returns the scheme and the user.
func (a Auth) String() string { return fmt.Sprintf("%s user %q", a.scheme, a.user) }

// Format writes String for every verb.
func (a Auth) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// LogValue returns String for package log/slog.
func (a Auth) LogValue() slog.Value { return slog.StringValue(a.String()) }

// checkAuth returns an error if auths are invalid.
func checkAuth(auths []Auth) error {
	var sasl bool
	for _, a := range auths {
		switch {
		case a.password == nil && a.start == nil:
			return errors.New("an empty Auth: use DigestAuth, SASLDigestAuth or SASLAuth")
		case a.scheme == schemeDigest && strings.Contains(a.user, ":"):
			// The client sends user:password, so the server would read another user. The user
			// is not shown, because it may be a password in the wrong argument.
			return fmt.Errorf("auth %s: a user with a colon", a.scheme)
		case a.user == "":
			return fmt.Errorf("auth %v: no user", a)
		case a.start == nil && a.password() == "":
			return fmt.Errorf("auth %v: no password", a)
		}
		if a.scheme == schemeSASL || a.start != nil {
			if sasl {
				return fmt.Errorf("auth %v: a connection has room for one SASL identity", a)
			}
			sasl = true
		}
	}
	return nil
}

// authenticate proves all of auths on a connection that is attached to a session but not in use
// yet. So no request and no restored watch can come before, and none fails if authentication
// fails. ErrAuthFailed means that the server refuses; after any other error another connection to
// it may succeed.
//
// The answers do not prove the session: servers do not count authentication as a sign
// of life (ZooKeeperServer.processPacket).
func authenticate(ctx context.Context, nc net.Conn, server string, auths []Auth) error {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for _, a := range auths {
		var err error
		switch {
		case a.start != nil:
			err = a.sasl(ctx, nc, server)
		case a.scheme == schemeSASL:
			err = a.saslDigest(nc)
		default:
			err = a.digest(nc)
		}
		if err != nil {
			return fmt.Errorf("authenticate as %v: %w", a, err)
		}
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

func (a Auth) digest(nc net.Conn) error {
	_, err := exchange(nc, zkproto.OpAuth, zkproto.XidAuth, &zkproto.AuthRequest{
		Scheme: a.scheme, Auth: []byte(a.user + ":" + a.password()),
	})
	if errors.Is(err, ErrAuthFailed) {
		return fmt.Errorf("%w: the server does not accept this scheme, which may be turned off there, or knows no such user and password", err)
	}
	return err
}

// exchange sends one step of an authentication and returns the body of the answer.
func exchange(nc net.Conn, op zkproto.Op, xid int32, body encoder) (*zkproto.Reader, error) {
	frame := (&zkproto.RequestHeader{Xid: xid, Op: op}).Append(zkproto.BeginFrame(nil))
	if _, err := nc.Write(zkproto.EndFrame(body.Append(frame), 0)); err != nil {
		return nil, err
	}
	reply, err := zkproto.ReadFrame(nc, nil, zkproto.MaxFrame)
	if err != nil {
		return nil, err
	}
	var h zkproto.ReplyHeader
	r := zkproto.NewReader(reply)
	h.Decode(r)
	switch {
	case r.Err() != nil:
		return nil, r.Err()
	case h.Xid != xid:
		return nil, fmt.Errorf("%w: reply %d to the authentication", zkproto.ErrMalformed, h.Xid)
	case h.Err == zkproto.CodeSessionClosedRequireSASL:
		return nil, ErrAuthFailed
	case h.Err == zkproto.CodeUnimplemented: // the server does not know SASL
		return nil, fmt.Errorf("%w: %w", ErrAuthFailed, h.Err)
	case h.Err != zkproto.CodeOK:
		return nil, h.Err
	}
	return r, nil
}

// refuse records that the servers refuse this client for good. A retry would go on for ever,
// and some servers count failed logins.
func (c *Client) refuse(server string, err error) error {
	err = fmt.Errorf("connect to %s: %w", server, err)
	c.mu.Lock()
	if c.refused == nil {
		c.refused = err
	}
	c.mu.Unlock()
	c.log.Error("zk: turned down for good; the client gives up", "server", server, "err", err)
	return err
}

// end returns the reason why there is no further session.
func (c *Client) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil && c.ctx.Err() == nil {
		return c.refused
	}
	return ErrClosed
}

// refusalsOfOne is how often a server refuses a login before the client believes it. Apache's servers
// keep the name of the SASL user that is logging in in one place for all connections
// (ZOOKEEPER-4839). So they can check one user's answer against the password of another.
const refusalsOfOne = 2

// refusedByAll counts n refusals of one server, and reports whether all servers have refused the client's
// identities since the last attempt that ended in another way. A member that is being upgraded can refuse what
// the others accept. So the refusals of some end neither the search for a new session nor a session
// that lives: its holders go on until its deadline. Called by run only.
func (c *Client) refusedByAll(n int) bool {
	c.refusals += n
	return c.refusals >= refusalsOfOne*c.rotation.addresses()
}

// A loginDemand is the cause of a connection whose server requires an identity that the client has not
// proven. The server answers so instead of executing a request, which may be a ping, and closes the
// connection. It does not touch the session, and another server may accept it.
type loginDemand struct {
	xid int32 // of the request that was answered
	has []Auth
}

func (d *loginDemand) Error() string {
	has := "none"
	if len(d.has) > 0 {
		has = fmt.Sprint(d.has)
	}
	return fmt.Sprintf("%v: the server requires a login, and this client has %s (enforce.auth.schemes of the server says which it accepts: sasl, digest or x509)",
		ErrAuthFailed, has)
}

// Unwrap returns ErrAuthFailed.
func (d *loginDemand) Unwrap() error { return ErrAuthFailed }

// demanded counts the refusal of c's server. If every server refuses, it ends the session and the client, but leaves
// the session a timeout since the last request that was answered: its holders go on until their deadline.
// Called by run only, when c is closed.
func (c *conn) demanded(d *loginDemand) {
	s := c.s
	s.mu.Lock()
	served, timeout := s.served, s.timeout
	s.mu.Unlock()
	if s.client.refusedByAll(refusalsOfOne) && time.Since(served) > timeout {
		s.end(s.client.refuse(c.nc.RemoteAddr().String(), d))
	}
}
