//go:build unix

package peers

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// A relay is the way from one server of an ensemble to another. While it is cut it
// swallows what is sent, in one direction or both, and no connection breaks: that is how
// a network fails. While a direction is held up, its messages wait, and come in order when
// it is let go.
type relay struct {
	listener net.Listener
	target   string
	patience time.Duration // with a target that does not listen
	wg       sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	cut    [2]bool    // back, forth: of who made the connection
	held   [2]bool    // likewise
	letGo  sync.Cond  // of mu: a direction is not held up any more
	conns  map[net.Conn]struct{}
	closed bool
	// In the first message of an election connection a server tells where it listens. Who
	// has the higher number does not use the connection, but makes one to that address:
	// which has to be that of the relay back, or no cut would part the two.
	advertised, back string
}

// newRelay relays connections to l.
func newRelay(l net.Listener, target string, patience time.Duration) *relay {
	r := &relay{listener: l, target: target, patience: patience, conns: make(map[net.Conn]struct{})}
	r.letGo.L = &r.mu
	r.wg.Go(r.accept)
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.wg.Go(func() {
			out, err := r.dial()
			if err != nil {
				in.Close() // as if the server had refused it
				return
			}
			r.mu.Lock()
			r.conns[in], r.conns[out] = struct{}{}, struct{}{}
			if r.closed {
				in.Close()
				out.Close()
			}
			r.mu.Unlock()
			r.wg.Go(func() { r.pass(out, in, true) })
			r.wg.Go(func() { r.pass(in, out, false) })
		})
	}
}

// dial connects to the target. A follower is often there before its new leader listens: it
// would try again if it were refused, but who is let in and then dropped takes the
// election for void, and the leader waits for it in vain for all of its initLimit.
func (r *relay) dial() (net.Conn, error) {
	for deadline := time.Now().Add(r.patience); ; {
		conn, err := net.Dial("tcp", r.target)
		if err == nil || time.Now().After(deadline) {
			return conn, err
		}
		time.Sleep(10 * time.Millisecond) // nothing tells when somebody listens
	}
}

// pass copies; forth is the direction of who made the connection.
func (r *relay) pass(to, from net.Conn, forth bool) {
	first, way := forth, 0
	if forth {
		way = 1
	}
	io.Copy(writerFunc(func(b []byte) (int, error) {
		r.await(way)
		r.mu.Lock()
		cut, advertised, back := r.cut[way], r.advertised, r.back
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
	r.await(way) // the end of a connection is held up too
	to.Close()
	from.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, to)
	delete(r.conns, from)
}

// await returns when the direction is not held up.
func (r *relay) await(way int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held[way] && !r.closed {
		r.letGo.Wait()
	}
}

// hold holds a direction up, or lets it go.
func (r *relay) hold(forth, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	way := 0
	if forth {
		way = 1
	}
	r.held[way] = on
	r.letGo.Broadcast()
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
func (r *relay) set(forth, back bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = [2]bool{back, forth}
	if !forth && !back {
		for c := range r.conns {
			c.Close()
		}
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	r.letGo.Broadcast()
	r.mu.Unlock()
	r.set(false, false)
	r.wg.Wait()
}
