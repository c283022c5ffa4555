package once_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

const lockPath = "/holdfast/locks/db"

// inBubble runs f with its own server and fake time.
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
	cfg := srv.Config()
	cfg.SessionTimeout = sessionTimeout
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
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

// dataOf returns the data of a node.
func dataOf(t *testing.T, c *zk.Client, path string) string {
	t.Helper()
	data, _, err := c.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// faults are the two ways to lose a request.
var faults = []zktest.Action{zktest.DropRequest, zktest.DropReply}

// sessionOf returns the id of a client's session.
func sessionOf(t *testing.T, c *zk.Client) int64 {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

// A throttle is an overloaded server, for as long as it is on. It counts the requests that it
// refuses.
type throttle struct {
	on      atomic.Bool
	refused atomic.Int64
}

// enough bounds how many requests a throttle refuses. Fake time stands still for a caller
// that sends without a pause, so the test would never end otherwise.
const enough = 20_000

// newThrottle returns a throttle. It starts off.
func newThrottle(srv *zktest.Server) *throttle {
	th := &throttle{}
	for _, op := range []zkproto.Op{
		zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
		zkproto.OpSetData, zkproto.OpGetChildren, zkproto.OpGetChildren2, zkproto.OpMulti, zkproto.OpMultiRead, zkproto.OpSync,
	} {
		srv.Intercept(op, func(string) zktest.Action {
			if th.on.Load() && th.refused.Add(1) < enough {
				return zktest.Throttle
			}
			return zktest.Pass
		})
	}
	return th
}
