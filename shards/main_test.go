package shards_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// inBubble runs f in virtual time, with a server.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Pings keep a bubble busy, so a wait for an event that never comes would spin for ever.
		hangs := time.AfterFunc(2*time.Hour, func() { panic(t.Name() + " has hung for two hours of its own time") })
		defer hangs.Stop()
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

// sessionTimeout is the timeout that these tests' clients ask for.
const sessionTimeout = 10 * time.Second

// client returns a client with its own session.
func client(t *testing.T, srv *zktest.Server) *zk.Client {
	t.Helper()
	return dial(t, srv.Config())
}

func dial(t *testing.T, cfg zk.Config) *zk.Client {
	t.Helper()
	cfg.SessionTimeout = sessionTimeout
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// cuttable returns a client, and a function that breaks its connection for good.
func cuttable(t *testing.T, srv *zktest.Server) (c *zk.Client, cut func()) {
	t.Helper()
	var mu sync.Mutex // guards the variables below
	var conn net.Conn
	down := false
	cfg := srv.Config()
	dialed := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			return nil, errors.New("the connection is cut")
		}
		var err error
		conn, err = dialed(ctx, network, address)
		return conn, err
	}
	return dial(t, cfg), func() {
		mu.Lock()
		down = true
		conn.Close()
		mu.Unlock()
		synctest.Wait()
	}
}

func lock(t *testing.T, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func unlock(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v; want %v", got, want)
	}
}
