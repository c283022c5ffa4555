package zktest

import (
	"encoding/binary"
	"sync"
	"syscall"

	"holdfast/zkproto"
)

// An Action says what happens to an intercepted request. Action(code) of an error, such as
// zkproto.CodeBadArguments, means that the server answers with that error in its turn and does not execute the
// request. After zkproto.CodeUnimplemented, the connection breaks: so servers treat a request that they do not know.
type Action int

// The results of Intercept's function.
const (
	Pass        Action = iota // the request goes through
	DropRequest               // the connection breaks before the server sees the request
	DropReply                 // the server executes it, the connection breaks before the client sees the reply
	Throttle                  // the server answers zk.ErrThrottled in its turn and does not execute it
)

// An inspector follows the frames of one connection. It inspects requests when the client
// writes them and replies when the server does, so it needs no goroutine.
type inspector struct {
	up, down direction

	mu     sync.Mutex
	denied map[int32]Action // by xid: requests whose reply is DropReply or an error
}

// A writer holds its direction, also while the write waits for room. So each direction has its
// own mutex.
type direction struct {
	mu sync.Mutex
	frames
}

func (i *inspector) deny(xid int32, a Action) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.denied == nil {
		i.denied = make(map[int32]Action)
	}
	i.denied[xid] = a
}

// denial returns the action for a reply: Pass if the client may see it.
func (i *inspector) denial(xid int32) Action {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := i.denied[xid]
	delete(i.denied, xid)
	return a
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

// fromClient forwards the client's bytes, frame by frame. A partial frame waits for its rest,
// because the server could not use it.
func (c *connection) fromClient(b []byte) (int, error) {
	up := &c.inspector.up
	up.mu.Lock()
	defer up.mu.Unlock()
	up.partial = append(up.partial, b...)
	for frame := up.next(); frame != nil; frame = up.next() {
		if up.seen > 1 {
			if frame = c.inspectRequest(frame); frame == nil {
				c.cut()
				return 0, syscall.ECONNRESET
			}
		}
		if _, err := c.client.out.write(frame); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// inspectRequest returns the frame that the server gets, nil if the connection breaks.
func (c *connection) inspectRequest(frame []byte) []byte {
	r := zkproto.NewReader(frame[4:])
	var h zkproto.RequestHeader
	h.Decode(r)
	c.net.mu.Lock()
	f := c.net.intercepts[h.Op]
	c.net.mu.Unlock()
	if r.Err() != nil || f == nil {
		return frame
	}
	a := f(pathOf(h.Op, r))
	if a == Throttle {
		a = Action(zkproto.CodeThrottled)
	}
	switch {
	case a == DropRequest:
		return nil
	case a == DropReply:
		c.inspector.deny(h.Xid, a)
	case a < 0:
		// Replies come in the order of the requests, so the server gets a harmless request in
		// place of this one.
		c.inspector.deny(h.Xid, a)
		h.Op = zkproto.OpExists
		return framed(&h, &zkproto.ReadRequest{Path: "/"})
	}
	return frame
}

// framed puts records into one frame.
func framed(records ...interface{ Append([]byte) []byte }) []byte {
	frame := make([]byte, 4)
	for _, r := range records {
		frame = r.Append(frame)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// pathOf returns the path of a request. For a transaction it is that of the first operation, ""
// if there is none.
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
	return r.String() // every other record begins with the path
}

// fromServer forwards the server's bytes, up to a reply that must be lost.
func (c *connection) fromServer(b []byte) (int, error) {
	down := &c.inspector.down
	down.mu.Lock()
	defer down.mu.Unlock()
	down.partial = append(down.partial, b...)
	for frame := down.next(); frame != nil; frame = down.next() {
		var h zkproto.ReplyHeader
		h.Decode(zkproto.NewReader(frame[4:]))
		var a Action
		if down.seen > 1 {
			switch a = c.inspector.denial(h.Xid); {
			case a == DropReply:
				c.cut()
				return 0, syscall.ECONNRESET
			case a < 0:
				h.Err = zkproto.Code(a)
				frame = framed(&h)
			}
		}
		if _, err := c.server.out.write(frame); err != nil {
			return 0, err
		}
		if a == Action(zkproto.CodeUnimplemented) {
			c.cut()
			return 0, syscall.ECONNRESET
		}
	}
	return len(b), nil
}
