package zk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"holdfast/zkproto"
)

// Password returns the session's password. A client that knows it and the ID can attach to the session, see CloseSession.
// It is a secret.
func (s *Session) Password() []byte { return s.passwd }

// CloseSession ends the session of another client at the servers of cfg: it attaches to the session with its id and
// password, and closes it. So its ephemeral nodes are gone, and the next client acquires its locks. Only a process that
// knows that the session's client is dead may do this. For a session that has ended before, it returns nil. It tries until
// ctx ends.
func CloseSession(ctx context.Context, cfg Config, id int64, password []byte) error {
	cfg.Outlive = true
	c, err := newClient(cfg)
	if err != nil {
		return err
	}
	defer c.cancel()
	req := &zkproto.ConnectRequest{Timeout: int32(c.cfg.SessionTimeout.Milliseconds()), SessionID: id, Passwd: password, HasReadOnly: true}
	nc, _, _, err := c.connect(ctx, req, c.cfg.SessionTimeout)
	switch {
	case ctx.Err() != nil:
		return &Error{Op: "closeSession", Err: ended(ctx)}
	case errors.Is(err, ErrSessionExpired):
		return nil
	case err != nil:
		return &Error{Op: "closeSession", Err: err}
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	frame := (&zkproto.RequestHeader{Xid: 1, Op: zkproto.OpCloseSession}).Append(zkproto.BeginFrame(nil))
	if _, err := nc.Write(zkproto.EndFrame(frame, 0)); err != nil {
		return &Error{Op: "closeSession", Err: err}
	}
	reply, err := zkproto.ReadFrame(nc, nil, zkproto.MaxFrame)
	var h zkproto.ReplyHeader
	if err == nil {
		r := zkproto.NewReader(reply)
		h.Decode(r)
		err = r.Err()
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: %w", ErrConnectionLoss, err)
	case err == nil && h.Err != zkproto.CodeOK:
		err = h.Err
	default: // some servers close the connection without an answer
		return nil
	}
	return &Error{Op: "closeSession", Err: err}
}
