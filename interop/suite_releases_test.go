//go:build unix

package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zkproto"
)

// Releases of ZooKeeper that have new requests. Our client needs 3.5 for anything.
var (
	v3_5   = peers.Version{3, 5, 0}
	v3_5_1 = peers.Version{3, 5, 1}
	v3_5_3 = peers.Version{3, 5, 3}
	v3_6   = peers.Version{3, 6, 0}
	v3_7   = peers.Version{3, 7, 0}
)

// since names the first release that has a request. It omits requests that 3.5.0 has.
var since = map[zkproto.Op]peers.Version{
	zkproto.OpCreateContainer:      v3_5_1,
	zkproto.OpCreateTTL:            v3_5_3,
	zkproto.OpMultiRead:            v3_6,
	zkproto.OpGetEphemerals:        v3_6,
	zkproto.OpGetAllChildrenNumber: v3_6,
	zkproto.OpSetWatches2:          v3_6,
	zkproto.OpAddWatch:             v3_6,
	zkproto.OpWhoAmI:               v3_7,
}

// offered splits all into the cases whose requests the release has, and the names of the others,
// each with the release that it needs.
func offered(all []suiteCase, release peers.Version) (cases []suiteCase, lacking []string) {
	for _, c := range all {
		if c.needs.Compare(release) <= 0 {
			cases = append(cases, c)
		} else {
			lacking = append(lacking, fmt.Sprintf("%s (%v)", c.name, c.needs))
		}
	}
	slices.Sort(lacking)
	return cases, lacking
}

// A run of all cases against servers of 3.5.10, 3.6.4, 3.7.2 and 3.9.5 gave the same numbers
// of cases that passed.
func TestMatrixLeavesOutWhatAReleaseLacks(t *testing.T) {
	for _, tt := range []struct {
		release peers.Version
		cases   int
	}{
		{peers.Version{3, 4, 14}, 0}, {v3_5, 30}, {v3_5_1, 32}, {peers.Version{3, 5, 2}, 32}, {v3_5_3, 34},
		{peers.Version{3, 5, 10}, 34}, {v3_6, 58}, {peers.Version{3, 6, 4}, 58}, {v3_7, 61}, {peers.Version{3, 7, 2}, 61},
		{peers.Version{3, 8, 0}, 61}, {peers.Version{3, 9, 5}, 61}, {peers.Version{3, 10, 0}, 61}, {peers.Version{4, 0, 0}, 61},
	} {
		cases, lacking := offered(suite(), tt.release)
		if len(cases) != tt.cases || len(cases)+len(lacking) != len(suite()) {
			t.Errorf("%v: %d cases, without %q; want %d", tt.release, len(cases), lacking, tt.cases)
		}
	}
	_, got := offered(suite(), peers.Version{3, 6, 4})
	if want := []string{
		"a lost reply may have happened, by a client (3.7.0)", "a lost request may have happened, but did not, by a client (3.7.0)",
		"is who it says it is, by a client (3.7.0)",
	}; !slices.Equal(got, want) {
		t.Errorf("3.6.4 is without %q; want %q", got, want)
	}
}

// sentRequests records the requests of a case on connections without TLS.
type sentRequests struct {
	mu  sync.Mutex
	ops map[zkproto.Op]bool
}

// read makes the client of cfg record its requests in s. It must be the last change of cfg.
func (s *sentRequests) read(cfg *zk.Config) {
	if cfg.TLS != nil {
		return
	}
	dial := cfg.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &readConn{Conn: nc, s: s}, nil
	}
}

// needs returns the first release that has all recorded requests; false if there are none.
func (s *sentRequests) needs() (peers.Version, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := v3_5
	for op := range s.ops {
		if v, ok := since[op]; ok && v.Compare(newest) > 0 {
			newest = v
		}
	}
	return newest, len(s.ops) > 0
}

// A readConn records the requests that are written to it.
type readConn struct {
	net.Conn
	s        *sentRequests
	attached bool   // the first frame, which has no header, was written
	rest     []byte // bytes of an incomplete frame
}

func (c *readConn) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for len(c.rest) >= 4 {
		end := 4 + int(binary.BigEndian.Uint32(c.rest))
		if len(c.rest) < end {
			break
		}
		var h zkproto.RequestHeader
		h.Decode(zkproto.NewReader(c.rest[4:end]))
		c.rest = c.rest[end:]
		if c.attached {
			c.s.note(h.Op)
		}
		c.attached = true
	}
	return c.Conn.Write(p)
}

func (s *sentRequests) note(op zkproto.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ops == nil {
		s.ops = make(map[zkproto.Op]bool)
	}
	s.ops[op] = true
}

func TestSentRequestsAreRead(t *testing.T) {
	frame := func(op zkproto.Op) []byte {
		return zkproto.EndFrame((&zkproto.RequestHeader{Xid: 1, Op: op}).Append(zkproto.BeginFrame(nil)), 0)
	}
	for _, tt := range []struct {
		ops  []zkproto.Op
		want peers.Version
	}{
		{[]zkproto.Op{zkproto.OpCreate2}, v3_5},
		{[]zkproto.Op{zkproto.OpPing, zkproto.OpCreateTTL, zkproto.OpGetData}, v3_5_3},
		{[]zkproto.Op{zkproto.OpWhoAmI, zkproto.OpAddWatch}, v3_7},
		{[]zkproto.Op{zkproto.OpAddWatch, zkproto.OpPing}, v3_6},
	} {
		for _, size := range []int{1, 3, 1000} { // bytes per write
			ours, theirs := net.Pipe()
			go func() {
				for {
					if _, err := theirs.Read(make([]byte, 1000)); err != nil {
						return
					}
				}
			}()
			s := &sentRequests{}
			cfg := zk.Config{Dial: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
			s.read(&cfg)
			nc, err := cfg.Dial(t.Context(), "tcp", "test:1")
			must(t, err)
			all := frame(zkproto.OpWhoAmI) // stands for the frame that attaches
			for _, op := range tt.ops {
				all = append(all, frame(op)...)
			}
			for part := range slices.Chunk(all, size) {
				_, err := nc.Write(part)
				must(t, err)
			}
			if got, ok := s.needs(); !ok || got != tt.want {
				t.Errorf("%v in writes of %d bytes: needs %v, %t; want %v", tt.ops, size, got, ok, tt.want)
			}
			ours.Close()
			theirs.Close()
		}
	}
}
