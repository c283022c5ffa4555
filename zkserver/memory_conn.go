package zkserver

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Connect returns the client's end of a new connection over memory, for a client in the server's
// process. The server treats it like a connection on a Unix socket. If it refuses the connection
// for a limit, the first Read returns io.EOF. The error wraps net.ErrClosed if the server has
// stopped or is stopping. The caller closes the connection.
func (s *Server) Connect() (net.Conn, error) {
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return nil, net.ErrClosed
	}
	up, down := newStream(), newStream()
	s.accept(&memoryConn{in: up, out: down}) // closes it if the server stops just now
	return &memoryConn{in: down, out: up}, nil
}

// A memoryConn is one end of a connection over memory. Unlike net.Pipe it has buffers, so that
// a write does not wait for the reader.
type memoryConn struct{ in, out *stream }

func (c *memoryConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *memoryConn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close ends both directions. The other end can still read what was written.
func (c *memoryConn) Close() error {
	c.in.end(func(s *stream) { s.unread = true })
	c.out.end(func(s *stream) { s.complete = true })
	return nil
}

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

// streamRoom is how many bytes a stream takes before a write waits, as a socket's buffer.
const streamRoom = 64 << 10

// A stream is one direction of a connection over memory.
type stream struct {
	mu       sync.Mutex // guards the fields below
	changed  sync.Cond  // any of them, or a deadline has passed
	buf      []byte     // buf[off:] is written and not read
	off      int
	complete bool // nothing more is written
	unread   bool // nobody reads any more
	readBy   deadline
	writeBy  deadline
}

// A deadline of a stream. When it passes, the timer wakes the reads and writes that wait.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	return s
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
			s.changed.Broadcast()
			return n, nil
		case s.complete:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(b []byte) (written int, err error) {
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
		if n := min(len(b)-written, streamRoom-(len(s.buf)-s.off)); n > 0 {
			if len(s.buf)+n > cap(s.buf) && s.off > 0 {
				s.buf, s.off = s.buf[:copy(s.buf, s.buf[s.off:])], 0
			}
			s.buf = append(s.buf, b[written:written+n]...)
			written += n
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
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
	s.changed.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (s *stream) setDeadline(d *deadline, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	if d.at = t; !t.IsZero() && !s.complete && !s.unread {
		d.timer = time.AfterFunc(time.Until(t), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		})
	}
	s.changed.Broadcast()
	return nil
}
