package zkserver

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
)

var (
	scaleNodes  = flag.Int("nodes", 100_000, "nodes of the restart test")
	scaleCycles = flag.Int("cycles", 1_000_000, "nodes that the cycle test creates and deletes")
)

// pipeline sends n requests, many at a time, and fails unless all succeed.
func pipeline(t *testing.T, l net.Listener, n int, request func(i int) (zkproto.Op, message)) {
	c := dialRaw(t, l)
	defer c.nc.Close()
	c.connect(10*time.Second, nil)
	window := make(chan struct{}, 900)
	go func() {
		out := bufio.NewWriterSize(c.nc, 1<<16)
		defer out.Flush()
		for i := range n {
			select {
			case window <- struct{}{}:
			default: // full: wait for the buffered requests
				if out.Flush() != nil {
					return
				}
				window <- struct{}{}
			}
			op, m := request(i)
			b := (&zkproto.RequestHeader{Xid: int32(i), Op: op}).Append(zkproto.BeginFrame(nil))
			if _, err := out.Write(zkproto.EndFrame(m.Append(b), 0)); err != nil {
				return
			}
		}
	}()
	var frame []byte
	for i := range n {
		var err error
		if frame, err = zkproto.ReadFrame(c.in, frame, 1<<20); err != nil {
			t.Errorf("answer %d of %d: %v", i, n, err)
			return
		}
		<-window
		var h zkproto.ReplyHeader
		h.Decode(zkproto.NewReader(frame))
		if h.Err != zkproto.CodeOK || h.Xid != int32(i) {
			t.Errorf("answer %d: %+v", i, h)
			return
		}
	}
}

// A server with many nodes restarts quickly: a million take under 3 s (-nodes 1000000, on an
// otherwise idle machine).
func TestRestartReadsAllNodes(t *testing.T) {
	dir := t.TempDir()
	s, l := serve(t, Config{Dir: dir})
	const perParent = 1000
	parents := *scaleNodes / perParent
	pipeline(t, l, parents, func(i int) (zkproto.Op, message) {
		m := new(zkproto.MultiRequest)
		parent := fmt.Sprintf("/p%05d", i)
		m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: parent, ACL: openACL})
		for j := range perParent - 1 {
			m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("%s/n%05d", parent, j), Data: make([]byte, 32), ACL: openACL})
		}
		return zkproto.OpMulti, m
	})
	s.Close()
	runtime.GC()
	began := time.Now()
	s, err := Open(Config{Dir: dir})
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.owner.tree.Len(), parents*perParent+len(builtIns); got != want {
		t.Errorf("%d nodes; want %d", got, want)
	}
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d nodes: open in %v, %d MiB heap", parents*perParent, took.Round(time.Millisecond), mem.HeapAlloc>>20)
	if took > 30*time.Second {
		t.Errorf("open took %v", took)
	}
}

// Cycles of create and delete leave nothing behind: neither memory nor file size grows.
func TestCyclesOfCreateAndDeleteLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	dir := t.TempDir()
	s, l := serve(t, Config{Dir: dir})
	const rounds, clients = 10, 8
	pipeline(t, l, clients, func(i int) (zkproto.Op, message) {
		return zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprint("/q", i), ACL: openACL}
	})
	var disk, heap [rounds]int64
	began := time.Now()
	for round := range rounds {
		var wg sync.WaitGroup
		for c := range clients {
			n := *scaleCycles / rounds / clients
			wg.Go(func() {
				pipeline(t, l, 2*n, func(i int) (zkproto.Op, message) {
					path := fmt.Sprintf("/q%d/n%d-%d", c, round, i/2)
					if i%2 == 0 {
						return zkproto.OpCreate, &zkproto.CreateRequest{Path: path, Data: make([]byte, 100), ACL: openACL}
					}
					return zkproto.OpDelete, &zkproto.DeleteRequest{Path: path, Version: -1}
				})
			})
		}
		wg.Wait()
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		heap[round], disk[round] = int64(mem.HeapAlloc), dirSize(dir)
	}
	s.Close()
	t.Logf("%d nodes created and deleted in %v; heap %d → %d MiB, files %d → %d MiB", *scaleCycles, time.Since(began).Round(time.Millisecond),
		heap[0]>>20, heap[rounds-1]>>20, disk[0]>>20, disk[rounds-1]>>20)
	// Buffers and journals grow and shrink by some megabytes. A leak of a byte per node would exceed
	// this.
	const slack = 64 << 20
	if heap[rounds-1] > heap[1]+slack || disk[rounds-1] > disk[1]+slack {
		t.Errorf("after each tenth: heap %d, files %d; want no growth", heap, disk)
	}
}
