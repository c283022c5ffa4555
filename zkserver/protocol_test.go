package zkserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"testing"
	"time"

	"holdfast/zkproto"
)

func TestOperationsOnTheWire(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		id := c.connect(10*time.Second, nil).SessionID
		decode := func(a answer, m interface{ Decode(*zkproto.Reader) }) {
			t.Helper()
			if a.Err != zkproto.CodeOK {
				t.Fatalf("%T: %v", m, a.Err)
			}
			m.Decode(a.body)
			if err := a.body.Complete(); err != nil {
				t.Fatalf("%T: %v", m, err)
			}
		}
		var created zkproto.Create2Response
		a := c.call(zkproto.OpCreate2, &zkproto.CreateRequest{Path: "/a", ACL: openACL, Flags: zkproto.FlagEphemeral})
		decode(a, &created)
		if created.Path != "/a" || created.Stat.EphemeralOwner != id || created.Stat.Czxid != a.Zxid {
			t.Errorf("create2: %+v, zxid 0x%x", created, a.Zxid)
		}
		var data zkproto.GetDataResponse
		decode(c.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/a"}), &data)
		if data.Data != nil || data.Stat != created.Stat {
			t.Errorf("getData: %+v; want null and the Stat of the creation", data)
		}
		var set zkproto.StatResponse
		decode(c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: []byte{}, Version: 0}), &set)
		decode(c.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/a"}), &data)
		if data.Data == nil || len(data.Data) != 0 || data.Stat != set.Stat || set.Stat.Version != 1 {
			t.Errorf("getData after setData of nothing: %+v", data)
		}
		var names zkproto.ChildrenResponse
		decode(c.call(zkproto.OpGetChildren, &zkproto.ReadRequest{Path: "/"}), &names)
		slices.Sort(names.Children)
		if !slices.Equal(names.Children, []string{"a", "zookeeper"}) {
			t.Errorf("getChildren: %q", names.Children)
		}
		var names2 zkproto.Children2Response
		decode(c.call(zkproto.OpGetChildren2, &zkproto.ReadRequest{Path: "/zookeeper"}), &names2)
		if len(names2.Children) != 2 || names2.Stat.NumChildren != 2 {
			t.Errorf("getChildren2: %+v", names2)
		}
		var sync zkproto.SyncRequest
		decode(c.call(zkproto.OpSync, &zkproto.SyncRequest{Path: "/not/there"}), &sync)
		if sync.Path != "/not/there" {
			t.Errorf("sync: %q", sync.Path)
		}
		if a := c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a", Version: 0}); a.Err != zkproto.CodeBadVersion || a.body.Remaining() != 0 {
			t.Errorf("delete: %v and %d bytes; want a version conflict and no record", a.Err, a.body.Remaining())
		}
		if a := c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a", Version: 1}); a.Err != zkproto.CodeOK {
			t.Errorf("delete: %v", a.Err)
		}
	})
}

func TestFailedWritesTakeAZxid(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		start := c.call(zkproto.OpPing, nil).Zxid
		c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/none", Version: -1})
		c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/none", Version: -1}}})
		c.call(zkproto.OpMulti, &zkproto.MultiRequest{})
		c.exists("/none", false)
		if got := c.call(zkproto.OpPing, nil).Zxid - start; got != 3 {
			t.Errorf("two failed writes and an empty transaction used %d zxids; want 3", got)
		}
	})
}

func TestPingIsAnsweredWithThePingsXidWhateverItHad(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.sendFrame(&zkproto.RequestHeader{Xid: 7, Op: zkproto.OpPing})
		if a := c.read(); a.Xid != zkproto.XidPing || a.Err != zkproto.CodeOK {
			t.Errorf("got xid %d, error %v; want %d, none", a.Xid, a.Err, zkproto.XidPing)
		}
	})
}

