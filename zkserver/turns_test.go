package zkserver

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/store"
)

// A large request waits for the next commit. A later small request of the same client does not
// overtake it.
func TestALargeRequestThatWaitsIsNotOvertaken(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		var clients []*rawClient
		for i := range 3 {
			c := dial()
			c.connect(10*time.Second, nil)
			c.create(fmt.Sprint("/", i), 0)
			clients = append(clients, c)
		}
		// The owner is blocked until all clients have sent.
		sent := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { <-sent }})
		for i, c := range clients[:2] { // together these fill the commit
			for range 2 {
				c.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: fmt.Sprint("/", i), Data: make([]byte, sched.Full), Version: -1})
				synctest.Wait()
			}
		}
		last := clients[2]
		large := last.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/2", Data: make([]byte, 2*largeRequest), Version: -1})
		small := last.send(zkproto.OpExists, &zkproto.ReadRequest{Path: "/2"})
		synctest.Wait()
		close(sent)
		for i, want := range []int32{large, small} {
			if got := last.read().Xid; got != want {
				t.Errorf("answer %d is for request %d; want %d", i+1, got, want)
			}
		}
	})
}

// held lets clients send while the owner is blocked, then runs f in the same round.
func held(s *Server, send, f func()) {
	sent := make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() { <-sent }})
	synctest.Wait() // otherwise it would be in the same round as the first requests
	send()
	synctest.Wait()
	if f != nil {
		s.queue.push(&request{kind: kindCall, call: f})
	}
	close(sent)
}

// A connection pays for the work that its requests cause.
func TestWorkIsCounted(t *testing.T) {
	const ops, watchers = 10_000, 100
	checks := func(path string) *zkproto.MultiRequest {
		return &zkproto.MultiRequest{Ops: slices.Repeat([]zkproto.MultiOp{{Op: zkproto.OpCheck, Path: path, Version: -1}}, ops)}
	}
	for name, tt := range map[string]struct {
		op    zkproto.Op
		m     message
		least int
	}{
		"a ping":                  {zkproto.OpPing, nil, requestWork},
		"a write":                 {zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/b", Data: make([]byte, 1000), Version: -1}, requestWork + 1000},
		"an answer":               {zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"}, 100_000},
		"a large transaction":     {zkproto.OpMulti, checks("/b"), ops * multiWork},
		"checks of a long ACL":    {zkproto.OpMulti, checks("/acl"), ops * 64},
		"a write that many watch": {zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1}, watchers * notifyWork},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				c.create("/a", 0)
				c.create("/b", 0)
				c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, 100_000), ACL: openACL})
				c.auth("digest", "me:pw")
				acl := append(entries(63, "digest", func(i int) string { return fmt.Sprintf("%d:x", i) }), zkproto.ACL{Perms: zkproto.PermRead, Scheme: "digest", ID: login.Digest("me:pw").ID})
				c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/acl", ACL: acl})
				for range watchers {
					w := dial()
					w.connect(10*time.Second, nil)
					w.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/a", Mode: zkproto.ModePersistent})
					go io.Copy(io.Discard, w.nc)
				}
				synctest.Wait()
				c.call(tt.op, tt.m)
				synctest.Wait()
				if work := s.owner.work; work < tt.least || work > 2*tt.least+1000 {
					t.Errorf("work %d; want %d or slightly more", work, tt.least)
				}
			})
		})
	}
}

// A request with a large answer is large. Otherwise many new connections could fill a batch with
// answers.
func TestLargeAnswersAreLargeRequests(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/small", Data: make([]byte, 100), ACL: openACL})
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/some", Data: make([]byte, largeAnswer/2), ACL: openACL})
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, 2*largeAnswer), ACL: openACL})
		c.create("/many", 0)
		for i := range 100 {
			c.create(fmt.Sprintf("/many/%03d%s", i, strings.Repeat("x", 2*largeAnswer/100)), zkproto.FlagEphemeral)
		}
		var conn *conn
		held(s, func() {}, func() {
			for _, c := range s.owner.watchers {
				conn = c
			}
		})
		synctest.Wait()
		for name, tt := range map[string]struct {
			request
			large bool
		}{
			"small data":   {request{op: zkproto.OpGetData, read: zkproto.ReadRequest{Path: "/small"}}, false},
			"data":         {request{op: zkproto.OpGetData, read: zkproto.ReadRequest{Path: "/big"}}, true},
			"children":     {request{op: zkproto.OpGetChildren2, read: zkproto.ReadRequest{Path: "/many"}}, true},
			"few children": {request{op: zkproto.OpGetChildren2, read: zkproto.ReadRequest{Path: "/big"}}, false},
			"ephemerals":   {request{op: zkproto.OpGetEphemerals, read: zkproto.ReadRequest{Path: "/"}}, true},
			"multi-read": {request{op: zkproto.OpMultiRead, multiRead: zkproto.MultiReadRequest{
				Ops: slices.Repeat([]zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/some"}}, 3)}}, true},
			"a short multi-read": {request{op: zkproto.OpMultiRead, multiRead: zkproto.MultiReadRequest{
				Ops: []zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/some"}}}}, false},
			"a long frame": {request{op: zkproto.OpSetData, frame: make([]byte, largeRequest+1)}, true},
		} {
			tt.conn = conn
			if _, large := s.large(&tt.request); large != tt.large {
				t.Errorf("%s: large is %v", name, large)
			}
		}
	})
}

// The frame of a large request is reused for the next one, whoever sends it.
func TestLargeFramesAreUsedAgain(t *testing.T) {
	(&request{frame: make([]byte, 1<<20)}).recycle()
	for range 1000 { // the pool drops some items, on purpose with -race
		r := newRequest(2 << 16)
		if cap(r.frame) == 1<<20 {
			return
		}
		(&request{frame: make([]byte, 1<<20)}).recycle()
	}
	t.Error("never")
}

// All watchers get all notifications, though not all at once.
func TestManyAreTold(t *testing.T) {
	const watchers, writes = 200, 5
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.create("/a", 0)
		var all []*rawClient
		for range watchers {
			w := dial()
			w.connect(10*time.Second, nil)
			w.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/a", Mode: zkproto.ModePersistent})
			all = append(all, w)
		}
		began := time.Now()
		for range writes {
			c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1})
		}
		if time.Since(began) > 0 {
			t.Error("the writer waited until all watchers were notified")
		}
		for _, w := range all {
			for range writes {
				if e := w.event(); e.Type != zkproto.EventNodeDataChanged {
					t.Fatalf("event %+v", e)
				}
			}
		}
		if took := time.Since(began); took > time.Second { // not only when their sessions end
			t.Errorf("all watchers were notified within %v", took)
		}
	})
}

