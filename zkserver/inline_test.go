package zkserver

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// A large request and a small one arrive together. The small one does not wait for room that only
// the large one can free.
func TestALargeRequestAndASmallOneTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, store.NewMemory(), Config{})
		defer s.Close()
		c := overMemory(t, s)
		c.connect(10*time.Second, nil)
		synctest.Wait()
		large := frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/none", Data: make([]byte, zkproto.MaxFrame-8-4-5-4-4), Version: -1})
		if n := len(large) - 4; n != zkproto.MaxFrame {
			t.Fatalf("%d bytes", n)
		}
		ping := zkproto.EndFrame((&zkproto.RequestHeader{Xid: zkproto.XidPing, Op: zkproto.OpPing}).Append(zkproto.BeginFrame(nil)), 0)
		go c.nc.Write(append(large, ping...))
		for range 2 {
			c.readFrame()
		}
	})
}

// Requests that arrive together and alone are served inline, in order. They also keep their order
// with requests that are not: a large one in front, more than a few, and after other clients
// have sent some.
func TestInlineKeepsTheOrder(t *testing.T) {
	s := startOn(t, store.NewMemory(), Config{})
	defer s.Close()
	c := overMemory(t, s)
	c.connect(10*time.Second, nil)
	c.create("/a", 0)
	version := int32(0)
	for n := range 200 {
		together := 1 + n%7
		var frames []byte
		for i := range together {
			size := 10
			if (n+i)%11 == 0 {
				size = 2 * largeRequest
			}
			frames = append(frames, frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, size), Version: version + int32(i)})...)
		}
		go c.nc.Write(frames)
		for range together {
			// Each names the version that the one before it has made.
			if a := c.read(); a.Err != zkproto.CodeOK {
				t.Fatalf("group %d: %v", n, a.Err)
			}
		}
		version += int32(together)
	}
}

// A lock sends one write with some reads. They are served together, though more writes would not be.
func TestReadsAreServedInlineWithAWrite(t *testing.T) {
	s := startOn(t, store.NewMemory(), Config{})
	defer s.Close()
	for _, tt := range []struct {
		name         string
		sent         string // w: a write, r: a read
		slots, group int
	}{
		{"a lock", "wrrr", 100, 4},
		{"a lock with a long path", "wrrrrrrr", 100, 8},
		{"more reads", "wrrrrrrrrr", 100, 8},
		{"writes", "wwwwww", 100, 4},
		{"both", "rwrwrwrwr", 100, 8},
		{"few slots", "wrrrrr", 5, 5},
	} {
		var frames []byte
		for _, what := range tt.sent[1:] {
			if what == 'w' {
				frames = append(frames, frameOf(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a"})...)
			} else {
				frames = append(frames, frameOf(zkproto.OpExists, &zkproto.ReadRequest{Path: "/a"})...)
			}
		}
		in := bufio.NewReader(bytes.NewReader(frames))
		in.Peek(1)
		c := &conn{server: s, slots: make(chan struct{}, tt.slots)}
		first := zkproto.OpExists
		if tt.sent[0] == 'w' {
			first = zkproto.OpDelete
		}
		group, err := c.together(&request{op: first}, in)
		if err != nil || len(group) != tt.group {
			t.Errorf("%s: %d requests together, %v; want %d", tt.name, len(group), err, tt.group)
		}
	}
}

// A type that wraps a socket may encrypt or count the bytes that it writes.
func TestOnlyPlainSocketsAreWrittenInline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if writerNow(struct{ *net.TCPConn }{nc.(*net.TCPConn)}) != nil {
		t.Error("the inline path skips a wrapper's Write")
	}
	if a, b := net.Pipe(); writerNow(a) != nil || writerNow(b) != nil {
		t.Error("a pipe is taken for a plain socket, but has no buffer")
	}
}

// A connection ends while some of its requests were read and never reached the owner. They no
// longer count as outstanding.
func TestRequestsThatNobodyAnswersAreNotOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, store.NewMemory(), Config{})
		defer s.Close()
		c := overMemory(t, s)
		c.connect(10*time.Second, nil)
		synctest.Wait()
		goOn := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { <-goOn }})
		synctest.Wait()
		s.queue.mu.Lock()
		s.queue.bytes = queueBytes // the queue has no room
		s.queue.mu.Unlock()
		var frames []byte
		for range 3 {
			frames = append(frames, frameOf(zkproto.OpExists, &zkproto.ReadRequest{Path: "/a"})...)
		}
		c.nc.Write(frames)
		synctest.Wait()
		if n := s.Stats().Outstanding; n != 3 {
			t.Fatalf("%d requests are outstanding", n)
		}
		s.stopNow(nil)
		close(goOn)
		<-s.Done()
		if n := s.Stats().Outstanding; n != 0 {
			t.Errorf("%d requests are outstanding after the end", n)
		}
	})
}
