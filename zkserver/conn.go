package zkserver

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/tree"
)

// A conn is one client connection. Its reader passes requests to the owner. Its writer sends
// the owner's staged bytes when they are durable.
type conn struct {
	server *Server
	id     tree.Watcher
	nc     net.Conn

	address  netip.Addr    // the address that it counts for, see Limits; this and the next two are guarded by Server.mu
	counted  bool          // see Server.count
	newcomer *list.Element // its place among the newcomers; nil if it is none

	admitted atomic.Bool // it has a session and has authenticated as required

	now       func([]byte) int // writes without waiting, see writerNow; may be nil; guarded by mu
	slots     chan struct{}    // one token per request that waits for its answer
	penalties atomic.Int64     // requests over a limit, for which the reader rests

	room     chan struct{} // tells the reader that waiting has fallen
	waiting  atomic.Int64  // bytes of requests that the owner has not applied, see reserve
	reserved int           // those of requests that the reader has not passed on; of the reader
	unread   atomic.Int64  // bytes that wait for the client or the disk
	paused   atomic.Bool   // the owner holds requests back until less is unread, see stalled
	gone     atomic.Bool   // nothing is written any more
	wake     chan struct{} // there are bytes to write, or the connection ends

	beingTold atomic.Bool // the teller will wake the writer
	told      atomic.Bool // the teller has woken the writer, and waits until it has written

	stop chan struct{} // closed by stopReading
	quit chan struct{} // closed by close

	owned connState // touched by the owner's goroutine only

	latency latencies

	mu         sync.Mutex
	out        []byte // durable and not yet written
	answers    int    // in out
	finishing  bool   // close when out is written
	stopped    bool   // stop is closed
	closed     bool   // quit is closed
	readerDone bool
}

// connState is the owner's state of a connection.
type connState struct {
	session *session // nil before the handshake and once the session ends

	identities []tree.Identity
	sasl       login.Exchange
	admitted   bool      // it has authenticated as required
	closing    bool      // its session is ending; the connection is answered and closed then
	attached   time.Time // when it got its session

	received, sent int64 // packets, for the four-letter words
	lastOp         zkproto.Op
	lastXid        int32

	flow sched.Flow[*request]

	staged  []byte // answers and notifications of the batch that is being filled
	weighed int    // bytes of staged that are counted, see weigh
	answers int    // in staged
	finish  bool   // the connection is closed after staged
	inBatch bool
}

func newConn(s *Server, id tree.Watcher, nc net.Conn) *conn {
	return &conn{
		server: s, id: id, nc: nc,
		slots: make(chan struct{}, s.limits().Outstanding),
		room:  make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		stop:  make(chan struct{}),
		quit:  make(chan struct{}),
		owned: connState{identities: login.OfAddress(nc.RemoteAddr())},
		now:   writerNow(nc),
	}
}

// release gives back the slots of n requests.
func (c *conn) release(n int) {
	for range n {
		<-c.slots
	}
}

// setReadDeadline sets a deadline for the reader. It does not undo stopReading.
func (c *conn) setReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.nc.SetReadDeadline(t)
	}
}

func (c *conn) readingStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// stopReading makes the reader end before its next request.
func (c *conn) stopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.stopped = true
		close(c.stop)
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// copiedBytes is the most that send copies for the writer, and the size of the buffers that the
// writer keeps for copies. The writer takes over larger slices.
const copiedBytes = 1 << 14

// send queues bytes for the writer and never waits. The caller wakes the writer. send reports
// whether it has kept b. A client with too many queued bytes is dropped: it must not make other
// clients wait, nor use up the memory.
func (c *conn) send(b []byte, answers int, finish bool) (kept bool) {
	c.mu.Lock()
	if c.closed {
		c.server.counters.bytesWaiting.Add(-int64(len(b)))
		c.mu.Unlock()
		return false
	}
	if kept = len(c.out) == 0 && len(b) > copiedBytes; kept {
		c.out = b
	} else {
		c.out = append(c.out, b...)
	}
	c.answers += answers
	c.finishing = c.finishing || finish
	c.mu.Unlock()
	waiting := int(c.unread.Load()) // including the bytes that the writer is writing
	if c.server.tooMuch(waiting, 0) {
		c.server.refused(LimitUnread, "remote", c.nc.RemoteAddr(), "bytes", waiting)
		c.close()
	}
	return kept
}

