package zkserver

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
)

// slowStore is a disk that hangs while ready is empty.
type slowStore struct {
	*store.Memory
	ready chan struct{}
}

func (s *slowStore) Commit(b *store.Batch) error {
	<-s.ready
	return s.Memory.Commit(b)
}

// While the disk hangs, clients get no answers, drop their connections and stay silent for longer
// than usual. That must not end their sessions.
func TestStalledDiskCostsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowStore{store.NewMemory(), make(chan struct{}, 100)}
		for range 10 {
			disk.ready <- struct{}{}
		}
		cfg, _ := Config{}.withDefaults()
		s, err := start(cfg, login.Users{}, disk)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		dial := func() *rawClient {
			client, server := net.Pipe()
			s.accept(server)
			return newRaw(t, client)
		}
		c := dial()
		session := c.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		for len(disk.ready) > 0 {
			<-disk.ready
		}
		c.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/e", Version: -1})
		c.send(zkproto.OpPing, nil)
		time.Sleep(5 * time.Minute)
		for range 50 {
			disk.ready <- struct{}{}
		}
		c.read()
		c.nc.Close()
		c = dial()
		if r := c.connect(10*time.Second, session); r.SessionID != session.SessionID {
			t.Fatalf("the session is gone: %+v", r)
		}
		if _, code := c.exists("/e", false); code != zkproto.CodeOK {
			t.Errorf("/e: %v", code)
		}
	})
}

// If the owner itself could not run, pings that were sent in time are still in the sockets. They
// count.
func TestOwnersLatenessIsForgiven(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		session := c.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		stopped := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() {
			close(stopped)
			time.Sleep(time.Minute)
		}})
		<-stopped
		time.Sleep(61 * time.Second)
		if _, code := c.exists("/e", false); code != zkproto.CodeOK {
			t.Errorf("/e: %v; session %x expired while the owner was stopped", code, session.SessionID)
		}
		time.Sleep(13 * time.Second)
		synctest.Wait()
		if n := s.connections(); n != 0 {
			t.Error("silence after the stop does not count")
		}
	})
}

// A client that was just heard has lost no time, so it is credited none.
func TestForgivenessIsNoCredit(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		stopped := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() {
			close(stopped)
			time.Sleep(time.Minute)
		}})
		<-stopped
		c.call(zkproto.OpPing, nil) // answered when the owner continues
		time.Sleep(13 * time.Second)
		synctest.Wait()
		if n := s.connections(); n != 0 {
			t.Error("a stop of a minute gave the session more than its timeout")
		}
	})
}
