package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/proc"
	"holdfast/zkproto"
)

// A Client keeps a session at the ensemble, and creates a new one when that is over. Use Dial
// to make one. It is safe for concurrent use.
type Client struct {
	Calls
	cfg    Config
	log    *slog.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned

	rotation rotation // used by run only
	trusted  bool     // there was a session; used by run only
	refusals int      // see refusedBy; used by run only

	session atomic.Pointer[Session] // nil between two sessions; every call reads it
	shared  sync.Map                // the values of Shared

	sharing sync.Mutex // held while the processes of group are read and their request is queued

	mu      sync.Mutex    // guards the fields below
	group   *proc.Group   // the processes that sessions belong to, see share.go; nil if their timeout alone ends them
	changed chan struct{} // closed, and replaced, after session has changed
	dialErr error         // the latest failure to connect, nil after a success
	refused error         // Auth or certificates were refused: there will be no further session
}

// Dial connects to one of cfg.Servers and waits for a session. It retries until ctx ends; its
// error then says why the latest attempt failed. It fails early, with ErrAuthFailed, when
// every server has refused cfg.Auth. It fails early, with a
// *tls.CertificateVerificationError, when no server has a certificate that cfg.TLS accepts.
// After Dial has returned, ctx has no effect on the client.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	go c.run()
	_, err = c.Session(ctx)
	if err == nil && cfg.CreateChroot {
		err = c.createChroot(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// newClient returns a client that does not run yet.
func newClient(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("zk: dial: %w", err)
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = DefaultSessionTimeout
	}
	if cfg.TickTime == 0 {
		cfg.TickTime = DefaultTickTime
	}
	resolve := cfg.Dial == nil
	if resolve {
		cfg.Dial = dialAddr
	}
	if cfg.Chroot == "/" {
		cfg.Chroot = ""
	}
	cfg.Auth = slices.Clone(cfg.Auth) // the caller may change its slice later (kazoo #509)
	cfg.TLS = tlsAtLeast12(cfg.TLS)
	c := &Client{
		cfg: cfg, log: cfg.Logger, done: make(chan struct{}), changed: make(chan struct{}),
		rotation: newRotation(cfg.Servers, resolve),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.Calls = Calls{chroot: cfg.Chroot, pool: new(sync.Pool), trace: cfg.Trace, send: c.send}
	c.belong()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

func (c *Client) createChroot(ctx context.Context) error {
	if c.cfg.Chroot == "" {
		return nil
	}
	bare := &Calls{pool: c.pool, send: c.send}
	return bare.CreateAll(ctx, c.cfg.Chroot)
}

// Close ends the session, here first and then at the server, and waits for all goroutines of
// the client. It waits a few seconds at most for the server's answer. The server removes the
// session's ephemeral nodes at once. If the server cannot be reached, the nodes stay until the
// session times out there. Outstanding and later operations
// fail with ErrClosed. Close can be called more than once; it returns nil.
func (c *Client) Close() error {
	c.cancel()
	<-c.done
	return nil
}

// Session returns the current session, and waits for one if there is none. If ctx ends first,
// the error says why the client could not reach the servers. Once every server has refused a
// new session's Auth, Session fails with ErrAuthFailed, for good.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	for ctx.Err() == nil {
		if s := c.session.Load(); s != nil && s.ctx.Err() == nil {
			return s, nil
		}
		c.mu.Lock()
		s, changed := c.session.Load(), c.changed
		c.mu.Unlock()
		if s != nil && s.ctx.Err() == nil {
			return s, nil // published before we read changed, which reports the next one
		}
		select {
		case <-changed:
		case <-c.done:
			return nil, &Error{Op: "session", Err: c.end()}
		case <-ctx.Done():
		}
	}
	err := ended(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialErr != nil {
		err = fmt.Errorf("%w (%w)", err, c.dialErr)
	}
	return nil, &Error{Op: "session", Err: err}
}

// run creates one session after the other and runs it, until Close.
func (c *Client) run() {
	defer close(c.done)
	var short stumbles
	for {
		req := &zkproto.ConnectRequest{
			Timeout: int32(c.cfg.SessionTimeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true,
		}
		nc, resp, sent, err := c.connect(c.ctx, req, c.cfg.SessionTimeout)
		if err != nil {
			return // closed or refused: connect retries for as long as its context lives
		}
		s := newSession(c, resp, sent)
		c.log.Info("zk: session created", "session", hex(s.id), "server", nc.RemoteAddr(), "timeout", s.timeout)
		c.cfg.Trace.sessionCreated(s.id, s.timeout)
		c.publish(s)
		began := time.Now()
		s.live(nc)
		c.publish(nil)
		short.pause(c.ctx, began, c.cfg.SessionTimeout)
	}
}

// stumbles counts consecutive sessions of a client, or connections of a session, that ended
// right after their start. If a server accepts us and drops us again and again, pause keeps the
// client from reconnecting in a tight loop (samuel #72).
type stumbles int

func (n *stumbles) pause(ctx context.Context, began time.Time, timeout time.Duration) {
	if *n++; time.Since(began) > timeout/6 {
		*n = 0
	}
	if *n > 1 {
		sleep(ctx, min(10*time.Millisecond<<min(*n, 7), timeout/12))
	}
}

func (c *Client) publish(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.Store(s)
	close(c.changed)
	c.changed = make(chan struct{})
}

// connect tries the servers in turn until one has attached req's session, whose timeout it shares
// out among them: the granted one, or the requested one of a new session. It gives up when a
// server or the transport reports that the session expired, when ctx ends, and for a new session
// when every server has refused the client's Auth or none has shown a trusted certificate. Called
// by run, and by CloseSession for a client that does not run.
func (c *Client) connect(ctx context.Context, req *zkproto.ConnectRequest, timeout time.Duration) (net.Conn, *zkproto.ConnectResponse, time.Time, error) {
	if err := c.end(); err != ErrClosed {
		return nil, nil, time.Time{}, err
	}
	c.rotation.begin()
	distrusted, tried, round := 0, 0, 0
	pause := 20 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		t, nc, resp, sent, err := c.attach(ctx, round, req, timeout)
		if err == nil && resp.Timeout > 0 && resp.SessionID != 0 {
			c.trusted, c.rotation.last = true, t
			c.cfg.Trace.connectDone(t.server, time.Since(began), nil)
			c.failed(nil)
			return nc, resp, sent, nil
		}
		if err == nil {
			nc.Close()
			err = errors.New("the server refused a new session")
			switch {
			case resp.Timeout > 0:
				err = errors.New("the server answered with a session that has no id")
			case req.SessionID != 0:
				err = ErrSessionExpired
			}
		}
		c.cfg.Trace.connectDone(t.server, time.Since(began), err)
		if req.SessionID != 0 && errors.Is(err, ErrSessionExpired) {
			return nil, nil, sent, err // reported by the server or by the transport: see Config.Dial
		}
		switch {
		case errors.Is(err, ErrAuthFailed):
			if c.refusedByAll(1) && req.SessionID == 0 {
				return nil, nil, sent, c.refuse(t.server, err)
			}
		case !errors.Is(err, io.EOF): // a server that limits guesses closes connections without an answer
			c.refusals = 0
		}
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			distrusted = 0
		} else if distrusted++; distrusted >= c.rotation.addresses() && !c.trusted {
			// No server will ever be accepted. If there has been a session, we go on: somebody
			// may be replacing certificates at this moment.
			return nil, nil, sent, c.refuse(t.server, err)
		}
		if ctx.Err() != nil {
			break
		}
		c.failed(fmt.Errorf("connect to %s: %w", t.server, err))
		c.log.Debug("zk: connect failed", "server", t.server, "err", err)
		if tried++; tried < c.rotation.addresses() || len(c.rotation.left) > 0 {
			continue
		}
		tried = 0
		round++
		sleep(ctx, pause)
		pause = min(2*pause, time.Second, timeout/10)
	}
	if c.ctx.Err() != nil {
		return nil, nil, time.Time{}, ErrClosed
	}
	return nil, nil, time.Time{}, ErrSessionExpired
}

// sleep waits for a random time between d/2 and 3d/2, or until ctx ends. Without the jitter,
// all clients of a server that restarts reconnect in step (CURATOR-441).
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *Client) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialErr = err
}

