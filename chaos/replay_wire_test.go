package chaos_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"holdfast/zkproto"
)

// An asked is a request as it was sent.
type asked struct {
	op      zkproto.Op
	write   zkproto.MultiOp // its Path is also a read's
	multi   []zkproto.MultiOp
	watch   bool
	watches zkproto.SetWatchesRequest
	floor   int64 // the highest zxid that any client got before this was sent
}

// An answered is a request with its reply, and the events between the former reply and this one.
type answered struct {
	asked
	events  []zkproto.WatcherEvent
	zxid    int64
	code    zkproto.Code
	path    string
	stat    zkproto.Stat
	data    string
	names   []string
	results []zkproto.MultiResult
}

// A wire is one connection of a session: what came over it, in order.
type wire struct {
	session int64
	replies []answered
	tail    []zkproto.WatcherEvent // events after the last reply
	// drained: the connection was read to the end that the server made, so nothing is missing.
	drained bool

	nc      net.Conn
	in      *bufio.Reader
	xid     int32
	waiting []asked
}

// noProgress bounds the time of a reply: a server that hangs is a failure.
const noProgress = time.Minute

func (w *wire) writeFrame(b []byte) error {
	w.nc.SetDeadline(time.Now().Add(noProgress))
	_, err := w.nc.Write(b)
	return err
}

// connect begins or resumes a session. A timeout of 0 in the response means that the session is over.
func (w *wire) connect(addr string, req *zkproto.ConnectRequest) (*zkproto.ConnectResponse, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	w.nc, w.in = nc, bufio.NewReader(nc)
	if err := w.writeFrame(zkproto.EndFrame(req.Append(zkproto.BeginFrame(nil)), 0)); err != nil {
		return nil, err
	}
	frame, err := zkproto.ReadFrame(w.in, nil, 1<<20)
	if err != nil {
		return nil, err
	}
	var resp zkproto.ConnectResponse
	r := zkproto.NewReader(frame)
	resp.Decode(r)
	w.session = resp.SessionID
	return &resp, r.Complete()
}

var anyone = []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}

// send writes all requests at once, so that the server may answer them in one batch.
func (w *wire) send(all []asked) error {
	var b []byte
	for _, a := range all {
		start := len(b)
		w.xid++
		b = (&zkproto.RequestHeader{Xid: w.xid, Op: a.op}).Append(zkproto.BeginFrame(b))
		o := &a.write
		switch a.op {
		case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer:
			b = (&zkproto.CreateRequest{Path: o.Path, Data: o.Data, ACL: anyone, Flags: o.Flags}).Append(b)
		case zkproto.OpCreateTTL:
			b = (&zkproto.CreateTTLRequest{Path: o.Path, Data: o.Data, ACL: anyone, Flags: o.Flags, TTL: o.TTL}).Append(b)
		case zkproto.OpDelete:
			b = (&zkproto.DeleteRequest{Path: o.Path, Version: o.Version}).Append(b)
		case zkproto.OpSetData:
			b = (&zkproto.SetDataRequest{Path: o.Path, Data: o.Data, Version: o.Version}).Append(b)
		case zkproto.OpMulti:
			b = (&zkproto.MultiRequest{Ops: a.multi}).Append(b)
		case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
			b = (&zkproto.ReadRequest{Path: o.Path, Watch: a.watch}).Append(b)
		case zkproto.OpSync:
			b = (&zkproto.SyncRequest{Path: o.Path}).Append(b)
		case zkproto.OpGetEphemerals:
			b = (&zkproto.GetEphemeralsRequest{}).Append(b)
		case zkproto.OpSetWatches:
			b = a.watches.Append(b)
		}
		b = zkproto.EndFrame(b, start)
	}
	w.waiting = append(w.waiting, all...)
	return w.writeFrame(b)
}

// errNonsense is wrapped by errors that are not the network's.
var errNonsense = errors.New("not what the protocol has")

// next reads one frame: a reply, or an event, for which it returns nil.
func (w *wire) next() (*answered, error) {
	frame, err := zkproto.ReadFrame(w.in, nil, 16<<20)
	if err != nil {
		return nil, err
	}
	r := zkproto.NewReader(frame)
	var h zkproto.ReplyHeader
	h.Decode(r)
	if h.Xid == zkproto.XidNotification {
		var e zkproto.WatcherEvent
		e.Decode(r)
		w.tail = append(w.tail, e)
		if err := r.Complete(); err != nil {
			return nil, fmt.Errorf("%w: event: %v", errNonsense, err)
		}
		return nil, nil
	}
	if want := w.xid - int32(len(w.waiting)) + 1; len(w.waiting) == 0 || h.Xid != want {
		return nil, fmt.Errorf("%w: a reply with xid %d; want %d of %d", errNonsense, h.Xid, want, len(w.waiting))
	}
	a := answered{asked: w.waiting[0], events: w.tail, zxid: h.Zxid, code: h.Err}
	w.waiting, w.tail = w.waiting[1:], nil
	if h.Err == zkproto.CodeOK {
		a.decode(r)
	}
	if err := r.Complete(); err != nil {
		return nil, fmt.Errorf("%w: reply to %v: %v", errNonsense, a.op, err)
	}
	w.replies = append(w.replies, a)
	return &w.replies[len(w.replies)-1], nil
}

func (a *answered) decode(r *zkproto.Reader) {
	switch a.op {
	case zkproto.OpCreate:
		a.path = r.String()
	case zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		a.path = r.String()
		a.stat.Decode(r)
	case zkproto.OpSetData, zkproto.OpExists:
		a.stat.Decode(r)
	case zkproto.OpGetData:
		a.data = r.String()
		a.stat.Decode(r)
	case zkproto.OpGetChildren, zkproto.OpGetEphemerals:
		a.names = r.Strings()
	case zkproto.OpGetChildren2:
		a.names = r.Strings()
		a.stat.Decode(r)
	case zkproto.OpSync:
		a.path = r.String()
	case zkproto.OpMulti:
		var m zkproto.MultiResponse
		m.Decode(r)
		a.results = m.Results
	}
}
