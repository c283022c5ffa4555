package ui_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

// A world is a server with clients that hold locks and wait.
type world struct {
	t       *testing.T
	server  *zktest.Server
	clients []*zk.Client
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, server: zktest.NewServer(zktest.TickTime(100 * time.Millisecond))}
	t.Cleanup(w.server.Close)
	for range 16 {
		w.clients = append(w.clients, w.server.Client())
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// take takes a lock.
func (w *world) take(l holdfast.Locker) *holdfast.Hold {
	w.t.Helper()
	h, err := l.Lock(w.t.Context())
	w.must(err)
	return h
}

// wait begins to wait for a lock, and returns when the waiter is in the queue.
func (w *world) wait(path string, l holdfast.Locker, layout ...holdfast.Layout) (leave func()) {
	w.t.Helper()
	before, err := holdfast.List(w.t.Context(), w.clients[0], path, layout...)
	w.must(err)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h, err := l.Lock(ctx); err == nil {
			<-ctx.Done()
			_ = h.Unlock()
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	w.eventually("a waiter of "+path, func() bool {
		now, err := holdfast.List(w.t.Context(), w.clients[0], path, layout...)
		w.must(err)
		return len(now) > len(before)
	})
	return func() { cancel(); <-done }
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatal("did not happen: " + what)
		}
	}
}

const space = "/holdfast/locks/"

// populate makes locks of all kinds and in several layouts, with a deadlock of three.
func (w *world) populate() {
	c := w.clients
	who := func(owner, why string) []holdfast.Option {
		return []holdfast.Option{holdfast.WithOwner(owner), holdfast.WithReason(why)}
	}
	mutex := func(i int, name, owner, why string, more ...holdfast.Option) *holdfast.Mutex {
		return holdfast.NewMutex(c[i], space+name, append(who(owner, why), more...)...)
	}
	w.take(mutex(0, "db/migrate", "deploy@web1:4112", "schema 42 of the orders database", holdfast.WithLabels(map[string]string{"release": "2026.11.3", "team": "orders"})))
	w.wait(space+"db/migrate", mutex(4, "db/migrate", "deploy@web2:981", "schema 43"))
	w.wait(space+"db/migrate", mutex(5, "db/migrate", "ann@laptop:71", "look at the plan"))
	w.wait(space+"db/migrate", mutex(6, "db/migrate", "ci@runner7:5512", "integration tests"))
	began := time.Now().UnixMilli()
	w.eventually("a later millisecond, since the pages sort by it", func() bool { return time.Now().UnixMilli() > began })
	w.take(mutex(4, "cron/nightly", "cron@batch1:200", "nightly export"))
	w.wait(space+"cron/nightly", mutex(7, "cron/nightly", "cron@batch2:207", "nightly export"))
	// A cycle of three.
	for i, name := range []string{"alpha", "beta", "gamma"} {
		w.take(mutex(i+1, "app/"+name, fmt.Sprintf("worker-%s@app%d:77", name, i+1), "moves an account"))
	}
	for i, name := range []string{"beta", "gamma", "alpha"} {
		w.wait(space+"app/"+name, mutex(i+1, "app/"+name, fmt.Sprintf("worker@app%d:77", i+1), "moves an account"))
	}
	rw := func(i int, owner string) *holdfast.RWMutex {
		return holdfast.NewRWMutex(c[i], space+"files/index", who(owner, "reads the index")...)
	}
	w.take(rw(7, "reader@s1:1").RLocker())
	w.take(rw(8, "reader@s2:1").RLocker())
	w.wait(space+"files/index", rw(9, "writer@s3:9"))
	sem := func(i int, owner string) holdfast.Locker {
		return holdfast.NewSemaphore(c[i], space+"pool/render", 2, who(owner, "renders a film")...).Locker(1)
	}
	w.take(sem(0, "gpu@r1:8"))
	w.take(sem(10, "gpu@r2:8"))
	w.wait(space+"pool/render", sem(11, "gpu@r3:8"))
	w.take(holdfast.NewSlots(c[0], space+"ids/snowflake", 16, who("ids@n1:3", "worker id")...).Locker(1))
	w.take(holdfast.NewNodeLock(c[1], space+"single", who("solo@n2:4", "a node without a queue")...))
	election := func(i int) *holdfast.Election { return holdfast.NewElection(c[i], space+"leader/scheduler") }
	_, err := election(0).Campaign(w.t.Context(), []byte("http://sched1:8080"))
	w.must(err)
	for _, layout := range []holdfast.Layout{layout.Kazoo, layout.GoZookeeper} {
		path := space + "other/" + layout.Name
		l := holdfast.WithLayout(layout)
		w.take(holdfast.NewMutex(c[13], path, append(who("legacy-"+layout.Name+"@old1:2", "another library"), l)...))
		w.wait(path, holdfast.NewMutex(c[12], path, append(who("legacy-"+layout.Name+"@old2:2", "another library"), l)...), layout)
	}
}