// attach connects to the next target, attaches the connection to req's session and
// authenticates it. The lookup of the target's name and all steps after it share one patience. An
// error names the address that it is about.
func (c *Client) attach(ctx context.Context, round int, req *zkproto.ConnectRequest, timeout time.Duration) (target, net.Conn, *zkproto.ConnectResponse, time.Time, error) {
	began := time.Now()
	lookup, cancel := context.WithDeadline(ctx, began.Add(c.patience(round, timeout)))
	t, err := c.rotation.target(lookup)
	cancel()
	if err != nil {
		return t, nil, nil, time.Time{}, err
	}
	ctx, cancel = context.WithDeadline(ctx, began.Add(c.patience(round, timeout))) // the lookup may have changed the number of addresses
	defer cancel()
	nc, err := c.cfg.Dial(ctx, t.network, t.addr)
	if err != nil {
		return t, nil, nil, time.Time{}, err // it names the address
	}
	nc, resp, sent, err := c.open(ctx, nc, t, req)
	if err != nil && t.addr != t.host {
		err = fmt.Errorf("%s: %w", t.addr, err)
	}
	return t, nc, resp, sent, err
}

// open turns nc into a session's connection: TLS, handshake, authentication. It closes nc if
// one of them fails.
func (c *Client) open(ctx context.Context, nc net.Conn, t target, req *zkproto.ConnectRequest) (_ net.Conn, _ *zkproto.ConnectResponse, sent time.Time, err error) {
	if c.cfg.TLS != nil {
		if nc, err = startTLS(ctx, nc, c.cfg.TLS, t.host); err != nil {
			return nil, nil, sent, err
		}
	}
	belonging := *req
	belonging.Processes = c.processes(t)
	resp, sent, err := handshake(ctx, nc, &belonging)
	switch {
	case err != nil:
		err = fmt.Errorf("handshake: %w%s", err, c.hint(err))
	case resp.Timeout > 0: // otherwise the session is gone, and the server is about to close
		err = authenticate(ctx, nc, t.host, c.cfg.Auth)
	}
	if err != nil {
		nc.Close()
		return nil, nil, sent, err
	}
	return nc, resp, sent, nil
}

// hint explains a handshake that ended with err. Servers that do not serve yet and servers in
// read-only mode just close the connection (ZooKeeperServer.processConnectRequest), so the
// hint lists what it may be.
func (c *Client) hint(err error) string {
	const closed = " (the server does not serve yet; or it lost its quorum and is read-only: start or reconnect the other servers"
	switch {
	case !hungUp(err):
		return ""
	case c.cfg.TLS != nil:
		return closed + ")"
	}
	return closed + "; or its port wants TLS)"
}

// send gives reqs to the current session. If that ends before anything was sent, send gives
// them to the next one.
func (c *Client) send(ctx context.Context, reqs []*request) {
	for {
		s, err := c.Session(ctx)
		if err != nil {
			var e *Error
			errors.As(err, &e)
			for _, r := range reqs {
				r.complete(r.fail(e.Err, false))
			}
			return
		}
		s.send(ctx, reqs)
		for _, r := range reqs {
			if err := r.result(); !errors.Is(err, ErrSessionExpired) || MayHaveHappened(err) {
				return
			}
		}
		for _, r := range reqs {
			r.again()
		}
	}
}