// Large transactions reuse memory one after the other, and do not mix.
func TestLargeTransactionsDoNotMix(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		creates := func(prefix string, n int) *zkproto.MultiRequest {
			m := new(zkproto.MultiRequest)
			for i := range n {
				m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprint(prefix, i), ACL: openACL})
			}
			return m
		}
		if n := len(frameOf(zkproto.OpMulti, creates("/a", 200))); n <= largeRequest {
			t.Fatalf("%d bytes are not large", n)
		}
		c.call(zkproto.OpMulti, creates("/a", 300))
		c.call(zkproto.OpMulti, creates("/b", 200))
		torn := creates("/c", 200).Append(nil)
		if r := c.call(zkproto.OpMulti, raw(torn[:len(torn)-10])); r.Err != zkproto.CodeMarshallingError {
			t.Errorf("half a transaction: %v", r.Err)
		}
		c.call(zkproto.OpMulti, creates("/a", 200)) // fails, because the nodes exist
		if n := s.owner.tree.Len(); n != 4+500 {
			t.Errorf("%d nodes; want %d", n, 4+500)
		}
	})
}

// onDisk is inBubble with the test's store.
func onDisk(t *testing.T, disk store.Store) (s *Server, dial func() *rawClient) {
	t.Helper()
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if s, err = start(cfg, login.Users{}, disk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, func() *rawClient {
		client, server := net.Pipe()
		s.accept(server)
		c := newRaw(t, client)
		c.connect(time.Minute, nil)
		return c
	}
}

// The owner may look many times while a commit is in flight. Still, a client gets no more than its
// share of the next batch, and large requests wait until that batch begins.
func TestAShareIsOfABatch(t *testing.T) {
	const requests = 20
	synctest.Test(t, func(t *testing.T) {
		disk := &slowStore{store.NewMemory(), make(chan struct{}, 1000)}
		for range 100 {
			disk.ready <- struct{}{}
		}
		s, dial := onDisk(t, disk)
		other, greedy, large := dial(), dial(), dial()
		other.create("/a", 0)
		other.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, largeAnswer-256), ACL: openACL})
		for len(disk.ready) > 0 {
			<-disk.ready
		}
		write := &zkproto.SetDataRequest{Path: "/a", Version: -1}
		other.send(zkproto.OpSetData, write) // its commit does not end
		synctest.Wait()
		for range requests {
			greedy.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
		}
		large.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, 2*largeRequest), Version: -1})
		for range 10 {
			other.send(zkproto.OpSetData, write)
			synctest.Wait()
		}
		var staged, backlog, mine int
		s.queue.push(&request{kind: kindCall, call: func() {
			for _, c := range s.owner.batch.conns {
				staged = max(staged, len(c.owned.staged))
			}
			backlog, mine = s.owner.batch.backlog, len(s.owner.batch.conns)
		}})
		synctest.Wait()
		if staged <= largeAnswer/2 || staged > 2*sched.Share || backlog > 0 || mine != 2 {
			t.Errorf("the next commit has %d bytes of answers for one client, %d of waiting requests, and %d clients", staged, backlog, mine)
		}
		for range 100 {
			disk.ready <- struct{}{}
		}
		for range 11 {
			other.read()
		}
		large.read()
		for range requests {
			greedy.read()
		}
	})
}

// Clients that exceed a limit are throttled, and other clients are not.
func TestBeyondALimitIsSlow(t *testing.T) {
	const requests = 100
	inBubble(t, Config{Limits: Limits{WatchesPerConnection: 1}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		for _, beyond := range []bool{false, true} {
			c := dial()
			c.connect(time.Minute, nil)
			began := time.Now()
			for i := range requests {
				path := "/a"
				if beyond {
					path += fmt.Sprint(i)
				}
				c.exists(path, true)
			}
			took := time.Since(began)
			if slow := took > requests/2*penalty; slow != beyond {
				t.Errorf("beyond the limit %v: %v", beyond, took)
			}
		}
	})
}
