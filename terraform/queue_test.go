package terraform_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/terraform"
)

// ask sends LOCK for a client that has asked once before, and returns its answer when it comes.
func (b *backend) ask(ctx context.Context, id string) <-chan answer {
	c := b.client(id)
	got := make(chan answer, 1)
	go func() {
		defer close(got)
		if a, err := c.try(ctx, "LOCK", c.base+"/lock", c.json()); err == nil {
			got <- a
		}
	}()
	return got
}

// untilQueued waits until n clients stand in the lock's queue.
func (b *backend) untilQueued(n int) {
	b.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		q, err := holdfast.List(context.Background(), b.zk.Client(), "/tf/app/default/lock")
		waiters := 0
		for _, e := range q {
			if !e.Held {
				waiters++
			}
		}
		if err == nil && waiters == n {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("%d waiters, %v; want %d", waiters, err, n)
		}
	}
}

// untilNext waits until the client with this id stands in the lock's queue.
func (b *backend) untilNext(id string) {
	b.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		q, err := holdfast.List(context.Background(), b.zk.Client(), "/tf/app/default/lock")
		if err == nil && len(q) == 2 && strings.HasSuffix(q[1].Owner, "@"+id) {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("%+v, %v; want %s behind the holder", q, err, id)
		}
	}
}

// untilWaiting waits until a client that asks once is told of n waiters.
func (b *backend) untilWaiting(n int) {
	b.t.Helper()
	for i := 0; i < 3000; i++ {
		h := want(b.t, "LOCK", b.client("probe"+strconv.Itoa(n)+"-"+strconv.Itoa(i)).lock(), 423).holder(b.t)
		if strings.Contains(h.Info, fmt.Sprintf(" %d waiting", n)) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	b.t.Fatalf("never %d waiting", n)
}

// Points 2 and 3: the first LOCK is answered at once. Later ones are held open, and granted in the order of the first.
func TestLaterRequestsWaitForTheirTurn(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.Poll = time.Minute })
	holder := b.client("holder")
	want(t, "LOCK", holder.lock(), 200)
	ids := []string{"w1", "w2", "w3"}
	for _, id := range ids {
		start := time.Now()
		want(t, "first LOCK", b.client(id).lock(), 423)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("the first LOCK took %v", took)
		}
	}
	ctx := t.Context()
	got := map[string]<-chan answer{}
	for i, id := range []string{"w3", "w2", "w1"} { // they ask again in another order
		got[id] = b.ask(ctx, id)
		b.untilWaiting(i + 1)
	}
	b.untilNext("w1") // only the first stands in the lock's queue
	want(t, "UNLOCK", holder.unlock(), 200)
	for _, id := range ids {
		want(t, "LOCK of "+id, <-got[id], 200)
		want(t, "UNLOCK of "+id, b.client(id).unlock(), 200)
	}
}

// A request that is held open ends with 423 and the holder.
func TestHeldRequestsEnd(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.Poll = 50 * time.Millisecond })
	want(t, "LOCK", b.client("a1").lock(), 200)
	w := b.client("w1")
	want(t, "first LOCK", w.lock(), 423)
	start := time.Now()
	if h := want(t, "second LOCK", w.lock(), 423).holder(t); h.ID != "a1" || time.Since(start) < 50*time.Millisecond {
		t.Errorf("%+v after %v", h, time.Since(start))
	}
	b.untilQueued(0)
}

// Point 3's hazard: a lock is granted only while the request lives, and a waiter that has died blocks nobody.
func TestDeadWaiterGetsNoLock(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.Poll = time.Minute })
	holder := b.client("holder")
	want(t, "LOCK", holder.lock(), 200)
	want(t, "first LOCK", b.client("dead").lock(), 423)
	want(t, "first LOCK", b.client("alive").lock(), 423)
	ctx, kill := context.WithCancel(t.Context())
	dead := b.ask(ctx, "dead")
	b.untilQueued(1)
	alive := b.ask(t.Context(), "alive")
	b.untilWaiting(2)
	kill()
	<-dead
	b.untilNext("alive") // the server has learned of the death
	want(t, "UNLOCK", holder.unlock(), 200)
	want(t, "LOCK of the next", <-alive, 200)
	want(t, "UNLOCK of the next", b.client("alive").unlock(), 200)
	b.untilQueued(0)
	if q, err := holdfast.List(t.Context(), b.zk.Client(), "/tf/app/default/lock"); err != nil || len(q) > 0 {
		t.Errorf("%+v, %v: the lock is held for a dead client", q, err)
	}
}

// A client whose connection was cut sends LOCK again. The older request must not get in its way.
func TestNewerRequestReplacesTheOlder(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.Poll = time.Minute })
	holder := b.client("holder")
	want(t, "LOCK", holder.lock(), 200)
	want(t, "first LOCK", b.client("w").lock(), 423)
	older := b.ask(t.Context(), "w")
	b.untilQueued(1)
	newer := b.ask(t.Context(), "w")
	if a := <-older; a.status != 423 {
		t.Errorf("the older request: %v", a)
	}
	b.untilQueued(1)
	want(t, "UNLOCK", holder.unlock(), 200)
	want(t, "newer LOCK", <-newer, 200)
	if q, err := holdfast.List(t.Context(), b.zk.Client(), "/tf/app/default/lock"); err != nil || len(q) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.Poll, c.MaxWaiters = time.Minute, 1 })
	want(t, "LOCK", b.client("holder").lock(), 200)
	want(t, "first LOCK", b.client("w1").lock(), 423)
	want(t, "first LOCK", b.client("w2").lock(), 423)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.ask(ctx, "w1")
	b.untilQueued(1)
	want(t, "LOCK of one too many", b.client("w2").lock(), 423) // at once
}

// Must-show: eight applies of one state, one after the other, through two Backends. Each reads, adds one, and writes.
func TestConcurrentApplies(t *testing.T) {
	b := newBackend(t)
	other := newBackendOn(t, b.zk)
	const n = 8
	var wg sync.WaitGroup
	for i := range n {
		c := []*backend{b, other}[i%2].client("apply" + strconv.Itoa(i))
		wg.Go(func() {
			for c.lock().status != 200 {
			}
			serial := 0
			if got := c.get(); got.status == 200 {
				fmt.Sscanf(string(got.body), `{"version":4,"terraform_version":"1.11.4","serial":%d,`, &serial)
			}
			if a := c.post(state(serial+1, c.info.ID)); a.status != 200 {
				t.Errorf("%s: %v", c.info.ID, a)
			}
			c.unlock()
		})
	}
	wg.Wait()
	versions, err := b.History(t.Context(), b.ws())
	if err != nil || len(versions) != n {
		t.Fatalf("%d versions, %v; want %d", len(versions), err, n)
	}
	for i, v := range versions {
		if v.Serial != int64(i+1) {
			t.Errorf("version %d has the serial %d", i+1, v.Serial)
		}
	}
	want(t, "LOCK at the end", b.client("last").lock(), 200)
}
