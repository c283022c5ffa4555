package zk

import (
	"context"
	"errors"
	"fmt"
	"net"

	"holdfast/zkproto"
)

// A SASLStart begins the authentication of one connection. server is the host and port, as in Config.Servers. ctx ends
// when the client gives up the connection.
type SASLStart func(ctx context.Context, server string) (SASLStep, error)

// A SASLStep takes a token of the server and returns the next one of the client. The first call gets nil, since the
// client begins. last means that the client has nothing to say after this one.
type SASLStep func(challenge []byte) (response []byte, last bool, err error)

// SASLAuth is a SASL mechanism of another package, such as GSSAPI of holdfast/contrib/gssapi. A server that has SASL
// chooses the mechanism by its own configuration. mechanism and user are for messages. The client calls start for each
// connection, from one goroutine at a time. An error of start or of a step ends the connection, and the client tries
// again. An error that wraps ErrAuthFailed counts as a refusal of the server.
func SASLAuth(mechanism, user string, start SASLStart) Auth {
	return Auth{scheme: mechanism, user: user, start: start}
}

// maxSASLSteps bounds a mechanism that never ends. GSSAPI takes three.
const maxSASLSteps = 10

// sasl authenticates by the mechanism of another package.
func (a Auth) sasl(ctx context.Context, nc net.Conn, server string) error {
	step, err := a.start(ctx, server)
	if err != nil {
		return err
	}
	var challenge []byte
	for xid := int32(1); xid <= maxSASLSteps; xid++ {
		response, last, err := step(challenge)
		if err != nil {
			return err
		}
		if response == nil {
			response = []byte{} // servers fail on a null token
		}
		challenge, err = saslStep(nc, xid, response)
		switch {
		case errors.Is(err, ErrAuthFailed):
			return fmt.Errorf("%w: the server did not accept %v; it may have no SASL, another mechanism, or other users", err, a)
		case err != nil || last:
			return err
		case xid == 1 && len(challenge) == 0:
			return fmt.Errorf("%w: the server has no SASL, or not the mechanism %s; its JAAS file tells", ErrAuthFailed, a.scheme)
		}
	}
	return fmt.Errorf("%w: the mechanism %s has not ended after %d steps", zkproto.ErrMalformed, a.scheme, maxSASLSteps)
}
