package zktest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A pipe is one direction of a connection: the bytes that one end has written and the other has
// not read yet. It waits on a condition variable, so that a waiting goroutine counts as blocked
// inside a synctest bubble.
type pipe struct {
	net *network

	mu      sync.Mutex
	changed sync.Cond // on mu
	data    []byte
	end     error // what the reader gets behind data: io.EOF, or that the connection broke
	refuse  error // what the writer gets from now on

	readDeadline, writeDeadline deadline
}

// pipeCapacity stands for a socket's buffers: a writer waits if its peer does not read.
const pipeCapacity = 64 << 10

func newPipe(n *network) *pipe {
	p := &pipe{net: n}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch stalled := p.net.stalled.Load(); {
		case p.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case p.end != nil && (len(p.data) == 0 || p.end == net.ErrClosed):
			return 0, p.end
		case len(p.data) > 0 && !stalled:
			n := copy(b, p.data)
			p.data = append(p.data[:0], p.data[n:]...)
			p.changed.Broadcast()
			return n, nil
		case len(b) == 0:
			return 0, nil
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.refuse != nil:
			return written, p.refuse
		case p.writeDeadline.passed:
			return written, os.ErrDeadlineExceeded
		case written == len(b):
			return written, nil
		}
		if n := min(pipeCapacity-len(p.data), len(b)-written); n > 0 {
			p.data = append(p.data, b[written:written+n]...)
			written += n
			p.changed.Broadcast()
			continue
		}
		p.changed.Wait()
	}
}

// finish ends the pipe. The reader gets end after the remaining bytes, the writer gets refuse.
// The first call counts.
func (p *pipe) finish(end, refuse error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.end = end
	}
	if p.refuse == nil {
		p.refuse = refuse
	}
	p.changed.Broadcast()
}

// abandon is finish by the reader, which drops the remaining bytes.
func (p *pipe) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end, p.data = net.ErrClosed, nil
	if p.refuse == nil {
		p.refuse = syscall.EPIPE
	}
	p.changed.Broadcast()
}

func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

// A deadline is a timer that marks itself as passed.
type deadline struct {
	passed bool
	timer  *time.Timer
	set    int // number of changes, so that a replaced timer that still fires does nothing
}

// setDeadline sets d, one of p's two deadlines.
func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.set++
	d.passed = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !d.passed {
		mine := d.set
		d.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if d.set == mine {
				d.passed = true
				p.changed.Broadcast()
			}
		})
	}
	p.changed.Broadcast()
}

// An end is one end of a connection: a net.Conn.
type end struct {
	conn    *connection
	in, out *pipe
	filter  func(b []byte) (int, error) // what a write goes through; set once
	addr    addr
	peer    addr
}

func (e *end) Read(b []byte) (int, error)  { return e.in.read(b) }
func (e *end) Write(b []byte) (int, error) { return e.filter(b) }

// Close acts as on a socket: the peer reads the remaining bytes, then io.EOF.
func (e *end) Close() error {
	e.in.abandon()
	e.out.finish(io.EOF, net.ErrClosed)
	e.in.setDeadline(&e.in.readDeadline, time.Time{})
	e.out.setDeadline(&e.out.writeDeadline, time.Time{})
	e.conn.net.forget(e.conn)
	return nil
}

// CloseWrite acts as on a socket: our peer reads to the end, and we may still read.
func (e *end) CloseWrite() error {
	e.out.finish(io.EOF, net.ErrClosed)
	return nil
}

func (e *end) LocalAddr() net.Addr  { return e.addr }
func (e *end) RemoteAddr() net.Addr { return e.peer }

func (e *end) SetDeadline(t time.Time) error {
	e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.setDeadline(&e.in.readDeadline, t)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.out.setDeadline(&e.out.writeDeadline, t)
	return nil
}

type addr string

func (addr) Network() string  { return "zktest" }
func (a addr) String() string { return string(a) }
