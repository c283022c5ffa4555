package zkserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
)

// startOn starts a server on a store that the test has made.
func startOn(t *testing.T, st store.Store, cfg Config) *Server {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(cfg, login.Users{}, st)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pipe connects a client without a network.
func pipe(t *testing.T, s *Server) *rawClient {
	client, server := net.Pipe()
	s.accept(server)
	return newRaw(t, client)
}

// heldStore holds back commits until the test decides how each ends.
type heldStore struct {
	*store.Memory
	verdicts chan error
	commits  int
}

func (h *heldStore) Commit(b *store.Batch) error {
	h.commits++
	if err := <-h.verdicts; err != nil {
		return err
	}
	return h.Memory.Commit(b)
}

// frames reads in the background, so that a test can see that no frame has arrived.
func (c *rawClient) frames() <-chan answer {
	ch := make(chan answer, 100)
	go func() {
		defer close(ch)
		for {
			frame, err := zkproto.ReadFrame(c.in, nil, 1<<20)
			if err != nil {
				return
			}
			a := answer{body: zkproto.NewReader(frame)}
			a.Decode(a.body)
			ch <- a
		}
	}()
	return ch
}

func TestNothingIsSaidBeforeItIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 10)}
		s := startOn(t, disk, Config{})
		defer s.Close()
		disk.verdicts <- nil
		disk.verdicts <- nil
		writer, reader := pipe(t, s), pipe(t, s)
		writer.connect(10*time.Second, nil)
		reader.connect(10*time.Second, nil)
		reader.exists("/n", true)
		fromWriter, fromReader := writer.frames(), reader.frames()

		write := writer.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/n", ACL: openACL})
		synctest.Wait()
		read := reader.send(zkproto.OpExists, &zkproto.ReadRequest{Path: "/n"})
		unrelated := reader.send(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"})
		synctest.Wait()
		select {
		case a := <-fromWriter:
			t.Fatalf("the writer was answered before the commit: %+v", a.ReplyHeader)
		case a := <-fromReader:
			t.Fatalf("a reader was answered before the commit: %+v", a.ReplyHeader)
		default:
		}
		disk.verdicts <- nil
		if a := <-fromWriter; a.Xid != write || a.Err != zkproto.CodeOK {
			t.Errorf("the writer's answer: %+v", a.ReplyHeader)
		}
		for _, want := range []int32{zkproto.XidNotification, read, unrelated} {
			if a := <-fromReader; a.Xid != want || a.Err != zkproto.CodeOK {
				t.Errorf("the reader got %+v; want xid %d", a.ReplyHeader, want)
			}
		}
	})
}

func TestShutdownWaitsForWhatItHasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 10)}
		s := startOn(t, disk, Config{})
		disk.verdicts <- nil
		c := pipe(t, s)
		c.connect(10*time.Second, nil)
		c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/n", ACL: openACL})
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-down:
			t.Fatalf("Shutdown returned while a write was in flight: %v", err)
		default:
		}
		for range 3 {
			disk.verdicts <- nil
		}
		if a := c.read(); a.Err != zkproto.CodeOK {
			t.Errorf("the write: %v", a.Err)
		}
		c.closed()
		if err := <-down; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// A session ends after the server was told to stop, and before its last batch. The next server
// does not reuse the zxid of that end.
func TestZxidsGoOnAfterAPlannedStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 100)}
		s := startOn(t, disk, Config{})
		for range 10 {
			disk.verdicts <- nil
		}
		writer, silent := pipe(t, s), pipe(t, s)
		session := writer.connect(40*time.Second, nil)
		writer.create("/dir", zkproto.FlagPersistent)
		silent.connect(4*time.Second, nil)
		silent.create("/dir/e", zkproto.FlagEphemeral)
		time.Sleep(3500 * time.Millisecond)
		for len(disk.verdicts) > 0 {
			<-disk.verdicts
		}
		writer.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/held", ACL: openACL})
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		time.Sleep(600 * time.Millisecond) // the silent session ends
		for range 10 {
			disk.verdicts <- nil
		}
		if err := <-down; err != nil {
			t.Fatalf("Shutdown: %v", err)
		}

		s = startOn(t, disk.Memory, Config{})
		defer s.Close()
		writer = pipe(t, s)
		if again := writer.connect(40*time.Second, session); again.SessionID != session.SessionID {
			t.Fatal("the session of the writer is gone")
		}
		if _, code := writer.exists("/dir/e", false); code != zkproto.CodeNoNode {
			t.Fatalf("/dir/e: %v; want its session ended before the stop", code)
		}
		last, _ := writer.exists("/dir", false)
		if next := writer.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/none", Version: -1}).Zxid; next <= last.Pzxid {
			t.Errorf("zxid 0x%x after the stop; 0x%x was used before it", next, last.Pzxid)
		}
	})
}

func TestOneCommitServesAllWhoCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 100)}
		s := startOn(t, disk, Config{})
		defer s.Close()
		const n = 20
		for range n {
			disk.verdicts <- nil
		}
		var clients [n]*rawClient
		for i := range clients {
			clients[i] = pipe(t, s)
			clients[i].connect(10*time.Second, nil)
		}
		synctest.Wait()
		before := disk.commits
		for i, c := range clients {
			c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprint("/n", i), ACL: openACL})
			synctest.Wait() // otherwise the first commit may include several
		}
		for range n {
			disk.verdicts <- nil
		}
		for _, c := range clients {
			if a := c.read(); a.Err != zkproto.CodeOK {
				t.Errorf("create: %v", a.Err)
			}
		}
		if got := disk.commits - before; got != 2 { // the first create, and the rest together
			t.Errorf("%d creates took %d commits; want 2", n, got)
		}
	})
}

func TestFailedCommitStopsTheServer(t *testing.T) {
	disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 10)}
	s := startOn(t, disk, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	disk.verdicts <- nil
	c := dialRaw(t, l)
	c.connect(10*time.Second, nil)
	broken := errors.New("disk on fire")
	disk.verdicts <- broken
	disk.verdicts <- nil // if the server retried, the retry would succeed
	c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/n", ACL: openACL})
	c.closed()
	<-s.Done()
	if err := s.Err(); !errors.Is(err, broken) {
		t.Errorf("Err: %v; want %v", err, broken)
	}
	if err := <-served; !errors.Is(err, broken) {
		t.Errorf("Serve: %v; want %v", err, broken)
	}
	if disk.commits != 2 {
		t.Errorf("%d commits; want 2, nothing retried", disk.commits)
	}
	if err := s.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: %v; want %v", err, broken)
	}
}

// Power fails under eight writers. Whatever part of the unsynced bytes the disk kept, every
// acknowledged node is there with its Stat. No zxid that was seen is reused.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		fs := crashfs.New(nil)
		s := startOn(t, store.OpenOn(fs, small), Config{})
		var (
			mu       sync.Mutex
			acked    = make(map[string]zkproto.Stat)
			lastZxid int64
			sessions []*zkproto.ConnectResponse
			wg       sync.WaitGroup
		)
		enough := make(chan struct{}, 1000)
		for range 8 {
			c := pipe(t, s)
			sessions = append(sessions, c.connect(10*time.Second, nil))
			wg.Go(func() {
				for range 30 {
					a := c.call(zkproto.OpCreate2, &zkproto.CreateRequest{Path: "/n-", ACL: openACL, Flags: zkproto.FlagEphemeralSequential})
					var m zkproto.Create2Response
					m.Decode(a.body)
					failed := c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/none", Version: -1})
					mu.Lock()
					acked[m.Path] = m.Stat
					lastZxid = max(lastZxid, failed.Zxid)
					mu.Unlock()
					enough <- struct{}{}
				}
			})
		}
		for range rng.IntN(200) {
			<-enough
		}
		mu.Lock()
		crashed := fs.Image(fs.Now(), rng)
		survivors, seen := make(map[string]zkproto.Stat), lastZxid
		for path, stat := range acked {
			survivors[path] = stat
		}
		mu.Unlock()
		wg.Wait()
		s.Close()

		s = startOn(t, store.OpenOn(crashfs.New(crashed), small), Config{})
		c := pipe(t, s)
		if r := c.connect(10*time.Second, sessions[rng.IntN(len(sessions))]); r.SessionID == 0 {
			t.Error("a session is lost")
		}
		for path, want := range survivors {
			if got, code := c.exists(path, false); code != zkproto.CodeOK || got != want {
				t.Errorf("%s: %+v, %v; want %+v", path, got, code, want)
			}
		}
		if next := c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/none", Version: -1}).Zxid; next <= seen {
			t.Errorf("zxid 0x%x after the crash; 0x%x had been seen before", next, seen)
		}
		s.Close()
	}
}
