package zkserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// onOwner runs f in the owner's goroutine, and does not wait for the disk.
func onOwner(s *Server, f func()) {
	done := make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() { f(); close(done) }})
	<-done
}

// addSessions makes n sessions of this timeout, whose nodes have paths of so many bytes each.
func addSessions(t *testing.T, s *Server, n int, timeout time.Duration, bytes int) {
	t.Helper()
	onOwner(s, func() {
		for range n {
			sess := s.newSession(timeout)
			sess.touched = s.owner.now
			parent := fmt.Sprint("/", sess.id) // one parent has less room
			for _, op := range []zkproto.MultiOp{
				{Op: zkproto.OpCreate, Path: parent, ACL: openACL},
				{Op: zkproto.OpCreate, Path: parent + "/" + strings.Repeat("x", bytes), ACL: openACL, Flags: zkproto.FlagEphemeral},
			} {
				if _, _, code := s.owner.tree.Create(s.nextTxn(sess.id), &op); code != zkproto.CodeOK {
					t.Error(code)
				}
			}
		}
	})
}

func sessionsOf(s *Server) (n int) {
	onOwner(s, func() { n = len(s.owner.sessions) })
	return n
}

// The sessions of these tests. Three of them are more than a batch ends.
const (
	hugeSessions = 4
	hugeBytes    = maxEnded/3 + 1<<10
)

// Sessions expire at the same time, and their nodes have more bytes of paths than one batch ends. Each
// batch ends some of them.
func TestSessionsThatExpireTogetherEndInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 10)}
		s := startOn(t, disk, Config{})
		defer s.Close()
		disk.verdicts <- nil
		addSessions(t, s, hugeSessions, 4*time.Second, hugeBytes)
		synctest.Wait()
		for _, want := range []int{hugeSessions, 1, 0} {
			if n := sessionsOf(s); n != want {
				t.Fatalf("%d sessions; want %d", n, want)
			}
			time.Sleep(4500 * time.Millisecond) // they end, and their batch is not on the disk
			disk.verdicts <- nil
			synctest.Wait()
		}
	})
}

// A restartedStore says that the machine has restarted.
type restartedStore struct{ *store.Memory }

func (s restartedStore) Load(init store.Meta, v store.Visitor) (store.Meta, error) {
	meta, err := s.Memory.Load(init, v)
	meta.Restarted = true
	return meta, err
}

// A restart of the machine ends more sessions than one batch ends. The others end soon after.
func TestSessionsThatARestartEndsEndInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		s := startOn(t, memory, Config{OneMachine: true})
		addSessions(t, s, hugeSessions, 40*time.Second, hugeBytes)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = startOn(t, restartedStore{memory}, Config{OneMachine: true})
		defer s.Close()
		for _, want := range []int{1, 0} {
			if n := sessionsOf(s); n != want {
				t.Fatalf("%d sessions; want %d", n, want)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