func TestMultiAnswers(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		multi := func(ops ...zkproto.MultiOp) ([]zkproto.MultiResult, int64) {
			t.Helper()
			a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops})
			if a.Err != zkproto.CodeOK {
				t.Fatalf("header: %v; want ok whatever the transaction's outcome", a.Err)
			}
			var m zkproto.MultiResponse
			m.Decode(a.body)
			if err := a.body.Complete(); err != nil {
				t.Fatal(err)
			}
			return m.Results, a.Zxid
		}
		got, zxid := multi(
			zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/a-", ACL: openACL, Flags: zkproto.FlagPersistentSequential},
			zkproto.MultiOp{Op: zkproto.OpCreateContainer, Path: "/b", ACL: openACL, Flags: zkproto.FlagContainer},
			zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/b", Data: []byte("x"), Version: 0},
			zkproto.MultiOp{Op: zkproto.OpCheck, Path: "/b", Version: 1},
			zkproto.MultiOp{Op: zkproto.OpDelete, Path: "/a-0000000000", Version: -1},
		)
		if len(got) != 5 || got[0].Path != "/a-0000000000" || got[1].Path != "/b" || got[1].Stat.Czxid != zxid ||
			got[2].Stat.Version != 1 || got[2].Stat.Mzxid != zxid {
			t.Errorf("success: %+v", got)
		}
		got, _ = multi(
			zkproto.MultiOp{Op: zkproto.OpDelete, Path: "/b", Version: -1},
			zkproto.MultiOp{Op: zkproto.OpCheck, Path: "/b", Version: -1},
			zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/c", ACL: openACL},
		)
		want := []zkproto.MultiResult{
			{Op: zkproto.OpError, Err: zkproto.CodeOK},
			{Op: zkproto.OpError, Err: zkproto.CodeNoNode},
			{Op: zkproto.OpError, Err: zkproto.CodeRuntimeInconsistency},
		}
		if !slices.Equal(got, want) {
			t.Errorf("failure: got %+v; want %+v", got, want)
		}
		if _, code := c.exists("/b", false); code != zkproto.CodeOK {
			t.Errorf("/b after the failed transaction: %v", code)
		}
		if got, _ := multi(); len(got) != 0 {
			t.Errorf("empty: %+v", got)
		}
	})
}

func TestEventsComeBeforeWhatReflectsThem(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		c.connect(10*time.Second, nil)
		other.connect(10*time.Second, nil)
		// The client's own write: the event, then the answer.
		c.exists("/a", true)
		c.call(zkproto.OpGetChildren, &zkproto.ReadRequest{Path: "/", Watch: true})
		xid := c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/a", ACL: openACL})
		if e := c.event(); e.Type != zkproto.EventNodeCreated || e.Path != "/a" || e.State != zkproto.StateSyncConnected {
			t.Errorf("first event: %+v", e)
		}
		if e := c.event(); e.Type != zkproto.EventNodeChildrenChanged || e.Path != "/" {
			t.Errorf("second event: %+v", e)
		}
		if a := c.read(); a.Xid != xid {
			t.Errorf("then xid %d; want the answer to %d", a.Xid, xid)
		}
		// Another client's write: the event, then a read that sees it.
		c.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/a", Watch: true})
		other.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1})
		c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/a"})
		if e := c.event(); e.Type != zkproto.EventNodeDataChanged || e.Path != "/a" {
			t.Errorf("event: %+v", e)
		}
		c.read()
	})
}

func TestWatchesAreSetAgainAndRemoved(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.create("/a", zkproto.FlagPersistent)
		h := &zkproto.RequestHeader{Xid: zkproto.XidSetWatches, Op: zkproto.OpSetWatches}
		c.sendFrame(h, &zkproto.SetWatchesRequest{RelativeZxid: 1 << 62, Data: []string{"/a", "/gone"}, Child: []string{"/a"}})
		if e := c.event(); e.Type != zkproto.EventNodeDeleted || e.Path != "/gone" {
			t.Errorf("event: %+v", e)
		}
		if a := c.read(); a.Xid != zkproto.XidSetWatches || a.Err != zkproto.CodeOK {
			t.Errorf("answer: %+v", a.ReplyHeader)
		}
		for _, tt := range []struct {
			kind int32
			want zkproto.Code
		}{{zkproto.WatchData, zkproto.CodeOK}, {zkproto.WatchData, zkproto.CodeNoWatcher}, {zkproto.WatchAny, zkproto.CodeOK}, {9, zkproto.CodeMarshallingError}} {
			if a := c.call(zkproto.OpRemoveWatches, &zkproto.RemoveWatchesRequest{Path: "/a", Kind: tt.kind}); a.Err != tt.want {
				t.Errorf("removeWatches of kind %d: %v; want %v", tt.kind, a.Err, tt.want)
			}
		}
		c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a", Version: -1}) // and no event before its answer
	})
}

func TestRefusedOperationsCloseTheConnectionOnly(t *testing.T) {
	for _, tt := range []struct {
		op   zkproto.Op
		zxid int64
		want zkproto.Code
	}{
		{99, -1, zkproto.CodeUnimplemented},
		{zkproto.OpCheck, -1, zkproto.CodeUnimplemented}, // inside multi only
		{-10, -1, zkproto.CodeUnimplemented},             // Apache's own createSession
		{20, -1, zkproto.CodeUnimplemented},              // Apache's own deleteContainer
		{zkproto.OpAuth, 0, zkproto.CodeAuthFailed},      // an empty body
	} {
		inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
			c := dial()
			session := c.connect(10*time.Second, nil)
			if a := c.call(tt.op, nil); a.Err != tt.want || a.Zxid != tt.zxid {
				t.Errorf("op %d: %+v; want %v with zxid %d", tt.op, a.ReplyHeader, tt.want, tt.zxid)
			}
			c.closed()
			if r := dial().connect(10*time.Second, session); r.SessionID != session.SessionID {
				t.Errorf("op %d ended the session", tt.op)
			}
		})
	}
}

