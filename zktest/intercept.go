package zktest

import (
	"encoding/binary"
	"sync"
	"syscall"

	"holdfast/zkproto"
)

// An Action says what becomes of an intercepted request.
type Action int

// What Intercept's function may answer.
const (
	Pass        Action = iota // as if nobody had looked
	DropRequest               // the connection breaks before the server sees the request
	DropReply                 // the server executes it, the connection breaks before the client sees the reply
)

// An inspector follows the frames of one connection. Requests are looked at when the
// client writes them, replies when the server does, so no goroutine is needed.
type inspector struct {
	up, down direction

	mu      sync.Mutex
	dropped map[int32]struct{} // xids whose reply must not arrive
}

// A direction is held by whoever writes, also while the write waits for room; so each
// has a mutex of its own.
type direction struct {
	mu sync.Mutex
	frames
}

func (i *inspector) drop(xid int32) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dropped == nil {
		i.dropped = make(map[int32]struct{})
	}
	i.dropped[xid] = struct{}{}
}

func (i *inspector) drops(xid int32) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, drop := i.dropped[xid]
	return drop
}

// frames cuts a stream into frames.
type frames struct {
	partial []byte
	seen    int
}

// next returns the first complete frame, length included, or nil.
func (f *frames) next() []byte {
	if len(f.partial) < 4 {
		return nil
	}
	n := 4 + int64(binary.BigEndian.Uint32(f.partial))
	if int64(len(f.partial)) < n {
		return nil
	}
	frame := f.partial[:n:n]
	f.partial = f.partial[n:]
	f.seen++
	return frame
}

// fromClient passes on what the client writes, frame by frame. A partial frame waits
// for its rest: the server could not do anything with it.
func (c *connection) fromClient(b []byte) (int, error) {
	up := &c.inspector.up
	up.mu.Lock()
	defer up.mu.Unlock()
	up.partial = append(up.partial, b...)
	for frame := up.next(); frame != nil; frame = up.next() {
		if up.seen > 1 && !c.inspectRequest(frame[4:]) {
			c.cut()
			return 0, syscall.ECONNRESET
		}
		if _, err := c.client.out.write(frame); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// inspectRequest reports whether the server is to see the request.
func (c *connection) inspectRequest(body []byte) bool {
	r := zkproto.NewReader(body)
	var h zkproto.RequestHeader
	h.Decode(r)
	c.net.mu.Lock()
	f := c.net.intercepts[h.Op]
	c.net.mu.Unlock()
	if r.Err() != nil || f == nil {
		return true
	}
	switch f(pathOf(h.Op, r)) {
	case DropRequest:
		return false
	case DropReply:
		c.inspector.drop(h.Xid)
	}
	return true
}

// pathOf is the path that a request is about: of a transaction that of its first
// operation, "" if there is none.
func pathOf(op zkproto.Op, r *zkproto.Reader) string {
	switch op {
	case zkproto.OpPing, zkproto.OpCloseSession, zkproto.OpSetWatches, zkproto.OpSetWatches2, zkproto.OpAuth,
		zkproto.OpWhoAmI, zkproto.OpReconfig:
		return ""
	case zkproto.OpMulti:
		var m zkproto.MultiRequest
		m.Decode(r)
		if len(m.Ops) == 0 {
			return ""
		}
		return m.Ops[0].Path
	case zkproto.OpMultiRead:
		var m zkproto.MultiReadRequest
		m.Decode(r)
		if len(m.Ops) == 0 {
			return ""
		}
		return m.Ops[0].Path
	}
	return r.String() // every other record begins with it
}

// fromServer passes on what the server writes, up to a reply that is to be lost.
func (c *connection) fromServer(b []byte) (int, error) {
	down := &c.inspector.down
	down.mu.Lock()
	defer down.mu.Unlock()
	down.partial = append(down.partial, b...)
	for frame := down.next(); frame != nil; frame = down.next() {
		var h zkproto.ReplyHeader
		h.Decode(zkproto.NewReader(frame[4:]))
		if down.seen > 1 && c.inspector.drops(h.Xid) {
			c.cut()
			return 0, syscall.ECONNRESET
		}
		if _, err := c.server.out.write(frame); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
