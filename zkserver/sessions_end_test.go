package zkserver

import (
	"fmt"
	"io"
	"runtime"
	"slices"
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

// addSessions makes n sessions with this timeout. The paths of each session's nodes total the given
// number of bytes.
func addSessions(t *testing.T, s *Server, n int, timeout time.Duration, bytes int) {
	t.Helper()
	onOwner(s, func() {
		for range n {
			sess := s.newSession(timeout, nil)
			parent := fmt.Sprint("/", sess.id) // a single parent would have too little room
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

// The size of the sessions in these tests. Three of them exceed what one batch ends.
const (
	hugeSessions = 4
	hugeBytes    = fullBatch/3 + 1<<10
)

// Sessions expire at the same time, and the paths of their nodes exceed what one batch ends. Each
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
			time.Sleep(4500 * time.Millisecond) // they end, but their batch is not on disk yet
			disk.verdicts <- nil
			synctest.Wait()
		}
	})
}

// A restartedStore reports that the machine has restarted. It records the largest batch and the number of batches.
type restartedStore struct {
	*store.Memory
	commits, largest int
}

func (s *restartedStore) Commit(b *store.Batch) error {
	s.commits, s.largest = s.commits+1, max(s.largest, b.Len())
	return s.Memory.Commit(b)
}

func (s *restartedStore) Load(init store.Meta, v store.Visitor) (store.Meta, error) {
	meta, err := s.Memory.Load(init, v)
	meta.Restarted = true
	return meta, err
}

// A restart of the machine ends more sessions than fit into one batch. All have ended when the server starts.
func TestSessionsThatARestartEndsEndInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		s := startOn(t, memory, Config{OneMachine: true})
		addSessions(t, s, hugeSessions, 40*time.Second, hugeBytes)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := &restartedStore{Memory: memory}
		s = startOn(t, st, Config{OneMachine: true})
		synctest.Wait()
		if n := sessionsOf(s) + s.owner.tree.EphemeralCount() + s.owner.others; n != 0 || st.commits == 0 {
			t.Errorf("%d sessions and nodes are left after %d batches", n, st.commits)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st.largest > store.MaxBatch || st.commits < 2 {
			t.Errorf("%d batches, the largest of %d bytes", st.commits, st.largest)
		}
		s = startOn(t, memory, Config{OneMachine: true})
		defer s.Close()
		if n := sessionsOf(s) + s.owner.tree.EphemeralCount(); n != 0 {
			t.Errorf("%d sessions and nodes have come back", n)
		}
	})
}

// The server is killed while a restart of the machine ends its sessions, which takes several batches. The next start
// ends the other sessions, although it sees no restart.
func TestSessionsThatARestartEndsDoNotComeBackAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		s := startOn(t, memory, Config{OneMachine: true})
		addSessions(t, s, hugeSessions, 40*time.Second, hugeBytes)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := &restartedStore{Memory: memory}
		if err := new(Server).loadFrom(st); err != nil || st.commits != 1 {
			t.Fatalf("%v after %d batches", err, st.commits)
		}
		st.Memory.Close()
		s = startOn(t, memory, Config{OneMachine: true})
		defer s.Close()
		if n := sessionsOf(s) + s.owner.tree.EphemeralCount(); n != 0 {
			t.Errorf("%d sessions and nodes have come back", n)
		}
	})
}

// loadFrom is load for a server that is not started. Its last batch stays with the server.
func (s *Server) loadFrom(st store.Store) error {
	cfg, err := Config{OneMachine: true}.withDefaults()
	if err != nil {
		return err
	}
	s.cfg, s.store = cfg, st
	s.limited.Store(&cfg.Limits)
	return s.load(store.Meta{}, time.Now())
}

// manyNodes creates n ephemeral nodes for the session of c.
func manyNodes(t *testing.T, c *rawClient, n int) {
	t.Helper()
	for first := 0; first < n; first += 500 {
		m := new(zkproto.MultiRequest)
		for i := first; i < min(first+500, n); i++ {
			m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("/n-%d", i), ACL: openACL, Flags: zkproto.FlagEphemeral})
		}
		if a := c.call(zkproto.OpMulti, m); a.Err != zkproto.CodeOK {
			t.Fatal(a.Err)
		}
	}
}

