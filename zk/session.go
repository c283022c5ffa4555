package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/zkproto"
)

// A Session is one life of a [Client] at the ensemble. It ends by expiry or by Close, and never
// comes back. Its operations wait for a connection while it has none. Once it is over, they
// fail with ErrSessionExpired, ErrClosed or ErrAuthFailed.
type Session struct {
	Calls
	client *Client
	id     int64
	passwd []byte
	ctx    context.Context
	cancel context.CancelCauseFunc

	shared sync.Map     // the values of Shared
	held   atomic.Int64 // bytes of long answers that no caller has taken, see held.go

	mu      sync.Mutex    // guards the fields below, and those of conn and request that say so
	over    error         // why the session is over; nil while it lives
	timeout time.Duration // the smallest that any server has answered
	proven  time.Time     // send time of the latest answered request
	served  time.Time     // when a server last answered a request; zero: never

	breaks       int // connections in a row that broke while requests had no answer, see unknown.go
	suspect      suspect
	bound        bool       // the connection's server has bound the session to the client's processes, see share.go
	modeHidden   bool       // the server never answers askMode
	keepsWatches bool       // the server cannot remove watches, so their events come and concern nobody
	lastZxid     int64      // of ordinary replies
	queue        []*request // not sent yet; outlives a connection
	xid          int32      // of the latest request, see nextXid
	watches      watchTable
	// Watches are registered relative to watchZxid. It does not advance while some watches are
	// not at the server: if the connection broke then, the events that they missed would be
	// lost.
	watchZxid   int64
	registering int   // outstanding registrations, on the current connection
	conn        *conn // nil while disconnected

	// The proof for callers that depend on the session, see lease.go.
	leases      []*Lease
	proof       quorumProof
	warm        time.Time     // probing goes on until then, though there is no lease
	reattaching bool          // requests wait for the next connection, see reattach.go
	modeKnown   chan struct{} // closed when the mode of the current connection's server is known
	probing     *request      // nil if no probe is outstanding
	probingFor  *Lease        // the lease whose node the probe checks; nil if there is none
	turn        int
}

