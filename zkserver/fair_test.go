package zkserver

import (
	"bufio"
	"bytes"
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
	"holdfast/zkserver/internal/store"
)

// A large request that has to wait for the next commit is not overtaken by the small one
// that the same client has sent behind it.
func TestALargeRequestThatWaitsIsNotOvertaken(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		var clients []*rawClient
		for i := range 3 {
			c := dial()
			c.connect(10*time.Second, nil)
			c.create(fmt.Sprint("/", i), 0)
			clients = append(clients, c)
		}
		// The owner stands still until all have sent.
		sent := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { <-sent }})
		for i, c := range clients[:2] { // together they fill the commit
			for range 2 {
				c.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: fmt.Sprint("/", i), Data: make([]byte, roundWork), Version: -1})
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
				t.Errorf("answer %d is that of request %d; want %d", i+1, got, want)
			}
		}
	})
}

// held lets clients send while the owner stands still, and then does f in the same round.
func held(s *Server, send, f func()) {
	sent := make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() { <-sent }})
	synctest.Wait() // or it would be in the same round as the first that are sent
	send()
	synctest.Wait()
	if f != nil {
		s.queue.push(&request{kind: kindCall, call: f})
	}
	close(sent)
}

func TestWorkIsCounted(t *testing.T) {
	const ops, watchers = 10_000, 100
	for name, tt := range map[string]struct {
		send   func(c *rawClient)
		rounds int64 // that it takes at least
	}{
		"small requests": {func(c *rawClient) {
			for range 200 {
				c.send(zkproto.OpPing, nil)
			}
		}, 0},
		// What one request exceeds the share by comes off the next shares.
		"a large transaction": {func(c *rawClient) {
			c.send(zkproto.OpMulti, &zkproto.MultiRequest{Ops: slices.Repeat([]zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/a", Version: -1}}, ops)})
			c.send(zkproto.OpPing, nil)
		}, 3},
		"checks of a long ACL": {func(c *rawClient) {
			c.send(zkproto.OpMulti, &zkproto.MultiRequest{Ops: slices.Repeat([]zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/acl", Version: -1}}, ops)})
			c.send(zkproto.OpPing, nil)
		}, 7},
		"writes that many watch": {func(c *rawClient) {
			for range 50 {
				c.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1})
			}
		}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c, other := dial(), dial()
				c.connect(10*time.Second, nil)
				other.connect(10*time.Second, nil)
				c.create("/a", 0)
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
				var first int64
				held(s, func() {
					tt.send(c)
					other.send(zkproto.OpPing, nil)
				}, func() { first = s.owner.round })
				go io.Copy(io.Discard, c.nc)
				synctest.Wait()
				if took := s.owner.round - first; took < tt.rounds || tt.rounds == 0 && took > 3 {
					t.Errorf("done after %d more rounds; want %d or a few more", took, tt.rounds)
				}
				other.read()
			})
		})
	}
}

// waitingRequests is called in place of the owner.
func waitingRequests(s *Server) (n int) {
	for _, c := range append(slices.Clone(s.owner.waiting), s.owner.late...) {
		n += len(c.owned.waits)
	}
	return n
}

// However many have a backlog, some shares of it all are what somebody new waits for.
func TestBacklogsShareABatch(t *testing.T) {
	const (
		clients, requests = 8, 20
		size              = largeAnswer - 256
		share, atOnce     = 2, 8 // requests
	)
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		other := dial()
		other.connect(10*time.Second, nil)
		other.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, size), ACL: openACL})
		var greedy []*rawClient
		for range clients {
			c := dial()
			c.connect(10*time.Second, nil)
			greedy = append(greedy, c)
		}
		var first int64
		var before, after int
		held(s, func() {
			for _, c := range greedy {
				for range requests {
					c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
				}
			}
		}, func() {
			first = s.owner.round
			held(s, func() { other.send(zkproto.OpPing, nil) }, func() { after = waitingRequests(s) })
			before = waitingRequests(s)
		})
		for _, c := range greedy {
			go io.Copy(io.Discard, c.nc)
		}
		other.read()
		synctest.Wait()
		if want := clients * (requests - share); before < want-atOnce || after < before-atOnce {
			t.Errorf("%d requests of the others waited, and %d when the new one was served; want %d or up to %d less", before, after, want, atOnce)
		}
		if took := s.owner.round - first; took < clients*(requests-share)/atOnce {
			t.Errorf("the others' requests took %d rounds; want one for %d each", took, atOnce)
		}
	})
}

