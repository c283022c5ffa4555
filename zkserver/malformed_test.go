package zkserver

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
)

var malformed = flag.Int("malformed", 50_000, "how many malformed inputs TestMalformedInputsHarmNobody sends")

// requestsToBreak returns one request of each kind.
func requestsToBreak() [][]byte {
	var all [][]byte
	add := func(op zkproto.Op, m message) {
		all = append(all, m.Append((&zkproto.RequestHeader{Xid: 1, Op: op}).Append(nil)))
	}
	create := zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/m", ACL: openACL}
	add(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/a", Data: []byte("x"), ACL: openACL, Flags: zkproto.FlagEphemeral})
	add(zkproto.OpCreate2, &zkproto.CreateRequest{Path: "/s-", ACL: openACL, Flags: zkproto.FlagEphemeralSequential})
	add(zkproto.OpCreateTTL, &zkproto.CreateTTLRequest{Path: "/t", ACL: openACL, Flags: zkproto.FlagTTL, TTL: 1})
	add(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a", Version: -1})
	add(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: []byte("y"), Version: -1})
	add(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/a", ACL: []zkproto.ACL{{Perms: 31, Scheme: "ip", ID: "::1/7"}}, Version: -1})
	add(zkproto.OpGetACL, &zkproto.GetACLRequest{Path: "/a"})
	add(zkproto.OpExists, &zkproto.ReadRequest{Path: "/a/../b", Watch: true})
	add(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/a\x00b", Watch: true})
	add(zkproto.OpGetChildren2, &zkproto.ReadRequest{Path: "//", Watch: true})
	add(zkproto.OpSync, &zkproto.SyncRequest{Path: "\xff\xfe"})
	add(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{create, {Op: zkproto.OpCheck, Path: "/a"}, {Op: zkproto.OpDelete, Path: "/m"}}})
	add(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpMulti, Path: "/m"}, create}}) // nested
	add(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: []zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/"}, {Op: zkproto.OpGetChildren, Path: ""}}})
	add(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "digest", Auth: []byte("u:p")})
	add(zkproto.OpSetWatches2, &zkproto.SetWatches2Request{Persistent: []string{"x"}, PersistentRecursive: []string{"", "/zookeeper"}})
	add(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/a", Mode: zkproto.ModePersistentRecursive})
	add(zkproto.OpRemoveWatches, &zkproto.RemoveWatchesRequest{Path: "/a", Kind: zkproto.WatchAny})
	add(zkproto.OpReconfig, &zkproto.ReconfigRequest{Leaving: "1", Version: -1})
	add(zkproto.OpSASL, raw("\x00\x00\x00\x01x"))
	add(zkproto.OpGetAllChildrenNumber, &zkproto.GetAllChildrenNumberRequest{Path: "/"})
	add(zkproto.OpGetEphemerals, &zkproto.GetEphemeralsRequest{Prefix: "/"})
	add(zkproto.OpWhoAmI, raw(""))
	add(9999, raw("xxxx"))
	return all
}

// nastyInts are lengths, counts and numbers that made other servers fail.
var nastyInts = []uint32{0, 1, 0xffffffff, 0xfffffffe, 0x7fffffff, 0x80000000, 0xfffff, 0x100000, 0x10000, 256}

// breakIt changes b in a few places. The xid stays, since some xids have a special meaning.
func breakIt(r *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + r.IntN(3) {
		at := len(b)
		if len(b) > 4 {
			at = 4 + r.IntN(len(b)-4)
		}
		switch r.IntN(6) {
		case 0:
			if at < len(b) {
				b[at] ^= 1 << r.IntN(8)
			}
		case 1:
			if at+4 <= len(b) {
				binary.BigEndian.PutUint32(b[at:], nastyInts[r.IntN(len(nastyInts))])
			}
		case 2:
			b = b[:at]
		case 3:
			b = append(b, b[at:]...)
		case 4:
			b = binary.BigEndian.AppendUint32(b, nastyInts[r.IntN(len(nastyInts))])
		case 5:
			for i := range b[at:] {
				b[at+i] = byte(r.Uint32())
			}
		}
		if len(b) > 8192 {
			b = b[:8192]
		}
	}
	return b
}

// Malformed frames and handshakes are answered, or end their connection. A run with
// -malformed=1000000 -v prints the seed, the longest wait and the memory.
func TestMalformedInputsHarmNobody(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dial := func() net.Conn {
		client, server := net.Pipe()
		s.accept(server)
		return client
	}
	seed := rand.Uint64()
	const attackers = 4
	var mu sync.Mutex
	var longest time.Duration
	var wg sync.WaitGroup
	for i := range attackers {
		a := attacker{t: t, r: rand.New(rand.NewPCG(seed, uint64(i))), dial: dial, valid: requestsToBreak()}
		wg.Go(func() {
			for n := *malformed / attackers; n > 0; {
				n -= a.attack(n)
			}
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, a.longest)
		})
	}
	wg.Wait()
	c := newRaw(t, dial())
	c.connect(10*time.Second, nil)
	if _, code := c.exists("/zookeeper", false); code != zkproto.CodeOK || s.Err() != nil {
		t.Errorf("afterwards: %v, %v", code, s.Err())
	}
	c.nc.Close()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	st := s.Stats()
	t.Logf("seed %d: %d inputs, the longest wait %v; %d MB of heap in use, %d MB from the system; %d nodes, %d watches",
		seed, *malformed, longest, m.HeapAlloc>>20, m.Sys>>20, st.Znodes, st.Watches)
	if m.HeapAlloc > 128<<20 {
		t.Errorf("seed %d: %d bytes of heap in use", seed, m.HeapAlloc)
	}
}

