package reserve_test

import (
	"context"
	"errors"
	"strings"
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

// queued lists the names of the nodes in the lock's directory.
func queued(t *testing.T, c *zk.Client) []string {
	t.Helper()
	names, _, err := c.Children(t.Context(), lockPath)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

var faults = []zktest.Action{zktest.DropRequest, zktest.DropReply}

// A cut counts the requests for nodes of a lock, and does something at one of them.
type cut struct {
	on      atomic.Bool
	n       atomic.Int32
	at      int32
	reached atomic.Bool
}

// newCut makes fault the answer to the at-th request after on is set. It starts at 1.
func newCut(srv *zktest.Server, at int, fault zktest.Action) *cut {
	c := &cut{at: int32(at)}
	for _, op := range []zkproto.Op{
		zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
		zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
	} {
		srv.Intercept(op, func(path string) zktest.Action {
			if !c.on.Load() || !strings.HasPrefix(path, "/holdfast") {
				return zktest.Pass
			}
			if c.n.Add(1) != c.at {
				return zktest.Pass
			}
			c.reached.Store(true)
			return fault
		})
	}
	return c
}

func mustSession(t *testing.T, c *zk.Client) int64 {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

// A spentContext has ended without waking those that wait for its Done. So a waiter sees it
// that another event wakes at the same moment.
type spentContext struct {
	context.Context
	spent atomic.Bool
}

func (c *spentContext) Done() <-chan struct{} { return nil }

func (c *spentContext) Err() error {
	if c.spent.Load() {
		return context.Canceled
	}
	return nil
}
