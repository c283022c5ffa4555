package zkserver

import (
	"sync"
	"sync/atomic"
	"time"
)

// newcomerFrame is the longest request of a client that has no session yet, or has not authenticated as
// required. Each connection may have one such request, whatever the others have.
const newcomerFrame = 4096

// requestBytes is about the memory of a request besides its frame.
const requestBytes = 1 << 10

// buffers counts the bytes of all requests that are being read or wait for the owner, see
// Limits.BufferBytes. The zero value is ready for use.
type buffers struct {
	taken   atomic.Int64
	waiters atomic.Int64

	mu    sync.Mutex
	freed chan struct{} // closed when there is room; nil if nobody has waited since
}

// take takes n of most bytes, if there is room. The first request is never too long.
func (b *buffers) take(n, most int64) bool {
	for {
		taken := b.taken.Load()
		if taken > 0 && taken+n > most {
			return false
		}
		if b.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

func (b *buffers) give(n int64) {
	b.taken.Add(-n)
	if b.waiters.Load() > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.freed != nil {
			close(b.freed)
			b.freed = nil
		}
	}
}

// room returns a channel that is closed when bytes have been given back since the call.
func (b *buffers) room() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// waitingBytes is how many bytes of one connection's requests may wait for the owner.
const waitingBytes = 1 << 20

// reserve waits until n bytes for another request of c may be in memory. It returns false if the
// connection ends first. If wait is false, it returns false instead of waiting.
func (c *conn) reserve(n int, wait bool) bool {
	n += requestBytes
	for c.waiting.Load() > 0 && c.waiting.Load()+int64(n) > waitingBytes {
		if !wait || !c.await(c.room) {
			return false
		}
	}
	b := &c.server.buffers
	if n <= newcomerFrame+requestBytes && c.waiting.Load() == 0 {
		b.taken.Add(int64(n)) // the memory of the connection includes it
	} else if !c.takeBuffer(n, wait) {
		return false
	}
	c.waiting.Add(int64(n))
	c.reserved += n
	return true
}

// takeBuffer takes n bytes of the server's buffers.
func (c *conn) takeBuffer(n int, wait bool) bool {
	b, most := &c.server.buffers, int64(c.server.limits().BufferBytes/4)
	if b.take(int64(n), most) {
		return true
	}
	if !wait {
		return false
	}
	c.server.refused(LimitBuffers, "remote", c.nc.RemoteAddr(), "bytes", n)
	b.waiters.Add(1)
	defer b.waiters.Add(-1)
	for {
		room := b.room()
		if b.take(int64(n), most) {
			return true
		}
		if !c.await(room) {
			return false
		}
	}
}

// await waits for something. It returns false if the connection ends first.
func (c *conn) await(something <-chan struct{}) bool {
	select {
	case <-something:
		return true
	case <-c.stop:
	case <-c.quit:
	}
	return false
}

// leaveRoom frees the room of a request. The owner calls it when it has applied the request.
func (c *conn) leaveRoom(size int) {
	if size == 0 {
		return
	}
	c.waiting.Add(-int64(size))
	c.server.buffers.give(int64(size))
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// mayBeLong reports whether c may send a request of more than newcomerFrame. A client may send its login and the
// next requests without waiting for an answer, so the owner decides when it has applied the earlier requests.
func (c *conn) mayBeLong() bool {
	if c.admitted.Load() {
		return true
	}
	answer := make(chan struct{}, 1)
	admitted := false
	ask := &request{kind: kindCall, conn: c, call: func() {
		admitted = c.admitted.Load()
		answer <- struct{}{}
	}}
	return c.offer(ask) && c.await(answer) && admitted
}

// A long request has slowFrame to arrive, and a second more for each of its slowBytes.
const (
	slowFrame = 10 * time.Second
	slowBytes = 64 << 10
)

// limitSlowness bounds the time in which a long request arrives. It takes memory until then.
func (c *conn) limitSlowness(n int) {
	c.setReadDeadline(time.Now().Add(slowFrame + time.Duration(n/slowBytes)*time.Second))
}
