package zk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"holdfast/zkproto"
)

// maxReply bounds one frame from a server. It is above the largest answer that our requests can
// get by default (1 MiB), and above the longest list of children that holdfast serve allows (32
// MiB). It is low enough to protect our memory.
const maxReply = 33 << 20

// A conn is one connection of a session. Its writer sends the queue. Its reader matches the
// replies, which come in order.
type conn struct {
	s      *Session
	nc     net.Conn
	wake   chan struct{} // holds a token while the writer has work
	heart  chan struct{} // holds a token when heartbeat must check again
	broken chan struct{}
	once   sync.Once // the first error breaks the connection
	cause  error     // that error; guarded by broken

	filled  time.Time // when the last bytes arrived; used by the reader only
	in      zkproto.Reader
	noYield time.Time // until when the writer does not yield; used by the writer only

	// guarded by s.mu:
	pending fifo       // sent, in order, not answered yet
	spare   []*request // room for the queue behind the batch that is being written
	pingDue bool
	pinged  time.Time            // when the outstanding ping was sent; zero if there is none
	covered map[string]WatchMode // see orderWatches
	mode    ensembleMode         // as the server answered
	asked   bool                 // the server was asked for its mode, see askMode
	began   time.Time
	careful int // requests that are sent one by one, see unknown.go
	wrote   time.Time
	heard   time.Time // as time.Now gives it
}

func newConn(s *Session, nc net.Conn) *conn {
	t := now()
	return &conn{
		s: s, nc: nc, wake: make(chan struct{}, 1), heart: make(chan struct{}, 1), broken: make(chan struct{}),
		covered: make(map[string]WatchMode), began: time.Now(), wrote: t, heard: time.Now(),
	}
}

// handshake attaches nc to a session, new or old. It returns the time just before it wrote the
// request. It sends nothing else before the answer arrives. A server that refuses the session
// closes the connection, and unread input would turn its answer into a reset (ClientCnxnSocket
// waits, too).
func handshake(ctx context.Context, nc net.Conn, req *zkproto.ConnectRequest) (*zkproto.ConnectResponse, time.Time, error) {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	frame := zkproto.EndFrame(req.Append(zkproto.BeginFrame(nil)), 0)
	sent := now()
	if _, err := nc.Write(frame); err != nil {
		return nil, sent, err
	}
	body, err := zkproto.ReadFrame(nc, nil, zkproto.MaxFrame)
	if err != nil {
		return nil, sent, err
	}
	var resp zkproto.ConnectResponse
	r := zkproto.NewReader(body)
	resp.Decode(r)
	if req.Processes != nil && r.Err() == nil && r.Remaining() > 0 {
		resp.Bound = r.Bool()
	}
	if err := r.Complete(); err != nil {
		return nil, sent, err
	}
	if !stop() {
		return nil, sent, context.Cause(ctx)
	}
	return &resp, sent, nil
}

// fail breaks the connection.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		c.s.client.log.Debug("zk: connection broken", "session", hex(c.s.id), "server", c.nc.RemoteAddr(), "err", err)
		c.cause = err
		close(c.broken)
		c.nc.Close()
	})
}

// transportFailed breaks the connection after a Read or a Write failed. If the error says that
// the session has expired (see Config.Dial), it ends the session first.
func (c *conn) transportFailed(err error) {
	if errors.Is(err, ErrSessionExpired) {
		c.s.end(err)
	}
	c.fail(err)
}

// lastReads is how long the reader may go on after a Write failed.
const lastReads = time.Second

// writeFailed breaks the connection after a Write failed. A server that stops has answered the requests that it took,
// and the answers may have arrived already. So the reader may first deliver them: it breaks the connection at its end.
func (c *conn) writeFailed(err error) {
	if !errors.Is(err, ErrSessionExpired) {
		select {
		case <-c.broken:
		case <-time.After(lastReads):
		}
	}
	c.transportFailed(err) // does nothing if the reader was first
}

