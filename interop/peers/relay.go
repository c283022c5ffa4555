//go:build unix

package peers

import (
	"bytes"
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
	// In the first message of an election connection a server tells where it listens. Who
	// has the higher number does not use the connection, but makes one to that address:
	// which has to be that of the relay back, or no cut would part the two.
	advertised, back string
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
		r.wg.Go(func() { r.pass(out, in, true) })
		r.wg.Go(func() { r.pass(in, out, false) })
	}
}

// pass copies; forth is the direction of who made the connection.
func (r *relay) pass(to, from net.Conn, forth bool) {
	first := forth
	io.Copy(writerFunc(func(b []byte) (int, error) {
		r.mu.Lock()
		cut, advertised, back := r.cut, r.advertised, r.back
		r.mu.Unlock()
		if cut {
			return len(b), nil
		}
		if first && advertised != "" {
			b = bytes.Replace(b, []byte(advertised), []byte(back), 1) // of the same length
		}
		first = false
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

// returns says by which relay connections come back to who is told of advertised.
func (r *relay) returns(advertised string, by *relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advertised, r.back = advertised, by.listener.Addr().String()
}

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