// Who is new has a share, and many who are new have many: large answers wait until the
// committer is idle, as large requests do, and few go into one batch.
func TestLargeAnswersWaitLikeLargeRequests(t *testing.T) {
	const clients = 8
	for name, ask := range map[string]func(c *rawClient){
		"data":     func(c *rawClient) { c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"}) },
		"children": func(c *rawClient) { c.send(zkproto.OpGetChildren2, &zkproto.ReadRequest{Path: "/many"}) },
		"ephemerals": func(c *rawClient) {
			c.send(zkproto.OpGetEphemerals, &zkproto.GetEphemeralsRequest{Prefix: "/"})
		},
		"multi-read": func(c *rawClient) {
			c.send(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: slices.Repeat([]zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/some"}, {Op: zkproto.OpGetChildren, Path: "/many"}}, 3)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
				other := dial()
				other.connect(10*time.Second, nil)
				other.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, largeBatch), ACL: openACL})
				other.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/some", Data: make([]byte, largeAnswer/2), ACL: openACL})
				other.create("/many", 0)
				for i := range 100 {
					other.create(fmt.Sprintf("/many/%03d%s", i, strings.Repeat("x", largeBatch/100)), 0)
				}
				var greedy []*rawClient
				for range clients {
					c := dial()
					c.connect(10*time.Second, nil)
					greedy = append(greedy, c)
					for range 100 {
						if name == "ephemerals" {
							c.create("/"+strings.Repeat("x", largeBatch/100), zkproto.FlagEphemeralSequential)
						}
					}
				}
				var first, small int64
				held(s, func() {
					for _, c := range greedy {
						ask(c)
					}
					other.send(zkproto.OpExists, &zkproto.ReadRequest{Path: "/big"})
				}, func() {
					first = s.owner.shares
					small = int64(len(s.owner.batch.conns))
				})
				other.read()
				for _, c := range greedy {
					c.read()
				}
				synctest.Wait()
				if took := s.owner.shares - first; took < clients || small != 1 {
					t.Errorf("%d batches, with %d answers in the first before its large ones; want %d or more, and 1", took, small, clients)
				}
			})
		})
	}
}

// A multi-read of hundreds of nodes may wait for long, and is looked at in each round.
func TestWhatWaitsIsWeighedOnce(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		r := &request{op: zkproto.OpMultiRead, conn: &conn{}, multiRead: zkproto.MultiReadRequest{Ops: []zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/big"}}}}
		for _, size := range []int{2 * largeAnswer, 4 * largeAnswer} {
			c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", ACL: openACL})
			c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/big", Data: make([]byte, size), Version: -1})
			var bytes int
			held(s, func() {}, func() { bytes = s.largeBytes(r, false) })
			synctest.Wait()
			if bytes != 2*largeAnswer {
				t.Errorf("%d bytes with a node of %d", bytes, size)
			}
		}
	})
}

// A large frame is used again, by whoever asks next.
func TestLargeFramesAreUsedAgain(t *testing.T) {
	(&request{frame: make([]byte, 1<<20)}).recycle()
	head := bufio.NewReader(bytes.NewReader([]byte{0, 2, 0, 0}))
	for range 1000 { // the pool forgets some, with -race on purpose
		r := newRequest(head)
		if cap(r.frame) == 1<<20 {
			return
		}
		(&request{frame: make([]byte, 1<<20)}).recycle()
	}
	t.Error("never")
}

// All are told although not all at once, and are told all.
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
			t.Error("who wrote has waited until all were told")
		}
		for _, w := range all {
			for range writes {
				if e := w.event(); e.Type != zkproto.EventNodeDataChanged {
					t.Fatalf("event %+v", e)
				}
			}
		}
		if took := time.Since(began); took > time.Second { // and not when their sessions end
			t.Errorf("all were told within %v", took)
		}
	})
}

// The room for the operations of large transactions is used by one after the other.
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
		c.call(zkproto.OpMulti, creates("/a", 200)) // fails: they are there
		if n := s.owner.tree.Len(); n != 4+500 {
			t.Errorf("%d nodes; want %d", n, 4+500)
		}
	})
}

// onDisk is inBubble with a store that the test has made.
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

// However often the owner looks while a commit is under way: a share is all that a client
// gets into the next one, and large requests do not go into it before it begins.
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
		var staged, bytes, mine int
		s.queue.push(&request{kind: kindCall, call: func() {
			for _, c := range s.owner.batch.conns {
				staged = max(staged, len(c.owned.staged))
			}
			bytes, mine = s.owner.batch.large, len(s.owner.batch.conns)
		}})
		synctest.Wait()
		if staged <= largeAnswer || staged > 2*roundWork || bytes > 0 || mine != 2 {
			t.Errorf("the next commit has %d bytes of answers for one client, %d of large requests, and %d clients", staged, bytes, mine)
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

// Who goes on beyond a limit is slowed down, and nobody else is.
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