// An attacker is a series of clients.
type attacker struct {
	t       *testing.T
	r       *rand.Rand
	dial    func() net.Conn
	valid   [][]byte
	longest time.Duration // the longest wait for an answer
}

// attack makes one connection and sends at most n inputs. It returns how many it has sent.
func (a *attacker) attack(n int) int {
	nc := a.dial()
	defer func() {
		nc.SetDeadline(time.Time{}) // its timer would keep a pipe in memory
		nc.Close()
	}()
	nc.SetDeadline(time.Now().Add(30 * time.Second)) // fails if the server hangs, on any machine
	connect := (&zkproto.ConnectRequest{Timeout: 4000, Passwd: make([]byte, 16)}).Append(nil)
	if a.r.IntN(20) == 0 {
		nc.Write(a.frame(breakIt(a.r, connect), a.r.IntN(4) == 0))
		nc.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // the server may be waiting for more bytes
		zkproto.ReadFrame(nc, nil, 1<<20)
		return 1
	}
	if _, err := nc.Write(a.frame(connect, false)); err != nil {
		a.t.Errorf("connect: %v", err)
	}
	if _, err := zkproto.ReadFrame(nc, nil, 1<<20); err != nil {
		a.t.Errorf("connect: %v", err)
	}
	ended := make(chan error, 1)
	pong := make(chan struct{}, 1)
	go func() {
		var buf []byte
		for {
			frame, err := zkproto.ReadFrame(nc, buf, 64<<20)
			if err != nil {
				ended <- err
				return
			}
			buf = frame
			if int32(binary.BigEndian.Uint32(frame)) == int32(zkproto.XidPing) {
				pong <- struct{}{}
			}
		}
	}()
	ping := a.frame((&zkproto.RequestHeader{Xid: zkproto.XidPing, Op: zkproto.OpPing}).Append(nil), false)
	for sent := 0; sent < n; {
		var b []byte
		const together = 16
		for range min(together, n-sent) {
			b = append(b, a.frame(breakIt(a.r, a.valid[a.r.IntN(len(a.valid))]), false)...)
			sent++
		}
		if a.r.IntN(50) == 0 { // gets out of step, then closes
			nc.Write(append(b, a.frame(b, true)...))
			return sent
		}
		began := time.Now()
		nc.Write(append(b, ping...)) // fails if the server has closed the connection
		select {
		case <-pong:
		case err := <-ended:
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				a.t.Errorf("no answer for 30 s to %x", b)
			}
			return sent
		}
		a.longest = max(a.longest, time.Since(began))
	}
	return n
}

// frame puts a length before b, and a wrong one if wrong is set.
func (a *attacker) frame(b []byte, wrong bool) []byte {
	n := uint32(len(b))
	if wrong {
		n = nastyInts[a.r.IntN(len(nastyInts))]
	}
	return append(binary.BigEndian.AppendUint32(nil, n), b...)
}

// A client that sends its handshake byte by byte is cut off.
func TestSlowHandshakesAreCutOff(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		var clients sync.WaitGroup
		defer clients.Wait()
		for range 100 {
			c := dial()
			clients.Go(func() {
				for _, b := range []byte(frame(45, "0123456789abcdef")) {
					if _, err := c.nc.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(2 * time.Second)
				}
			})
		}
		time.Sleep(11 * time.Second)
		if st := s.Stats(); st.Connections != 0 || st.Refused[LimitHandshake] != 100 {
			t.Errorf("%d connections are left, %d were cut off; want 0 and 100", st.Connections, st.Refused[LimitHandshake])
		}
	})
}

// Incomplete requests do not keep a session alive.
func TestSlowRequestsKeepNoSession(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		var slow sync.WaitGroup
		defer slow.Wait()
		slow.Go(func() {
			for _, b := range []byte(frame(1000, fmt.Sprintf("%0100d", 0))) {
				if _, err := c.nc.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		time.Sleep(15 * time.Second)
		if st := s.Stats(); st.Sessions != 0 || st.Connections != 0 || st.Ephemerals != 0 {
			t.Errorf("%d sessions, %d connections, %d ephemeral nodes are left", st.Sessions, st.Connections, st.Ephemerals)
		}
	})
}

// A large frame costs memory only once its bytes arrive, not when its length is announced.
func TestAnnouncedFramesCostNoMemory(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const clients = 200
	for range clients {
		pipe(t, s).connect(10*time.Second, nil)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range clients {
		c := pipe(t, s)
		c.connect(10*time.Second, nil)
		c.nc.Write([]byte(frame(zkproto.MaxFrame, "\x00\x00\x00\x01")))
	}
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) / clients; grown > 200<<10 {
		t.Errorf("%d bytes per client", grown)
	}
}
