package zkserver

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// Buffers are reused for the answers of other clients. No client gets a byte of another's answer.
func TestBuffersAreUsedAgainWhenTheyHaveBeenWritten(t *testing.T) {
	const rounds, inFlight = 50, 4
	_, dial := onDisk(t, store.NewMemory())
	sizes := []int{100, copiedBytes, maxStage - 100, maxStage, 3 * maxStage, 500_000}
	var clients sync.WaitGroup
	for i := range 2 * len(sizes) {
		c, path, data := dial(), fmt.Sprint("/", i), bytes.Repeat([]byte{byte(1 + i)}, sizes[i%len(sizes)])
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, Data: data, ACL: openACL})
		get := frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: path})
		clients.Go(func() { // clients that disconnect before their answer
			for range rounds / 10 {
				c := dial()
				c.nc.Write(bytes.Repeat(get, inFlight))
				c.in.ReadByte()
				c.nc.Close()
			}
		})
		clients.Go(func() {
			go func() { // a pipe has no buffer: a client that only writes waits until its peer reads
				for range rounds {
					c.nc.Write(bytes.Repeat(get, inFlight))
				}
			}()
			for range rounds * inFlight {
				if got := c.read().body.Bytes(); !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes of %v; want %d of %d", path, len(got), slices.Compact(slices.Sorted(slices.Values(got))), len(data), data[0])
					return
				}
			}
		})
	}
	clients.Wait()
}

// A refusal is short, however large the node is. A client that may not read the node gets no large
// buffer.
func TestWhoMayNotReadGetsNoLargeBuffer(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		owner := dial()
		owner.connect(10*time.Second, nil)
		mine := []zkproto.ACL{{Perms: zkproto.PermAll &^ zkproto.PermRead, Scheme: "world", ID: "anyone"}}
		owner.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/data", Data: make([]byte, 500_000), ACL: mine})
		owner.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/names", ACL: mine})
		for i := range 100 {
			owner.create(fmt.Sprintf("/names/%03d%s", i, strings.Repeat("x", 4000)), 0)
		}
		for _, ask := range []struct {
			op   zkproto.Op
			path string
		}{{zkproto.OpGetData, "/data"}, {zkproto.OpGetChildren, "/names"}, {zkproto.OpGetChildren2, "/names"}} {
			c := &conn{server: s, owned: connState{inBatch: true}}
			held(s, func() {}, func() {
				r := &request{op: ask.op, conn: c, read: zkproto.ReadRequest{Path: ask.path}}
				if _, large := s.large(r); !large {
					t.Errorf("%v: the answer is not large", ask.op)
				}
				s.read(c, r)
			})
			synctest.Wait()
			if n := len(c.owned.staged); n == 0 || cap(c.owned.staged) > maxStage {
				t.Errorf("%v: an answer of %d bytes has room for %d", ask.op, n, cap(c.owned.staged))
			}
		}
	})
}

func TestLargeBuffersAreUsedAgain(t *testing.T) {
	s := startOn(t, store.NewMemory(), Config{})
	defer s.Close()
	for range 1000 { // the pool drops some items, on purpose with -race
		c := &conn{server: s, owned: connState{inBatch: true}}
		s.stageLarge(c, 500_000)
		recycleStage(c.owned.staged)
		next := &conn{server: s, owned: connState{inBatch: true}}
		if s.stageLarge(next, 400_000); &next.owned.staged[:1][0] == &c.owned.staged[:1][0] {
			return
		}
	}
	t.Error("never")
}