// newSession returns the session that the server has just created, in answer to a request sent
// at the given time.
func newSession(c *Client, resp *zkproto.ConnectResponse, sent time.Time) *Session {
	s := &Session{
		client: c, id: resp.SessionID, passwd: resp.Passwd,
		timeout: millis(resp.Timeout), proven: sent, watches: newWatchTable(), modeKnown: make(chan struct{}),
		bound: resp.Bound,
	}
	s.proof.tick = c.cfg.TickTime
	s.proof.created(sent)
	s.Calls = Calls{chroot: c.cfg.Chroot, pool: c.pool, trace: c.cfg.Trace, send: s.send}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

// ID is the session's id. An ephemeral node names its owner by this id.
func (s *Session) ID() int64 { return s.id }

// Timeout is the session timeout that the server granted. If another server grants less when the
// session goes on there, Timeout shrinks. It never grows.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Context ends when the session is over. Its cause is, or wraps, ErrSessionExpired, ErrClosed
// or ErrAuthFailed. It ends at Deadline at the latest, also if no server can be reached.
func (s *Session) Context() context.Context { return s.ctx }

// Deadline is the moment until which the session is proven to live. Each new proof extends it.
// When it passes, the session is over.
//
// Against a single server, and without a Lease, every answer is a proof. A server that answers
// a request which we sent at time t has seen it at t or later, so it does not expire the
// session before t + Timeout. The followers of an ensemble answer without their leader, which
// alone expires sessions. So with a Lease, only requests that reach the leader prove the
// session (proof.go).
//
// Two margins are subtracted from the timeout: 1 % for clocks that run at different rates, and
// half a second (a tenth of the timeout, if that is less) for a scheduler that wakes us late.
func (s *Session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline().Add(-slept())
}

// deadline is Deadline by the clock of now. mu must be held.
func (s *Session) deadline() time.Time {
	if len(s.leases) > 0 {
		return deadlineFrom(s.proof.touched, s.timeout)
	}
	return deadlineFrom(s.proven, s.timeout)
}

// live runs the session from its first connection to its end. Called by run only.
func (s *Session) live(nc net.Conn) {
	var short stumbles
	for {
		began := time.Now()
		planned := s.connected(nc)
		if s.ctx.Err() != nil {
			return
		}
		if planned {
			s.client.rotation.again() // another server may lag behind this one
		} else {
			s.client.log.Info("zk: connection lost", "session", hex(s.id))
			short.pause(s.client.ctx, began, s.Timeout())
		}
		if nc = s.disconnected(planned); nc == nil {
			return
		}
	}
}

// connected serves one connection until it breaks or the session ends. It reports whether it
// closed the connection for a planned re-attach.
func (s *Session) connected(nc net.Conn) (planned bool) {
	c := newConn(s, nc)
	s.mu.Lock()
	s.conn, s.reattaching = c, false
	// The watches go first, so that no read of a caller can overtake the events that the server
	// owes us. (go-zookeeper sends them from a goroutine of their own.) Upkeep that the
	// previous connection did not send is out of date.
	rest := slices.DeleteFunc(s.queue, func(r *request) bool { return r.upkeep || r.asksMode || r.probesOthers || s.outdated(r) })
	s.queue, s.registering = c.beCareful(), 0
	for _, r := range s.watches.registrations(s.watchZxid, "") {
		s.queueUpkeep(r)
	}
	s.askMode()
	s.queue = append(s.queue, rest...)
	s.mu.Unlock()

	var wg sync.WaitGroup
	wg.Go(c.read)
	wg.Go(c.write)
	c.wakeWriter()
	s.heartbeat(c)
	c.nc.Close()
	wg.Wait()
	demand, _ := errors.AsType[*loginDemand](c.cause)
	if demand != nil {
		c.demanded(demand)
	}
	planned = c.cause == errReattach
	s.mu.Lock()
	s.conn = nil
	if c.mode != modeUnknown {
		s.modeKnown = make(chan struct{})
	}
	lost := c.pending.takeAll()
	for _, r := range lost {
		s.forgetArming(r)
	}
	var hopeless []*request
	var why error
	if _, told := errors.AsType[zkproto.Code](c.cause); !planned && c.cause != ErrClosed && demand == nil && !told {
		hopeless, why = c.broke(lost)
	}
	s.mu.Unlock()
	switch {
	case planned:
		s.client.cfg.Trace.reattaching(s.id)
	case len(lost) > 0:
		s.client.cfg.Trace.disconnected(s.id, fmt.Errorf("%w, without an answer to %v %s", c.cause, lost[0].op, lost[0].path))
	default:
		s.client.cfg.Trace.disconnected(s.id, c.cause)
	}
	// The cause is text only (%v, not %w): errors.Is must not take one request's bad answer for
	// another's.
	err := fmt.Errorf("%w: %v", ErrConnectionLoss, c.cause)
	switch {
	case c.cause == ErrClosed:
		err = ErrClosed
	case demand != nil && s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	}
	for _, r := range hopeless {
		r.complete(r.fail(why, slices.Contains(lost, r)))
	}
	for _, r := range lost {
		if slices.Contains(hopeless, r) {
			continue
		}
		r.complete(r.fail(err, demand == nil || r.xid != demand.xid))
	}
	return planned
}

// heartbeat keeps the session proven over c. It returns when c is broken or closed for a
// re-attach, or when the session is over.
func (s *Session) heartbeat(c *conn) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.broken:
			return
		case <-s.client.ctx.Done():
			s.close(c)
			return
		case <-c.heart:
		case <-timer.C:
		}
		s.mu.Lock()
		t, timeout, lapse := now(), s.timeout, s.deadline()
		// A ping goes out after a sixth of the timeout. So while the server answers, at least
		// two thirds of the timeout are left. If nothing is heard for two fifths, the
		// connection is given up, which leaves time to try other servers before the session
		// lapses.
		silent := time.Since(c.heard) > timeout*2/5
		if c.pinged.IsZero() && t.Sub(c.wrote) >= timeout/6 {
			c.pingDue = true
		}
		ping, nextPing := c.pingDue, c.wrote.Add(timeout/6)
		if ping || !c.pinged.IsZero() {
			nextPing = t.Add(timeout / 12)
		}
		nextProbe := s.probe(t)
		if !c.asked {
			s.askMode()
		}
		leave := c.drained()
		s.mu.Unlock()
		switch {
		case !t.Before(lapse):
			s.end(ErrSessionExpired)
			c.fail(errors.New("session lapsed"))
			return
		case leave:
			c.fail(errReattach)
			return
		case silent:
			c.fail(fmt.Errorf("nothing heard for %v", timeout*2/5))
			return
		case ping:
			c.wakeWriter()
		}
		next := min(timeout/12, lapse.Sub(t), nextPing.Sub(t), nextProbe.Sub(t))
		timer.Reset(max(next, time.Millisecond))
	}
}