func TestFourLetterWords(t *testing.T) {
	// The form that go-zookeeper requires.
	srvr := regexp.MustCompile(`(?s)^Zookeeper version: ([A-Za-z0-9\.\-]+), built on (\d\d/\d\d/\d\d\d\d \d\d:\d\d [A-Za-z0-9:\+\-]+)\n` +
		`Latency min/avg/max: \d+/[0-9.]+/\d+\nReceived: \d+\nSent: \d+\nConnections: \d+\nOutstanding: \d+\n` +
		`Zxid: 0x[0-9a-f]+\nMode: standalone\nNode count: 4\n$`)
	for _, tt := range []struct {
		send string
		want *regexp.Regexp
	}{
		{"ruok", regexp.MustCompile(`^imok$`)},
		{"srvr", srvr},
		{"srvr\r\n", srvr},
		{"envi", regexp.MustCompile(`^Environment:\nzookeeper.version=3\.8\.4-[a-z]+, built on [^\n]+\n$`)},
		{"isro", regexp.MustCompile(`^rw$`)},
		{"mntr", regexp.MustCompile(`^mntr is not executed because it is not in the whitelist.\n$`)},
		{"\xff\xf4\xff\xfd", regexp.MustCompile(`^$`)}, // how telnet closes
	} {
		_, l := serve(t, Config{})
		c := dialRaw(t, l)
		io.WriteString(c.nc, tt.send)
		got, err := io.ReadAll(c.nc)
		if err != nil || !tt.want.Match(got) {
			t.Errorf("%q: got %q, %v; want %v", tt.send, got, err, tt.want)
		}
	}
}

func TestShutdownAnswersWhatItHasTaken(t *testing.T) {
	stores(t, func(t *testing.T, cfg func() Config) {
		s, l := serve(t, cfg())
		c := dialRaw(t, l)
		session := c.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		last := c.call(zkproto.OpPing, nil).Zxid
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Done():
		default:
			t.Error("Shutdown returned, but the server has not stopped")
		}
		c.closed()
		if err := s.Close(); err != nil {
			t.Errorf("Close after Shutdown: %v", err)
		}
		_, l = serve(t, cfg())
		c = dialRaw(t, l)
		if r := c.connect(10*time.Second, session); r.SessionID != session.SessionID {
			t.Errorf("the session did not survive: %+v", r)
		}
		if next := c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/none", Version: -1}).Zxid; next <= last {
			t.Errorf("zxid 0x%x after a planned restart; 0x%x was given before it", next, last)
		}
	})
}

func TestShutdownIsCutOffByItsContext(t *testing.T) {
	s, l := serve(t, Config{})
	c := dialRaw(t, l)
	c.connect(10*time.Second, nil)
	// A client that reads nothing keeps its writer busy.
	c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: bytes.Repeat([]byte("x"), 900_000), ACL: openACL})
	for range 30 {
		c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
	}
	probe := dialRaw(t, l)
	probe.connect(10*time.Second, nil)
	probe.exists("/big", false)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more patience")
	cancel(why)
	if err := s.Shutdown(ctx); !errors.Is(err, why) {
		t.Errorf("Shutdown: %v; want %v", err, why)
	}
	<-s.Done()
}

func TestServeAfterTheEnd(t *testing.T) {
	s, l := serve(t, Config{})
	s.Close()
	if err := s.Serve(l); !errors.Is(err, ErrServerClosed) {
		t.Errorf("Serve: %v; want ErrServerClosed", err)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		cfg  Config
		says string
	}{
		{Config{Dir: dir}, regexp.QuoteMeta(dir) + ".*another process has it open"},
		{Config{TickTime: -1}, "tick time"},
		{Config{MinSessionTimeout: 2 * time.Second, MaxSessionTimeout: time.Second}, "session timeouts"},
		{Config{Linger: -1}, "linger"},
		{Config{Dir: dir, Memory: NewMemory()}, "both set"},
	} {
		if s, err := Open(tt.cfg); err == nil {
			s.Close()
			t.Errorf("%+v was accepted", tt.cfg)
		} else if !regexp.MustCompile(tt.says).MatchString(err.Error()) {
			t.Errorf("got %v; want it to say %q", err, tt.says)
		}
	}
}
