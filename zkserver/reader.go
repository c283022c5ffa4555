package zkserver

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"

	"holdfast/zkproto"
)

// maxHandshakeFrame is the longest connect request. A usual one has 45 bytes. A client without a
// session gets no megabyte of memory.
const maxHandshakeFrame = 1024

// read is the reader's goroutine.
func (c *conn) read() {
	defer c.server.readers.Done()
	err := c.readAll()
	if errors.Is(err, zkproto.ErrFrameTooLarge) {
		c.server.refused(LimitFrame, "remote", c.nc.RemoteAddr(), "err", err)
	}
	c.leaveRoom(c.reserved)
	c.server.cfg.Logger.Debug("zkserver: connection ends", "remote", c.nc.RemoteAddr(), "err", err)
	c.mu.Lock()
	c.readerDone = true
	c.mu.Unlock()
	c.signal() // the writer may be waiting for the reader, see lastWords
	// read does not close the connection: the client may have closed its half only, as
	// `echo ruok | nc` does, and may be waiting for answers.
	c.server.queue.push(&request{kind: kindDisconnect, conn: c})
}

func (c *conn) readAll() error {
	in := bufio.NewReaderSize(c.nc, 4096)
	c.setReadDeadline(time.Now().Add(c.server.limits().HandshakeTime))
	if err := c.handshake(in); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.readingStopped() {
			c.server.refused(LimitHandshake, "remote", c.nc.RemoteAddr())
		}
		return err
	}
	for {
		r, err := c.next(in, true)
		if err != nil {
			return err
		}
		if r.undecoded || len(r.frame) > largeRequest || !c.mayServeInline() {
			for _, r := range r.portions() {
				if !c.push(r) {
					return net.ErrClosed
				}
			}
			continue
		}
		group, err := c.together(r, in)
		if !c.pushGroup(group, in.Buffered() == 0) {
			return net.ErrClosed
		}
		if err != nil {
			return err
		}
	}
}

// together returns r with the requests that have arrived with it and may be served inline with it. An error is that
// of the request behind them.
func (c *conn) together(r *request, in *bufio.Reader) (group []*request, err error) {
	most, writes := min(inlineRequests, cap(c.slots)), 0
	group = make([]*request, 0, inlineRequests)
	for {
		group = append(group, r)
		if isWrite(r.op) {
			writes++
		}
		if len(group) >= most || writes >= inlineWrites || !frameBuffered(in) {
			return group, nil
		}
		if r, err = c.next(in, false); err != nil || r == nil { // nil: there is no room for it yet
			return group, err
		}
	}
}

// next reads and decodes a request. If wait is false and there is no room for the request, next returns nil
// for it, and the request stays in the buffer.
func (c *conn) next(in *bufio.Reader, wait bool) (*request, error) {
	limit, n := c.server.limits().FrameBytes, 0
	if head, err := in.Peek(4); err == nil {
		n = int(int32(binary.BigEndian.Uint32(head)))
	}
	if n > newcomerFrame && n <= limit && !c.mayBeLong() {
		limit = newcomerFrame
	}
	if 0 < n && n <= limit {
		if !c.reserve(n, wait) {
			if !wait {
				return nil, nil
			}
			return nil, net.ErrClosed
		}
		if n > newcomerFrame {
			c.limitSlowness(n)
			defer c.setReadDeadline(time.Time{})
		}
	}
	r := newRequest(n)
	r.kind, r.conn = kindOperation, c
	var err error
	if r.frame, err = zkproto.ReadFrame(in, r.frame, limit); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.readingStopped() {
			c.server.refused(LimitBuffers, "remote", c.nc.RemoteAddr(), "bytes", n)
		}
		return nil, err
	}
	if n > 0 {
		r.room = n + requestBytes
	}
	if err := r.decode(); err != nil {
		return r, err
	}
	if r.op == zkproto.OpAuth && r.auth.Scheme == zkproto.SchemeProcesses {
		r.group = c.confirm(r.auth.Auth)
	}
	return r, nil
}

