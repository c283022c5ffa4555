package zkserver

import (
	"bufio"
	"errors"
	"net"
	"os"
	"time"

	"holdfast/zkproto"
)

// A connect request has 45 bytes. Who has not shown a session yet gets no megabyte.
const maxHandshakeFrame = 1024

// read is the reader's goroutine.
func (c *conn) read() {
	defer c.server.readers.Done()
	err := c.readAll()
	if errors.Is(err, zkproto.ErrFrameTooLarge) {
		c.server.refused(LimitFrame, "remote", c.nc.RemoteAddr(), "err", err)
	}
	c.server.cfg.Logger.Debug("zkserver: connection ends", "remote", c.nc.RemoteAddr(), "err", err)
	c.mu.Lock()
	c.readerDone = true
	c.mu.Unlock()
	c.signal() // the writer may be waiting for us, see lastWords
	// The connection is not closed here: the client may have closed its half only, as
	// `echo ruok | nc` does, and be waiting for answers.
	c.server.queue.push(&request{kind: kindDisconnect, conn: c})
}

func (c *conn) readAll() error {
	in := bufio.NewReaderSize(c.nc, 4096)
	c.setReadDeadline(time.Now().Add(c.server.limits.HandshakeTime))
	if err := c.handshake(in); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.readingStopped() {
			c.server.refused(LimitHandshake, "remote", c.nc.RemoteAddr())
		}
		return err
	}
	for {
		r := newRequest(in)
		r.kind, r.conn = kindOperation, c
		var err error
		if r.frame, err = zkproto.ReadFrame(in, r.frame, c.server.limits.FrameBytes); err != nil {
			return err
		}
		if err := r.decode(); err != nil {
			return err
		}
		for _, r := range r.portions() {
			if !c.push(r) {
				return net.ErrClosed
			}
		}
	}
}

// handshake reads what a connection begins with.
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
		// Before the push: the answer may be a refusal, which sets a deadline of its own.
		c.setReadDeadline(time.Time{})
		r.certificate = certificateOf(c.nc) // known since the first byte has come
		c.push(r)
	}
	return nil
}

// push hands r to the owner as soon as the connection has a slot for it.
func (c *conn) push(r *request) bool {
	if !c.waitForRoom(len(r.frame)) || !c.servePenalty() {
		return false
	}
	r.at = 1 + time.Since(c.server.opened) // never 0
	select {
	case c.slots <- struct{}{}:
	default:
		// Only counted: it is how a busy client is slowed down, and nothing is wrong with it.
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
	for {
		room := c.server.queue.offer(r)
		if room == nil {
			return true
		}
		select {
		case <-room:
		case <-c.stop:
			return false
		case <-c.quit:
			return false
		}
	}
}
