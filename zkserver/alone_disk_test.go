package zkserver

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// gatedStore reports that a commit has begun, and waits until the commit may continue.
type gatedStore struct {
	*store.Memory
	begun, verdicts chan struct{}
}

func (g *gatedStore) Commit(b *store.Batch) error {
	g.begun <- struct{}{}
	<-g.verdicts
	return g.Memory.Commit(b)
}

// A request arrives alone, through a real socket: its answer waits for the disk, too.
func TestAnswerToARequestThatComesAloneWaitsForTheDisk(t *testing.T) {
	disk := &gatedStore{Memory: store.NewMemory(), begun: make(chan struct{}), verdicts: make(chan struct{}, 100)}
	s := startOn(t, disk, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := dialRaw(t, l)
	go func() {
		<-disk.begun
		disk.verdicts <- struct{}{}
	}()
	c.connect(10*time.Second, nil)
	for range 3 {
		write := c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/n-", ACL: openACL, Flags: zkproto.FlagPersistentSequential})
		<-disk.begun
		// Had the answer been sent too early, it would have arrived by now.
		c.nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if b, err := c.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("answered before the commit: %v, %v", b, err)
		}
		c.nc.SetReadDeadline(time.Time{})
		disk.verdicts <- struct{}{}
		if a := c.read(); a.Xid != write || a.Err != zkproto.CodeOK {
			t.Errorf("%+v; want an answer to %d", a.ReplyHeader, write)
		}
	}
	go func() {
		for range disk.begun {
			disk.verdicts <- struct{}{}
		}
	}()
	s.Close()
	close(disk.begun)
	<-served
}