// disconnected looks for a server until the session is attached again. It returns nil when the
// session is over.
func (s *Session) disconnected(planned bool) net.Conn {
	ctx := s.client.ctx
	if planned {
		var stop func()
		ctx, stop = s.outliving()
		defer stop()
	}
	ctx, cancel := context.WithDeadlineCause(ctx, s.Deadline(), ErrSessionExpired)
	defer cancel()
	s.mu.Lock()
	req := &zkproto.ConnectRequest{
		LastZxidSeen: s.lastZxid, Timeout: int32(s.client.cfg.SessionTimeout.Milliseconds()),
		SessionID: s.id, Passwd: s.passwd, HasReadOnly: true,
	}
	s.mu.Unlock()
	nc, resp, sent, err := s.client.connect(ctx, req, s.Timeout())
	switch {
	case err != nil:
		s.end(err)
		return nil
	case resp.SessionID != s.id:
		// The server hands out another session instead of reporting the expiry. To go on in
		// that session would be to lose every lock silently.
		nc.Close()
		s.end(ErrSessionExpired)
		return nil
	}
	s.mu.Lock()
	if !now().Before(s.deadline()) {
		// The timer of ctx did not run while the machine was suspended. A session that has
		// lapsed stays over, even if this server would continue it.
		s.mu.Unlock()
		nc.Close()
		s.end(ErrSessionExpired)
		return nil
	}
	s.timeout = min(s.timeout, millis(resp.Timeout))
	s.bound = resp.Bound
	s.prove(sent)
	s.proof.resumed(sent)
	s.mu.Unlock()
	s.client.cfg.Trace.sessionResumed(s.id)
	level := slog.LevelInfo
	if planned {
		level = slog.LevelDebug
	}
	s.client.log.Log(ctx, level, "zk: session resumed", "session", hex(s.id), "server", nc.RemoteAddr())
	return nc
}

// end ends the session, once. It cancels the session's context first, so that holders stop
// first, and then fails the waiting requests and watches.
func (s *Session) end(cause error) {
	s.cancel(cause)
	s.mu.Lock()
	if s.over != nil {
		s.mu.Unlock()
		return
	}
	s.over = cause
	unsent := s.queue
	s.queue = nil
	s.watches.persistent.end(cause)
	watches := s.watches.all()
	s.mu.Unlock()
	for _, r := range unsent {
		r.complete(r.fail(cause, false))
	}
	for _, w := range watches {
		w.c <- Event{Type: EventNone, Path: w.path(), Err: cause}
	}
	s.client.cfg.Trace.sessionOver(s.id, cause)
	s.client.log.Info("zk: session over", "session", hex(s.id), "cause", cause)
}

// close ends the session and asks the server to end it too. It waits for the answer for
// patience at most.
func (s *Session) close(c *conn) {
	s.end(ErrClosed)
	bye := newRequest(zkproto.OpCloseSession, "", nil, nil)
	s.mu.Lock()
	s.queue, s.reattaching = append(s.queue, bye), false
	s.mu.Unlock()
	c.wakeWriter()
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	select {
	case <-bye.done:
	case <-c.broken:
	case <-timer.C:
		s.client.log.Warn("zk: close session: no answer; the server will expire it", "session", hex(s.id))
	}
	c.fail(ErrClosed)
}

func hex(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
