package zkserver

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"holdfast/zkproto"
)

func TestMain(m *testing.M) {
	if !serveAsProcess() && !floodAsProcess() {
		goleak.VerifyTestMain(m)
	}
}

// serve opens a server and serves it on a TCP port; both end with the test.
func serve(t *testing.T, cfg Config) (*Server, net.Listener) {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, listen(t, s, "tcp", "127.0.0.1:0")
}

func listen(t *testing.T, s *Server, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, ErrServerClosed) && s.Err() == nil {
			t.Errorf("Serve returned %v; want ErrServerClosed", err)
		}
	})
	return l
}

// stores runs a test once per kind of store. Its function f gets a function that returns a
// configuration with the same store at every call.
func stores(t *testing.T, f func(t *testing.T, cfg func() Config)) {
	t.Run("memory", func(t *testing.T) {
		m := NewMemory()
		f(t, func() Config { return Config{Memory: m} })
	})
	t.Run("journal", func(t *testing.T) {
		dir := t.TempDir()
		f(t, func() Config { return Config{Dir: dir} })
	})
}

func TestServesTCPAndUnixSockets(t *testing.T) {
	s, tcp := serve(t, Config{})
	unix := listen(t, s, "unix", filepath.Join(t.TempDir(), "s"))
	a, b := dialRaw(t, tcp), dialRaw(t, unix)
	if r := a.connect(10*time.Second, nil); r.SessionID <= 0 || r.Timeout != 10000 || len(r.Passwd) != 16 {
		t.Fatalf("connect over TCP: got %+v", r)
	}
	b.connect(10*time.Second, nil)
	if got := a.create("/a", zkproto.FlagPersistent); got != "/a" {
		t.Fatalf("create answered %q; want /a", got)
	}
	if _, code := b.exists("/a", false); code != zkproto.CodeOK {
		t.Fatalf("the other connection does not see /a: %v", code)
	}
}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	stores(t, func(t *testing.T, cfg func() Config) {
		s, l := serve(t, cfg())
		c := dialRaw(t, l)
		session := c.connect(10*time.Second, nil)
		c.create("/a", zkproto.FlagPersistent)
		c.create("/a/e", zkproto.FlagEphemeral)
		c.create("/a/s-", zkproto.FlagPersistentSequential)
		before, _ := c.exists("/a", false)
		lastZxid := c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/none", Version: -1}).Zxid
		s.Close()

		_, l = serve(t, cfg())
		c = dialRaw(t, l)
		if r := c.connect(10*time.Second, session); r.SessionID != session.SessionID {
			t.Fatalf("session not resumed: got %+v", r)
		}
		after, code := c.exists("/a", false)
		if code != zkproto.CodeOK || after != before {
			t.Fatalf("/a after the restart: got %+v, %v; want %+v", after, code, before)
		}
		if stat, code := c.exists("/a/e", false); code != zkproto.CodeOK || stat.EphemeralOwner != session.SessionID {
			t.Fatalf("/a/e after the restart: got %+v, %v", stat, code)
		}
		if got := c.create("/a/s-", zkproto.FlagPersistentSequential); !strings.HasSuffix(got, "0000000002") {
			t.Errorf("next sequential node is %s; want number 2", got)
		}
		stat, _ := c.exists("/a", false)
		if stat.Pzxid <= lastZxid {
			t.Errorf("zxid 0x%x was used again after a restart (0x%x had been seen)", stat.Pzxid, lastZxid)
		}
	})
}
