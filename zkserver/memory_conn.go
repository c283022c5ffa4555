package zkserver

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"holdfast/internal/proc"
)

// Connect returns the client's end of a new connection over memory, for a client in the server's
// process. The server treats it like a connection on a Unix socket. If a limit refuses the
// connection, the first Read returns io.EOF. The error wraps net.ErrClosed if the server has
// stopped or is stopping. The caller closes the connection. Connect is safe for concurrent use.
func (s *Server) Connect() (net.Conn, error) {
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return nil, net.ErrClosed
	}
	up, down := newStream(), newStream()
	s.accept(&memoryConn{in: up, out: down}) // closes it if the server stops at this moment
	return &memoryConn{in: down, out: up}, nil
}

// A memoryConn is one end of a connection over memory. Unlike net.Pipe it has buffers, so
// a write does not wait for the reader.
type memoryConn struct{ in, out *stream }

func (c *memoryConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *memoryConn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close ends both directions. The other end can still read the bytes that were written before.
func (c *memoryConn) Close() error {
	c.in.end(func(s *stream) { s.unread = true })
	c.out.end(func(s *stream) { s.complete = true })
	return nil
}

// Confirm returns nil if the first of g is this process, see conn.confirm.
func (c *memoryConn) Confirm(g proc.Group) error { return g.ConfirmSelf() }

func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }

func (c *memoryConn) LocalAddr() net.Addr  { return memoryAddr{} }
func (c *memoryConn) RemoteAddr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// streamRoom is how many bytes a stream takes before a write blocks, like a socket's buffer.
const streamRoom = 64 << 10

// A stream is one direction of a connection over memory.
type stream struct {
	writing sync.Mutex // held by a write, so that no other write comes between its parts

	mu       sync.Mutex // guards the fields below
	readable sync.Cond  // there may be bytes to read, or the stream has ended
	writable sync.Cond  // there may be room, or the stream has ended
	waiting  int        // writes that wait for room
	buf      []byte     // buf[off:] is written but not read
	off      int
	complete bool // the writer has closed
	unread   bool // the reader has closed
	readBy   deadline
	writeBy  deadline
}

func newStream() *stream {
	s := new(stream)
	s.readable.L, s.writable.L = &s.mu, &s.mu
	s.readBy.wakes, s.writeBy.wakes = &s.readable, &s.writable
	return s
}

// A deadline is a read or write deadline of a stream. The stream's lock guards it.
type deadline struct {
	at    time.Time // zero: none
	wakes *sync.Cond
	timer *time.Timer // wakes the waiting goroutines; nil until there is a deadline
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// start starts the timer, or restarts it for another deadline.
func (d *deadline) start() {
	if d.timer != nil {
		d.timer.Reset(time.Until(d.at))
		return
	}
	d.timer = time.AfterFunc(time.Until(d.at), func() {
		d.wakes.L.Lock()
		defer d.wakes.L.Unlock()
		d.wakes.Broadcast()
	})
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (s *stream) setDeadline(d *deadline, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.at = t; t.IsZero() || s.complete || s.unread {
		d.stop() // after the end nobody waits
	} else {
		d.start()
	}
	return nil
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.unread:
			return 0, net.ErrClosed
		case s.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case s.off < len(s.buf):
			n := copy(b, s.buf[s.off:])
			if s.off += n; s.off == len(s.buf) {
				s.buf, s.off = s.buf[:0], 0
			}
			// Wake a writer only for much room: it copies the unread bytes each time, and with
			// little room it soon blocks again.
			if s.waiting > 0 && len(s.buf)-s.off <= streamRoom/2 {
				s.writable.Broadcast()
			}
			return n, nil
		case s.complete:
			return 0, io.EOF
		}
		s.readable.Wait()
	}
}

func (s *stream) write(b []byte) (written int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.complete:
			return written, net.ErrClosed
		case s.unread:
			return written, io.ErrClosedPipe
		case s.writeBy.passed():
			return written, os.ErrDeadlineExceeded
		case written == len(b):
			return written, nil
		}
		if n := s.put(b[written:]); n > 0 {
			written += n
			continue
		}
		s.waiting++
		s.writable.Wait()
		s.waiting--
	}
}

// writeNow writes as much as there is room for. It returns 0 if the stream has ended.
func (s *stream) writeNow(b []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete || s.unread {
		return 0
	}
	return s.put(b)
}

// put adds as much of b as there is room for. s.mu is held.
func (s *stream) put(b []byte) int {
	n := min(len(b), streamRoom-(len(s.buf)-s.off))
	if n <= 0 {
		return 0
	}
	if len(s.buf)+n > cap(s.buf) && s.off > 0 {
		s.buf, s.off = s.buf[:copy(s.buf, s.buf[s.off:])], 0
	}
	s.buf = append(s.buf, b[:n]...)
	s.readable.Broadcast()
	return n
}

// end applies change, which ends the stream for its writer or its reader.
func (s *stream) end(change func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
	if s.unread {
		s.buf, s.off = nil, 0
		s.readBy.stop()
	}
	if s.complete {
		s.writeBy.stop()
	}
	s.readable.Broadcast()
	s.writable.Broadcast()
}
