package zk

import (
	"context"
	"errors"

	"holdfast/internal/proc"
	"holdfast/zkproto"
)

// A session belongs to this process: the client says so when it connects over a Unix socket, and a server of holdfast ends
// the session as soon as the process is dead, see Config.Outlive. Share adds processes. The client names all of them each
// time that it connects, and Share also tells the server of the connection that is in use. The server's part is
// zkserver/bound.go.

// belong makes the client's sessions belong to this process, unless Config.Outlive is set or the system cannot identify
// processes.
func (c *Client) belong() {
	if c.cfg.Outlive {
		return
	}
	if g, err := proc.Self(); err == nil {
		c.group = &g
	}
}

// processes returns what a ConnectRequest to t says about the processes that the session belongs to.
func (c *Client) processes(t target) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.network != "unix" || c.group == nil {
		return nil
	}
	return c.group.Append(nil)
}

// Share makes the client's sessions belong to the process pid, too. When this process ends without Close, the server waits
// for the end of pid before it ends the session at once. So no other client acquires a lock while pid still works under it.
// The session's timeout is the limit. When Share returns nil, it holds for the current session and all later ones.
//
// Share is for a process that works under a lock of this client. It changes nothing where a session does not belong to
// its client's process: on other servers than those of holdfast, over TCP, with Config.Outlive, and on other systems than
// Linux. There it returns nil: at once in the last two cases, and in the others when the client has a connection. It
// returns an error if pid does not exist. If more than 63 processes that were shared are alive, sessions have their
// timeout from then on, as with Config.Outlive.
func (c *Client) Share(ctx context.Context, pid int) error {
	if ctx.Err() != nil {
		return &Error{Op: "share", Err: ended(ctx)}
	}
	c.mu.Lock()
	if c.group == nil {
		c.mu.Unlock()
		return nil
	}
	g, err := c.group.With(pid)
	switch {
	case err == nil:
		c.group = &g
	case errors.Is(err, proc.ErrTooMany):
		c.group, err = nil, nil
	}
	c.mu.Unlock()
	if err != nil {
		return &Error{Op: "share", Err: err}
	}
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		if err := s.belongTo(ctx); err == nil || !retryable(err) {
			return err
		}
		// Wait until there is a connection. It may be one that was made before pid was known, so tell its server, too.
		if _, _, err := c.Exists(ctx, "/"); err != nil && !retryable(err) {
			return err
		}
	}
}

func retryable(err error) bool {
	return errors.Is(err, ErrConnectionLoss) || errors.Is(err, ErrSessionExpired)
}

// belongTo tells the server of the current connection to which processes the session belongs, if that server wants to know.
// Concurrent calls name the processes in the order of their requests, so the last request names all of them.
func (s *Session) belongTo(ctx context.Context) error {
	r, err := s.queueProcesses()
	if r == nil {
		return err
	}
	s.await(ctx, r.self[:])
	return r.result()
}

// queueProcesses queues the request of belongTo. There is none if the server does not want to know.
func (s *Session) queueProcesses() (*request, error) {
	c := s.client
	c.sharing.Lock()
	defer c.sharing.Unlock()
	c.mu.Lock()
	named := []byte{} // nobody
	if c.group != nil {
		named = c.group.Append(nil)
	}
	c.mu.Unlock()
	r := newRequest(zkproto.OpAuth, "", &zkproto.AuthRequest{Scheme: zkproto.SchemeProcesses, Auth: named}, nil)
	r.belongs = true
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil || s.conn == nil:
		return nil, ErrConnectionLoss
	case !s.bound:
		return nil, nil
	}
	s.queue = append(s.queue, r)
	s.conn.wakeWriter()
	return r, nil
}

// outdated completes r and returns true if r names processes: the server of the next connection may not want to know, and
// if it does, it knows already. mu must be held.
func (s *Session) outdated(r *request) bool {
	if r.belongs {
		r.complete(r.fail(ErrConnectionLoss, false))
	}
	return r.belongs
}
