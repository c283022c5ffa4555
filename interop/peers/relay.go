//go:build unix

package peers

import (
	"io"
	"net"
	"sync"
)

// A relay is the way from one server of an ensemble to another. While it is cut it
// swallows what is sent, in both directions, and no connection breaks: that is how a
// network fails.
type relay struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns map[net.Conn]struct{}
}

// newRelay relays connections to l.
func newRelay(l net.Listener, target string) *relay {
	r := &relay{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	r.wg.Go(r.accept)
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			in.Close() // as if the server had refused it
			continue
		}
		r.mu.Lock()
		r.conns[in], r.conns[out] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.wg.Go(func() { r.pass(out, in) })
		r.wg.Go(func() { r.pass(in, out) })
	}
}

func (r *relay) pass(to, from net.Conn) {
	io.Copy(writerFunc(func(b []byte) (int, error) {
		r.mu.Lock()
		cut := r.cut
		r.mu.Unlock()
		if cut {
			return len(b), nil
		}
		return to.Write(b)
	}), from)
	to.Close()
	from.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, to)
	delete(r.conns, from)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// set cuts or heals. Connections that have lost bytes are of no use any more, and
// break when it is healed.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	if !cut {
		for c := range r.conns {
			c.Close()
		}
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.set(false)
	r.wg.Wait()
}