// frameBuffered reports whether next can read a frame without waiting for the network.
func frameBuffered(in *bufio.Reader) bool {
	if in.Buffered() < 4 {
		return false
	}
	head, err := in.Peek(4)
	return err == nil && uint64(in.Buffered()-4) >= uint64(binary.BigEndian.Uint32(head))
}

// handshake reads the connect request or the four-letter word.
func (c *conn) handshake(in *bufio.Reader) error {
	first, err := in.Peek(4)
	if err != nil {
		return err
	}
	if word := string(first); isWord(word) {
		in.Discard(4)
		r := &request{kind: kindWord, conn: c, word: word}
		c.prepareWord(r)
		c.push(r)
	} else {
		r := &request{kind: kindConnect, conn: c}
		frame, err := zkproto.ReadFrame(in, nil, maxHandshakeFrame)
		if err != nil {
			return err
		}
		body := zkproto.NewReader(frame)
		r.connect.Decode(body)
		if err := body.Err(); err != nil {
			return err
		}
		r.frame = frame // Stats counts its bytes
		// Reset the deadline before the push: the answer may be a refusal, which sets its own deadline.
		c.setReadDeadline(time.Time{})
		r.group = c.confirm(r.connect.Processes)
		r.certificate = certificateOf(c.nc) // the TLS handshake is over, since the first byte has arrived
		c.push(r)
	}
	return nil
}

// push gives r to the owner as soon as the connection has a slot for it.
func (c *conn) push(r *request) bool { return c.admit(r) && c.offer(r) }

// pushGroup serves small requests at once if it can, see serveInline. Otherwise it gives them to the
// owner. The connection has no other requests. last says that the client has sent nothing after them.
func (c *conn) pushGroup(group []*request, last bool) bool {
	room := 0
	for _, r := range group {
		if !c.admit(r) {
			return false
		}
		room += r.room
	}
	if last && c.server.serveInline(c, group) { // the owner recycles the requests
		c.reserved -= room
		return true
	}
	for i, r := range group {
		if !c.offer(r) {
			c.server.counters.outstanding.Add(-int64(len(group) - i - 1)) // offer has counted r
			return false
		}
	}
	return true
}

// admit waits until the connection has a slot for r.
func (c *conn) admit(r *request) bool {
	if !c.servePenalty() {
		return false
	}
	r.at = 1 + time.Since(c.server.opened) // never 0
	select {
	case c.slots <- struct{}{}:
	default:
		// Count it, but do not log it: this only slows down a busy client, and nothing is wrong.
		c.server.counters.of(LimitOutstanding).count.Add(1)
		select {
		case c.slots <- struct{}{}:
		case <-c.stop:
			return false
		case <-c.quit:
			return false
		}
	}
	if r.kind != kindWord {
		c.server.counters.outstanding.Add(1)
	}
	return true
}

// offer gives r to the owner as soon as there is room in the queue. It returns false if the
// connection ends first; then nobody answers r.
func (c *conn) offer(r *request) bool {
	size := r.room // the owner recycles r
	for {
		room := c.server.queue.offer(r)
		if room == nil {
			c.reserved -= size
			return true
		}
		if c.await(room) {
			continue
		}
		if r.kind == kindOperation || r.kind == kindConnect {
			c.server.counters.outstanding.Add(-1)
		}
		return false
	}
}

// The reader rests after a request that exceeds a limit. A refusal costs as much as an answer, and
// a client that ignores the first refusal may repeat the request for ever.
const (
	penalty    = 200 * time.Microsecond
	maxPenalty = 100 * time.Millisecond
)

// servePenalty waits for the time that the owner has imposed on c. It returns false if the connection
// ends first. The reader calls it.
func (c *conn) servePenalty() bool {
	n := c.penalties.Swap(0)
	if n == 0 {
		return true
	}
	rest := time.NewTimer(min(time.Duration(n)*penalty, maxPenalty))
	defer rest.Stop()
	select {
	case <-rest.C:
		return true
	case <-c.stop:
	case <-c.quit:
	}
	return false
}
