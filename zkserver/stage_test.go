package zkserver

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// Buffers go from one client's answers to another's, and nobody gets a byte of anybody else.
func TestBuffersAreUsedAgainWhenTheyHaveBeenWritten(t *testing.T) {
	const rounds, inFlight = 50, 4
	_, dial := onDisk(t, store.NewMemory())
	sizes := []int{100, copiedBytes, maxStage - 100, maxStage, 3 * maxStage, 500_000}
	var clients sync.WaitGroup
	for i := range 2 * len(sizes) {
		c, path, data := dial(), fmt.Sprint("/", i), bytes.Repeat([]byte{byte(1 + i)}, sizes[i%len(sizes)])
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, Data: data, ACL: openACL})
		get := frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: path})
		clients.Go(func() { // who goes while it is answered
			for range rounds / 10 {
				c := dial()
				c.nc.Write(bytes.Repeat(get, inFlight))
				c.in.ReadByte()
				c.nc.Close()
			}
		})
		clients.Go(func() {
			go func() { // what is in flight is no pipe's
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

func TestLargeBuffersAreUsedAgain(t *testing.T) {
	s := startOn(t, store.NewMemory(), Config{})
	defer s.Close()
	for range 1000 { // the pool forgets some, with -race on purpose
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
