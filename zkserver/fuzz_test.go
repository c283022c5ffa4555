package zkserver

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/proc"
	"holdfast/zkproto"
)

// FuzzHandshake sends arbitrary first bytes of a connection: a handshake, a four-letter word, or
// neither. The server must still serve others.
func FuzzHandshake(f *testing.F) {
	connect := func(m *zkproto.ConnectRequest) []byte {
		return zkproto.EndFrame(m.Append(zkproto.BeginFrame(nil)), 0)
	}
	f.Add(connect(&zkproto.ConnectRequest{Timeout: 10000, Passwd: make([]byte, 16), HasReadOnly: true}))
	f.Add(connect(&zkproto.ConnectRequest{Timeout: -1, SessionID: -1, LastZxidSeen: 1 << 62, ReadOnly: true, HasReadOnly: true}))
	f.Add(connect(&zkproto.ConnectRequest{ProtocolVersion: 9}))
	f.Add([]byte("srvr"))
	f.Add([]byte("mntr\n"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, other := pipe(t, s), pipe(t, s)
			other.connect(10*time.Second, nil)
			go func() { // it reads, so that the server can write
				for {
					if _, err := c.in.Discard(1); err != nil {
						return
					}
				}
			}()
			c.nc.Write(b)
			if _, code := other.exists("/zookeeper", false); code != zkproto.CodeOK {
				t.Errorf("/zookeeper: %v", code)
			}
			c.nc.Close()
		})
	})
}

// FuzzRequest decodes arbitrary bytes as the body of any request. The result must equal that of the
// message's own decoder, and must not alias memory that the pool reuses.
func FuzzRequest(f *testing.F) {
	frame := func(op zkproto.Op, m message) []byte {
		return m.Append((&zkproto.RequestHeader{Xid: 1, Op: op}).Append(nil))
	}
	f.Add(frame(zkproto.OpCreate2, &zkproto.CreateRequest{Path: "/a", Data: []byte("x"), ACL: openACL, Flags: 3}))
	f.Add(frame(zkproto.OpCreateTTL, &zkproto.CreateTTLRequest{Path: "/t", ACL: openACL, Flags: 6, TTL: 1}))
	f.Add(frame(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1}))
	f.Add(frame(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a", Version: -1}))
	f.Add(frame(zkproto.OpExists, &zkproto.ReadRequest{Path: "/a", Watch: true}))
	f.Add(frame(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/", ACL: openACL, Version: -1}))
	f.Add(frame(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/a"}}}))
	f.Add(frame(zkproto.OpSetWatches2, &zkproto.SetWatches2Request{Persistent: []string{"x"}}))
	many := make([]string, 2*watchPortion)
	f.Add(frame(zkproto.OpSetWatches2, &zkproto.SetWatches2Request{Persistent: many, SetWatchesRequest: zkproto.SetWatchesRequest{Child: many[:1]}}))
	f.Add(frame(zkproto.OpSetWatches, &zkproto.SetWatchesRequest{Data: many, Exist: many}))
	f.Add(frame(zkproto.OpRemoveWatches, &zkproto.RemoveWatchesRequest{Path: "/a", Kind: 3}))
	f.Add(frame(zkproto.OpReconfig, &zkproto.ReconfigRequest{Joining: "server.1=a:1:2;3"}))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &request{frame: append([]byte(nil), b...)}
		err := r.decode()
		if short := len(b) < 8; short != (err != nil) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err != nil {
			return
		}
		var h zkproto.RequestHeader
		h.Decode(zkproto.NewReader(b))
		if r.xid != h.Xid || r.op != h.Op {
			t.Errorf("xid %d, op %v; want %d, %v", r.xid, r.op, h.Xid, h.Op)
		}
		if r.op == zkproto.OpMulti && !r.undecoded {
			// The owner decodes a large request, into reused memory.
			s := new(Server)
			s.owner.ops = make([]zkproto.MultiOp, 0, 8)
			late := &request{op: r.op, frame: append([]byte(nil), b...)}
			s.decodeMulti(late)
			if late.bad != r.bad || !late.bad && !reflect.DeepEqual(late.multi.Ops, r.multi.Ops) && len(r.multi.Ops) > 0 {
				t.Errorf("decoded by the owner: %v, %+v; by the reader: %v, %+v", late.bad, late.multi, r.bad, r.multi)
			}
			s.doneMulti(late)
		}
		if r.op == zkproto.OpSetWatches || r.op == zkproto.OpSetWatches2 {
			// The reader splits a large setWatches, and the owner decodes each portion.
			var whole zkproto.SetWatches2Request
			in := zkproto.NewReader(b[8:])
			if r.op == zkproto.OpSetWatches {
				whole.SetWatchesRequest.Decode(in)
			} else {
				whole.Decode(in)
			}
			paths, got, bad := len(whole.Data)+len(whole.Exist)+len(whole.Child)+len(whole.Persistent)+len(whole.PersistentRecursive), 0, false
			for _, p := range (&request{op: r.op, undecoded: r.undecoded, bad: r.bad, setWatches: r.setWatches, frame: append([]byte(nil), b...)}).portions() {
				if p.undecoded {
					new(Server).decodeMulti(p)
				}
				m := &p.setWatches
				got += len(m.Data) + len(m.Exist) + len(m.Child) + len(m.Persistent) + len(m.PersistentRecursive)
				bad = bad || p.bad
			}
			if bad != (in.Err() != nil) || !bad && got != paths {
				t.Errorf("in portions: bad %v, %d paths; whole: %v, %d", bad, got, in.Err(), paths)
			}
		}
		path := r.write.Path
		clear(r.frame) // the next request uses the same buffer
		if r.write.Path != path {
			t.Error("a path aliases the frame")
		}
		r.recycle()
		again := requestPool.Get().(*request)
		if again.op != 0 || again.bad || again.conn != nil || again.write.Path != "" || len(again.multi.Ops) != 0 {
			t.Errorf("a request from the pool holds %+v", again)
		}
	})
}

func FuzzSession(f *testing.F) {
	f.Add((&session{timeout: 30 * time.Second}).encode())
	f.Add((&session{timeout: time.Millisecond, local: true}).encode())
	f.Add((&session{timeout: time.Millisecond, ending: true}).encode())
	f.Add((&session{timeout: time.Millisecond, group: &proc.Group{Namespace: 3, IDs: []proc.ID{{PID: 4, Start: 5}, {PID: 6, Start: 7}}}}).encode())
	f.Fuzz(func(t *testing.T, record []byte) {
		sess, err := decodeSession(7, record)
		if err != nil {
			return
		}
		if again, err := decodeSession(7, sess.encode()); err != nil || !reflect.DeepEqual(again, sess) {
			t.Errorf("%+v; again %+v, %v", sess, again, err)
		}
	})
}