func (c *conn) wakeWriter() { wake(c.wake) }
func (c *conn) wakeHeart()  { wake(c.heart) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write sends the queue, in one system call each time.
func (c *conn) write() {
	const keep = 64 << 10 // a larger buffer is rarely needed again
	var buf []byte
	for {
		select {
		case <-c.wake:
		case <-c.broken:
			return
		}
		c.letQueueGrow()
		if buf = c.take(buf[:0]); len(buf) == 0 {
			continue
		}
		if _, err := c.nc.Write(buf); err != nil {
			c.writeFailed(err)
			return
		}
		if cap(buf) > keep {
			buf = nil
		}
	}
}

// letQueueGrow yields until the goroutines that the last answers have woken have queued their
// requests. Then one system call and one turn of the server serve all of them. That saves more
// than the few yields cost.
//
// If the program's other goroutines compute, a yield lasts as long as the time slices of all of them, and
// brings nothing. After one that took longer than its requests are worth, the writer does not yield for a
// while.
func (c *conn) letQueueGrow() {
	const (
		turns = 16 // a bound for a load that never ends
		worth = time.Millisecond
		pause = time.Second
	)
	queued := 0
	for range turns {
		began := time.Now()
		if began.Before(c.noYield) {
			return
		}
		yield()
		c.s.mu.Lock()
		n := len(c.s.queue)
		c.s.mu.Unlock()
		if took := time.Since(began); took > worth*time.Duration(1+max(0, n-queued)) {
			c.noYield = began.Add(took + pause)
		}
		if n == queued {
			return
		}
		queued = n
	}
}

// yield is a variable for tests.
var yield = runtime.Gosched

// take moves the queue to the pending list and appends its frames to buf. It fills the list
// before the write, because an answer must find its request there. It copies the frames under
// the same lock, because an answered request may return to the pool, and some servers answer a
// request before they have read it. It notes the time before the write, so that the proof is
// never too optimistic.
func (c *conn) take(buf []byte) []byte {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	t := now()
	if !t.Before(c.s.deadline()) {
		// The session has lapsed, and heartbeat has not noticed yet: the machine may just have
		// resumed from a suspend. An answer to a request that we send now must not revive the
		// session.
		c.wakeHeart()
		return buf
	}
	if c.s.reattaching {
		return buf
	}
	if c.pingDue {
		h := zkproto.RequestHeader{Xid: zkproto.XidPing, Op: zkproto.OpPing}
		buf = zkproto.EndFrame(h.Append(zkproto.BeginFrame(buf)), 0)
		c.pingDue, c.pinged = false, t
	}
	var batch []*request
	switch {
	case c.careful == 0:
		batch, c.s.queue, c.spare = c.orderWatches(c.s.queue), c.spare, nil
	case len(c.s.queue) > 0 && c.pending.first() == nil:
		batch, c.s.queue = c.orderWatches(c.s.queue[:1:1]), c.s.queue[1:]
	}
	for _, r := range batch {
		if r.op == zkproto.OpSetWatches || r.op == zkproto.OpSetWatches2 {
			r.setXid(zkproto.XidSetWatches)
		} else {
			r.setXid(c.s.nextXid())
		}
		r.sent = t
		c.pending.push(r)
		buf = append(buf, r.frame...)
	}
	if len(buf) > 0 {
		c.wrote = t
	}
	if c.careful == 0 && cap(batch) <= 4096 { // keep the room for a later queue
		clear(batch)
		c.spare = batch[:0]
	}
	return buf
}

func (c *conn) read() {
	br := bufio.NewReaderSize(c.nc, 64<<10)
	var buf []byte
	for {
		waits := br.Buffered() == 0
		var err error
		if buf, err = zkproto.ReadFrame(br, buf, maxReply); err != nil {
			if errors.Is(err, zkproto.ErrFrameTooLarge) {
				c.refuseReply(err)
			}
			c.transportFailed(err)
			return
		}
		if waits {
			c.filled = time.Now()
		}
		if err = c.handle(buf); err != nil {
			c.fail(err)
			return
		}
	}
}

// refuseReply fails the first pending request with ErrTooLarge, because its answer is too large
// to read. The connection breaks too, but a retry would not help: the answer would be as large
// again (helix #962).
func (c *conn) refuseReply(err error) {
	c.s.mu.Lock()
	req := c.pending.first()
	if req != nil {
		c.pending.pop()
		c.s.forgetArming(req)
	}
	c.s.mu.Unlock()
	if req != nil {
		req.complete(req.fail(fmt.Errorf("%w: the answer: %w", ErrTooLarge, err), true))
	}
}

// handle processes one frame from the server.
func (c *conn) handle(frame []byte) error {
	r := &c.in
	r.Reset(frame)
	var h zkproto.ReplyHeader
	h.Decode(r)
	if err := r.Err(); err != nil {
		return err
	}
	if h.Err == zkproto.CodeSessionClosedRequireSASL {
		return &loginDemand{h.Xid, c.s.client.cfg.Auth}
	}
	switch h.Xid {
	case zkproto.XidNotification:
		return c.notification(r)
	case zkproto.XidPing:
		return c.pong()
	}
	req, err := c.answered(&h)
	if err != nil {
		return err
	}
	return c.deliver(req, &h, r, frame)
}

func (c *conn) notification(r *zkproto.Reader) error {
	var ev zkproto.WatcherEvent
	ev.Decode(r)
	if err := r.Complete(); err != nil {
		return err
	}
	c.s.mu.Lock()
	c.heard = c.filled
	catchUp := c.s.registering > 0
	fired := c.s.watches.fire(ev.Type, ev.Path)
	c.s.watches.persistent.notify(ev.Type, ev.Path, catchUp)
	c.s.mu.Unlock()
	for _, w := range fired {
		w.c <- Event{Type: ev.Type, Path: w.path(), CatchUp: catchUp}
	}
	return nil
}

func (c *conn) pong() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.pinged.IsZero() {
		return errors.New("answer to a ping that was not sent")
	}
	c.heard = c.filled
	c.s.served = c.filled
	c.s.prove(c.pinged)
	c.pinged = time.Time{}
	if c.drained() {
		c.wakeHeart()
	}
	return nil
}

