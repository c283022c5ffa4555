package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/zkproto"
)

// A Client keeps a session at the ensemble, and makes the next one when that is
// over. Use Dial to make one. It is safe for concurrent use.
type Client struct {
	calls
	cfg    Config
	log    *slog.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned

	rotation rotation // used by run only
	trusted  bool     // there was a session; used by run only

	session atomic.Pointer[Session] // nil between two sessions; every call reads it

	mu      sync.Mutex    // guards the fields below
	changed chan struct{} // closed, and replaced, after session has changed
	dialErr error         // the latest failure to connect, nil after a success
	refused error         // Auth or certificates were turned down: there will be no further session
}

// Dial connects to one of cfg.Servers and waits for a session. It keeps trying until
// ctx ends; its error then says why the latest attempt failed. It fails at once when
// cfg.Auth is refused, and again at the next attempt, with ErrAuthFailed; and when no
// server had a certificate that cfg.TLS accepts, with a *tls.CertificateVerificationError.
// The ctx has no meaning for the client after Dial has returned.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
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
	cfg.Auth = slices.Clone(cfg.Auth) // the caller may go on to change its own (kazoo #509)
	cfg.TLS = tlsAtLeast12(cfg.TLS)
	c := &Client{
		cfg: cfg, log: cfg.Logger, done: make(chan struct{}), changed: make(chan struct{}),
		rotation: newRotation(cfg.Servers, resolve),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.calls = calls{chroot: cfg.Chroot, pool: new(sync.Pool), trace: cfg.Trace, send: c.send}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	_, err := c.Session(ctx)
	if err == nil && cfg.CreateChroot {
		err = c.createChroot(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Chroot is what stands before every path on its way to the server, "" if nothing does:
// two clients of one ensemble mean the same node if chroot and path together are the same.
func (c *Client) Chroot() string { return c.cfg.Chroot }

func (c *Client) createChroot(ctx context.Context) error {
	bare := calls{pool: c.pool, send: c.send}
	return bare.ensure(ctx, c.cfg.Chroot)
}

// ensure makes node and what is missing above it. It begins at the node itself, for a
// client may be allowed that alone: neither to create what is above nor, since 3.8.4, to
// ask whether it exists (ZOOKEEPER-2590). That a server refuses to let the node be read
// says that it is there.
func (c calls) ensure(ctx context.Context, node string) error {
	for node != "" {
		_, _, err := c.Get(ctx, node)
		switch {
		case err == nil, errors.Is(err, ErrNoAuth):
			return nil
		case errors.Is(err, ErrConnectionLoss) && SafeToRetry(err):
			continue
		case !errors.Is(err, ErrNoNode):
			return err
		}
		_, _, err = c.Create(ctx, node, nil, Persistent)
		switch {
		case err == nil, errors.Is(err, ErrNodeExists):
			return nil
		case errors.Is(err, ErrConnectionLoss): // made or not: look again
		case errors.Is(err, ErrNoNode):
			if err := c.ensure(ctx, node[:strings.LastIndexByte(node, '/')]); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// Close ends the session, here first and then at the server, which removes its
// ephemeral nodes at once, and waits for all goroutines of the client. If the server
// cannot be reached, the nodes stay until the session times out there. Operations
// that are under way, and all later ones, fail with ErrClosed. It is safe to call
// Close more than once; it returns nil.
func (c *Client) Close() error {
	c.cancel()
	<-c.done
	return nil
}

// Session returns the present session, waiting for one if need be. When ctx ends
// first, the error says why the servers could not be reached. Once the
// servers have refused the client's Auth, it fails with ErrAuthFailed, for good.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	for ctx.Err() == nil {
		if s := c.session.Load(); s != nil && s.ctx.Err() == nil {
			return s, nil
		}
		c.mu.Lock()
		s, changed := c.session.Load(), c.changed
		c.mu.Unlock()
		if s != nil && s.ctx.Err() == nil {
			return s, nil // it came before changed, which tells of the one after it
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

// run makes one session after the other and lives it, until Close.
func (c *Client) run() {
	defer close(c.done)
	var short stumbles
	for {
		req := &zkproto.ConnectRequest{
			Timeout: int32(c.cfg.SessionTimeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true,
		}
		nc, resp, sent, err := c.connect(c.ctx, req)
		if err != nil {
			return // closed or refused: connect tries for as long as its context lives
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

// stumbles counts what ended as soon as it had begun, in a row: the sessions of a client,
// the connections of a session. A server that accepts and then drops us, over and over,
// is not asked in a tight loop (samuel #72).
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

// connect tries the servers in turn until one has attached req's session. It gives up when
// a server or the transport says that the session expired, when two servers have refused
// the client's Auth, when none has shown a certificate to be trusted, and when ctx ends.
// Called by run only.
func (c *Client) connect(ctx context.Context, req *zkproto.ConnectRequest) (net.Conn, *zkproto.ConnectResponse, time.Time, error) {
	if err := c.end(); err != ErrClosed {
		return nil, nil, time.Time{}, err
	}
	c.rotation.begin()
	refusals, distrusted, tried, round := 0, 0, 0, 0
	pause := 20 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		t, nc, resp, sent, err := c.attach(ctx, round, req)
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
			return nil, nil, sent, err // the server says so, or the transport: see Config.Dial
		}
		if errors.Is(err, ErrAuthFailed) {
			// Not at the first one: Apache's servers keep the name of whoever is logging
			// in with SASL in one place for all connections (ZOOKEEPER-4839), so they can
			// check one user's answer against the password of another.
			if refusals++; refusals == 2 {
				return nil, nil, sent, c.refuse(t.server, err)
			}
		}
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			distrusted = 0
		} else if distrusted++; distrusted >= c.rotation.addresses() && !c.trusted {
			// No server will ever do. Had there been a session, somebody may be replacing
			// certificates at this moment.
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
		pause = min(2*pause, time.Second, c.cfg.SessionTimeout/10)
	}
	if c.ctx.Err() != nil {
		return nil, nil, time.Time{}, ErrClosed
	}
	return nil, nil, time.Time{}, ErrSessionExpired
}

// sleep waits for between half of d and one and a half, or until ctx ends. Without
// the jitter, all clients of a server that restarts come back in step (CURATOR-441).
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

// attach makes one connection to the next target, attaches it to req's session and
// authenticates it. An error says which address it is about.
func (c *Client) attach(ctx context.Context, round int, req *zkproto.ConnectRequest) (target, net.Conn, *zkproto.ConnectResponse, time.Time, error) {
	lookup, cancel := context.WithTimeout(ctx, c.patience(round))
	t, err := c.rotation.target(lookup)
	cancel()
	if err != nil {
		return t, nil, nil, time.Time{}, err
	}
	ctx, cancel = context.WithTimeout(ctx, c.patience(round)) // the number of addresses is known now
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

// open makes a session's connection of nc, or closes it.
func (c *Client) open(ctx context.Context, nc net.Conn, t target, req *zkproto.ConnectRequest) (_ net.Conn, _ *zkproto.ConnectResponse, sent time.Time, err error) {
	if c.cfg.TLS != nil {
		if nc, err = startTLS(ctx, nc, c.cfg.TLS, t.host); err != nil {
			return nil, nil, sent, err
		}
	}
	resp, sent, err := handshake(ctx, nc, req)
	switch {
	case err != nil:
		err = fmt.Errorf("handshake: %w%s", err, c.hint(err))
	case resp.Timeout > 0: // otherwise the session is gone, and the server about to hang up
		err = authenticate(ctx, nc, c.cfg.Auth)
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
	const closed = " (the server does not serve yet; or it lost its quorum and is read-only, as its answer to srvr then says: start or reconnect the other servers"
	switch {
	case !hungUp(err):
		return ""
	case c.cfg.TLS != nil:
		return closed + ")"
	}
	return closed + "; or its port wants TLS)"
}

// send gives reqs to the present session; if it ends before anything was sent, to
// the next one.
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