// sendNow is send on the reader's goroutine. If nothing else is on its way to the client, sendNow
// writes the answers itself and returns true. The writer sends the bytes that the network does
// not take at once.
func (c *conn) sendNow(a answers) bool {
	if c.now == nil || a.finish || len(a.bytes) > copiedBytes {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.finishing || len(c.out) > 0 || c.unread.Load() != int64(len(a.bytes)) {
		return false
	}
	n := c.now(a.bytes)
	if n == 0 {
		return false
	}
	c.wrote(n)
	if n < len(a.bytes) {
		c.out = append(c.out, a.bytes[n:]...)
		c.answers += a.count
		c.signal()
	} else {
		c.release(a.count)
	}
	recycleStage(a.bytes)
	return true
}

// wrote counts n bytes that the network has taken.
func (c *conn) wrote(n int) {
	c.server.counters.bytesSent.Add(int64(n))
	c.server.counters.bytesWaiting.Add(-int64(n))
	c.taken(n)
}

// signal wakes the writer.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write is the writer's goroutine.
func (c *conn) write() {
	defer c.server.writers.Done()
	defer c.server.forget(c)
	var buf []byte
	for {
		c.mu.Lock()
		buf, c.out = c.out, buf[:0]
		answers, finishing := c.answers, c.finishing
		c.answers = 0
		c.mu.Unlock()
		if len(buf) > 0 {
			err := c.writeAll(buf)
			if cap(buf) > copiedBytes {
				recycleStage(buf) // drop buffers that one large read has grown
				buf = nil
			}
			if err != nil {
				break
			}
		}
		c.release(answers) // some answers have no bytes
		if len(buf) > 0 {
			continue
		}
		c.server.teller.wrote(c)
		if finishing {
			c.lastWords()
			break
		}
		select {
		case <-c.wake:
			continue
		case <-c.quit:
		}
		break
	}
	c.close()
	c.mu.Lock()
	c.server.counters.bytesWaiting.Add(-int64(len(c.out)))
	if cap(c.out) > copiedBytes {
		recycleStage(c.out)
	}
	c.out = nil // send adds nothing any more
	c.mu.Unlock()
	c.gone.Store(true)
	c.resume()
	// Only the reader tells the owner about the end. It may be waiting for a slot or for bytes;
	// close ends both.
}

// writeAll writes in small pieces, each with a deadline. So it drops a client that reads nothing,
// but not a client that reads slowly. The network takes few more bytes than the client has read,
// see limitUnsent: with pieces of 256 KiB, a client that reads 8 KiB a second would be dropped.
func (c *conn) writeAll(buf []byte) error {
	left := len(buf)
	for piece := range slices.Chunk(buf, 64<<10) {
		c.nc.SetWriteDeadline(time.Now().Add(c.server.limits().UnreadTime))
		n, err := c.nc.Write(piece)
		c.wrote(n)
		left -= n
		if err != nil {
			c.server.counters.bytesWaiting.Add(-int64(left))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.server.refused(LimitStalled, "remote", c.nc.RemoteAddr())
			}
			return err
		}
	}
	return nil
}

// lastWords lets the client read the last written bytes. If we close a socket with unread input,
// the kernel sends a reset, which discards the bytes that the client has not read yet. The client
// would not learn that its session is over. So lastWords closes our half first, and reads the
// client's half to its end, for a limited time.
func (c *conn) lastWords() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.setReadDeadline(time.Now().Add(2 * time.Second))
	for {
		c.mu.Lock()
		done, dropped := c.readerDone, c.answers
		c.answers = 0
		c.mu.Unlock()
		if done {
			return
		}
		c.release(dropped) // the reader continues through the requests that the owner ignores
		select {
		case <-c.wake:
		case <-c.quit:
			return
		}
	}
}

// close cuts the connection off.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.quit)
		cut(c.nc)
	}
}

// cut closes a connection without the TLS close message. That message may take seconds if the
// client does not read, and the owner may be the caller.
func cut(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	nc.Close()
}