// prove records the answer to a request that was sent at the given time. mu must be held.
func (s *Session) prove(sent time.Time) {
	if sent.After(s.proven) {
		s.proven = sent
	}
	if s.mode() == modeAlone {
		s.proof.touch(sent)
	}
}

// answered removes the request that h answers from the pending list.
func (c *conn) answered(h *zkproto.ReplyHeader) (*request, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	req := c.pending.first()
	if req == nil {
		return nil, fmt.Errorf("reply %d to no request", h.Xid)
	}
	if h.Xid != req.xid {
		return nil, fmt.Errorf("reply %d out of order, %d was next", h.Xid, req.xid)
	}
	c.pending.pop()
	c.heard = c.filled
	s.served = c.filled
	c.answers(req)
	s.prove(req.sent)
	if isCommit(req.op) && h.Err == zkproto.CodeOK && s.mode() != modeAlone {
		s.proof.committed(req.sent, now())
	}
	if h.Zxid > 0 {
		s.lastZxid = h.Zxid
	}
	// A server that refuses a registration has not looked for the events that the watches missed. The
	// connection is about to break (see deliver), and the next one must ask for the same events.
	if req.upkeep && req.op != zkproto.OpRemoveWatches && h.Err == zkproto.CodeOK {
		s.registering--
	}
	if s.registering == 0 {
		s.watchZxid = s.lastZxid
	}
	if c.drained() {
		c.wakeHeart()
	}
	return req, nil
}

// deliver completes req with the reply in r. An error breaks the connection.
func (c *conn) deliver(req *request, h *zkproto.ReplyHeader, r *zkproto.Reader, frame []byte) error {
	var broken error
	var outcome error
	switch {
	case h.Err == zkproto.CodeSessionExpired:
		outcome, broken = req.fail(ErrSessionExpired, false), h.Err
	case h.Err == zkproto.CodeSessionMoved:
		outcome, broken = req.fail(ErrConnectionLoss, false), h.Err
	case h.Err != zkproto.CodeOK:
		outcome = req.fail(h.Err, false)
		if h.Err == zkproto.CodeUnimplemented {
			c.s.mu.Lock()
			c.s.lacks(req.op)
			c.s.mu.Unlock()
		}
		if req.op == zkproto.OpSetWatches || req.op == zkproto.OpSetWatches2 {
			broken = fmt.Errorf("watches not restored: %w", h.Err)
		}
	case req.reply != nil:
		if err := c.s.keepsAnswer(req, len(frame)); err != nil {
			outcome = req.fail(err, false)
			break
		}
		req.reply.Decode(r)
		if broken = r.Complete(); broken != nil {
			outcome = req.fail(fmt.Errorf("%w: %w", ErrConnectionLoss, broken), true)
		}
	}
	switch {
	case req.asksMode && broken == nil:
		c.toldMode(req, h.Err)
	case req.watch != nil:
		c.s.armed(req, h.Err)
	case req.persistent != nil:
		if err := c.s.armedPersistent(req, h.Err); broken == nil {
			broken = err
		}
	case req.op == zkproto.OpSetWatches2 && h.Err == zkproto.CodeOK:
		c.s.restored(req)
	}
	req.complete(outcome)
	if req.gone.Load() {
		c.s.takeAnswer(req)
	}
	return broken
}