// A session with many nodes ends in portions. Other clients are served in between; its own requests
// are not. Its client gets the answer at the end.
func TestASessionWithManyNodesEndsInPortions(t *testing.T) {
	const nodes = 10_000
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		id := c.connect(10*time.Second, nil).SessionID
		other.connect(10*time.Second, nil)
		manyNodes(t, c, nodes)
		synctest.Wait()
		conn := s.owner.sessions[id].conn
		var seen []int
		var look func()
		look = func() {
			if n := s.owner.tree.EphemeralCount(); n > 0 && conn.owned.finish {
				t.Errorf("the close was answered while %d nodes were left", n)
			}
			if seen = slices.Compact(append(seen, s.owner.tree.EphemeralCount())); len(seen) < 4 {
				s.queue.push(&request{kind: kindCall, call: look})
			}
		}
		held(s, func() {
			c.send(zkproto.OpCloseSession, raw(""))
			c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/late", ACL: openACL})
			other.send(zkproto.OpGetAllChildrenNumber, &zkproto.GetAllChildrenNumberRequest{Path: "/"})
		}, look)
		if a := c.read(); a.Err != zkproto.CodeOK {
			t.Error(a.Err)
		}
		if n := other.read().body.Int32(); n < nodes {
			t.Errorf("the other client, whose request is small, saw %d nodes", n)
		}
		synctest.Wait()
		if !slices.Equal(seen, []int{nodes, nodes - 3000, nodes - 6000, nodes - 9000}) {
			t.Errorf("nodes after each portion: %v", seen)
		}
		if _, code := other.exists("/late", false); code != zkproto.CodeNoNode {
			t.Errorf("a request of the session that was ending: %v", code)
		}
		if st := s.Stats(); st.Sessions != 1 || st.Outstanding != 0 || s.owner.endings != 0 {
			t.Errorf("afterwards: %+v, %d sessions are ending", st, s.owner.endings)
		}
	})
}

// If a server stops while a session is ending, the next start ends the session.
func TestAnEndingSessionDoesNotComeBack(t *testing.T) {
	const nodes = 7000
	cfg := Config{Dir: t.TempDir()}
	s, l := serve(t, cfg)
	c := dialRaw(t, l)
	session := c.connect(time.Minute, nil)
	manyNodes(t, c, nodes)
	onOwner(s, func() {
		sess := s.owner.sessions[session.SessionID]
		sess.ending = true // the state after the first portion
		s.saveSession(sess)
		s.owner.tree.EndSession(s.nextTxn(sess.id))
	})
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s, l = serve(t, cfg)
	defer s.Close()
	for range 10 { // after each portion
		if err := s.Alive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Ephemerals != 0 || st.Sessions != 0 {
		t.Errorf("%d nodes and %d sessions are left", st.Ephemerals, st.Sessions)
	}
	if r := dialRaw(t, l).connect(time.Minute, session); r.SessionID != 0 {
		t.Errorf("the session was resumed: %+v", r)
	}
	s.Close()
	s, _ = serve(t, cfg)
	defer s.Close()
	if n := len(s.owner.sessions) + s.owner.endings; n != 0 {
		t.Errorf("the store still has %d sessions", n)
	}
}

// The portions of sessions that end together take turns, and other requests are served in between.
func TestEndingSessionsTakeTurns(t *testing.T) {
	const sessions, nodes = 5, 7000
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		for i := range sessions {
			onOwner(s, func() {
				sess := s.newSession(time.Minute, nil)
				for j := range nodes {
					s.owner.tree.Create(s.nextTxn(sess.id), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("/%d-%d", i, j), ACL: openACL, Flags: zkproto.FlagEphemeral})
				}
			})
		}
		before, most := 0, 0
		done := make(chan struct{})
		var look func()
		look = func() {
			left := s.owner.tree.EphemeralCount()
			most, before = max(most, before-left), left
			if left == 0 {
				close(done)
				return
			}
			s.queue.push(&request{kind: kindCall, call: look})
		}
		onOwner(s, func() {
			for _, sess := range s.owner.sessions {
				s.endSession(sess, func() {})
			}
			before = s.owner.tree.EphemeralCount()
			look()
		})
		<-done
		if most > 3000 {
			t.Errorf("%d nodes were removed in one turn", most)
		}
	})
}

// While a commit is in flight, ending sessions fill only a part of the next batch.
func TestEndingSessionsLeaveABatchItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 100)}
		s := startOn(t, disk, Config{Limits: Limits{ChildrenBytes: 64 << 20}})
		defer s.Close()
		for range 20 {
			disk.verdicts <- nil
		}
		for i := range 4 {
			onOwner(s, func() {
				sess := s.newSession(4*time.Second, nil)
				parent := fmt.Sprint("/", i)
				s.owner.tree.Create(s.nextTxn(sess.id), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: parent, ACL: openACL})
				for j := range 7500 {
					s.owner.tree.Create(s.nextTxn(sess.id), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("%s/%04000d", parent, j), ACL: openACL, Flags: zkproto.FlagEphemeral})
				}
			})
		}
		synctest.Wait()
		for len(disk.verdicts) > 0 {
			<-disk.verdicts
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		onOwner(s, func() {
			if n := s.owner.tree.Unsaved(); n > 8<<20 || s.owner.endings == 0 {
				t.Errorf("%d MiB in one batch, %d sessions are ending", n>>20, s.owner.endings)
			}
		})
		close(disk.verdicts) // all commits succeed
		synctest.Wait()
		onOwner(s, func() {
			if n := s.owner.tree.EphemeralCount() + s.owner.endings; n > 0 {
				t.Errorf("%d nodes and sessions are left", n)
			}
		})
	})
}

// A client that has closed its half gets the answer to closeSession.
func TestAnEndingSessionAnswersAClientThatHasClosedItsHalf(t *testing.T) {
	s, l := serve(t, Config{})
	defer s.Close()
	c := dialRaw(t, l)
	c.connect(10*time.Second, nil)
	manyNodes(t, c, 40_000) // its portions span more than one batch
	stands, goOn := make(chan struct{}), make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() { close(stands); <-goOn }})
	<-stands
	c.send(zkproto.OpCloseSession, raw(""))
	c.nc.(interface{ CloseWrite() error }).CloseWrite()
	for queued := 0; queued < 2; runtime.Gosched() { // the request, and the end of the connection
		s.queue.mu.Lock()
		queued = len(s.queue.items)
		s.queue.mu.Unlock()
	}
	close(goOn)
	if a := c.read(); a.Err != zkproto.CodeOK {
		t.Error(a.Err)
	}
}

// A stop in the middle ends the session, or leaves that to the next start. It waits for no client.
func TestAStopWhileASessionEnds(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	s, l := serve(t, cfg)
	c := dialRaw(t, l)
	c.connect(time.Minute, nil)
	manyNodes(t, c, 10_000)
	stands, goOn := make(chan struct{}), make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() { close(stands); <-goOn }})
	<-stands
	c.send(zkproto.OpCloseSession, raw(""))
	for queued := 0; queued < 1; runtime.Gosched() {
		s.queue.mu.Lock()
		queued = len(s.queue.items)
		s.queue.mu.Unlock()
	}
	stopped := make(chan error)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	for queued := 0; queued < 2; runtime.Gosched() { // the end of the connection
		s.queue.mu.Lock()
		queued = len(s.queue.items)
		s.queue.mu.Unlock()
	}
	close(goOn)
	if a := c.read(); a.Err != zkproto.CodeOK {
		t.Error(a.Err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	s, _ = serve(t, cfg)
	defer s.Close()
	if n := s.owner.tree.EphemeralCount() + len(s.owner.sessions) + s.owner.endings; n != 0 {
		t.Errorf("%d nodes and sessions have come back", n)
	}
}

// A session that is ending when the machine restarts is not taken for damage.
func TestASessionThatARestartEndsInPortionsIsNoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory()
		s := startOn(t, memory, Config{OneMachine: true})
		c := overMemory(t, s)
		c.connect(10*time.Second, nil)
		manyNodes(t, c, 10_000)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		var logged complaints
		s = startOn(t, &restartedStore{Memory: memory}, Config{OneMachine: true, Logger: logged.logger()})
		synctest.Wait()
		if n := s.owner.tree.EphemeralCount() + s.owner.endings; n != 0 {
			t.Errorf("%d nodes and sessions are left", n)
		}
		s.Close()
		if err := logged.err(); err != nil {
			t.Error(err)
		}
	})
}

// The four-letter words that list connections omit those whose session is ending.
func TestWordsWhileASessionEnds(t *testing.T) {
	for _, word := range []string{"cons", "dump", "wchc", "wchp", "stat"} {
		synctest.Test(t, func(t *testing.T) {
			disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 1000)}
			s := startOn(t, disk, Config{FourLetterWords: []string{"*"}})
			defer s.Close()
			for range cap(disk.verdicts) {
				disk.verdicts <- nil
			}
			c, asks := pipe(t, s), pipe(t, s)
			c.connect(10*time.Second, nil)
			manyNodes(t, c, 10_000)
			c.exists("/watched", true)
			synctest.Wait()
			for len(disk.verdicts) > 0 {
				<-disk.verdicts
			}
			c.send(zkproto.OpCloseSession, raw(""))
			synctest.Wait()
			asks.nc.Write([]byte(word))
			synctest.Wait()
			onOwner(s, func() {
				if s.owner.endings == 0 {
					t.Error("no session is ending: the test shows nothing")
				}
			})
			close(disk.verdicts)
			if _, err := io.ReadAll(asks.nc); err != nil {
				t.Errorf("%s: %v", word, err)
			}
			c.read()
		})
	}
}
