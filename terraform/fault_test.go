package terraform_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/terraform"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// dropping puts a proxy before the backend that drops the answer to the first request with a method. The request is
// executed.
func (b *backend) dropping(c *client, method string) {
	target, err := url.Parse(b.http.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	var dropped atomic.Bool
	p := httputil.NewSingleHostReverseProxy(target)
	p.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == method && dropped.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	s := httptest.NewServer(p)
	b.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	c.base = strings.Replace(c.base, b.http.URL, s.URL, 1)
	b.t.Cleanup(func() {
		if !dropped.Load() {
			b.t.Errorf("no answer to %s was dropped", method)
		}
	})
}

// again sends a request as the clients do: again after a lost connection or a 5xx.
func (c *client) again(method, url string, body []byte) answer {
	c.t.Helper()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		a, err := c.try(ctx, method, url, body)
		cancel()
		if err == nil && a.status < 500 {
			return a
		}
	}
	c.t.Fatalf("%s fails three times", method)
	return answer{}
}

// run is a whole run with retries.
func (c *client) run(serial int) {
	c.t.Helper()
	want(c.t, "LOCK", c.again("LOCK", c.base+"/lock", c.json()), 200)
	want(c.t, "POST", c.again("POST", c.base+"?ID="+c.info.ID, state(serial, c.info.ID)), 200)
	want(c.t, "UNLOCK", c.again("UNLOCK", c.base+"/lock", c.json()), 200)
}

// isFine checks that nothing was lost and nobody is locked out.
func (b *backend) isFine(serial int, id string) {
	b.t.Helper()
	if got := want(b.t, "GET", b.client("x").get(), 200); string(got.body) != string(state(serial, id)) {
		b.t.Errorf("the state is %s", got.body)
	}
	last := b.client("last")
	want(b.t, "LOCK of the next", last.lock(), 200)
	want(b.t, "UNLOCK", last.unlock(), 200)
	if q, err := holdfast.List(context.Background(), b.zk.Client(), "/tf/app/default/lock"); err != nil || len(q) > 0 {
		b.t.Errorf("the queue is %+v, %v", q, err)
	}
}

// Must-show: lost answers to LOCK, POST and UNLOCK.
func TestLostAnswers(t *testing.T) {
	for _, method := range []string{"LOCK", "POST", "UNLOCK"} {
		for _, ephemeral := range []bool{false, true} {
			t.Run(method, func(t *testing.T) {
				b := newBackend(t, func(c *terraform.Config) { c.Ephemeral = ephemeral })
				c := b.client("run1")
				b.dropping(c, method)
				c.run(1)
				b.isFine(1, "run1")
				if versions, err := b.History(t.Context(), b.ws()); err != nil || len(versions) != 1 {
					t.Errorf("%d versions, %v", len(versions), err)
				}
			})
		}
	}
}

// The connection to ZooKeeper is lost in the middle of each step, before the request or before its answer. The nth
// request of each sort is hit.
func TestConnectionsLostInEveryStep(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpSetData, zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpDelete, zkproto.OpMulti, zkproto.OpSync} {
		for _, action := range []zktest.Action{zktest.DropRequest, zktest.DropReply} {
			for nth := 1; nth <= 100; nth++ {
				b := newBackend(t)
				var mu sync.Mutex
				seen := 0
				b.zk.Intercept(op, func(path string) zktest.Action {
					mu.Lock()
					defer mu.Unlock()
					if seen++; seen == nth {
						return action
					}
					return zktest.Pass
				})
				b.client("run1").run(1)
				mu.Lock()
				hit := seen >= nth
				mu.Unlock()
				b.zk.Intercept(op, nil)
				b.isFine(1, "run1")
				if all, err := b.Unstored(t.Context(), b.ws()); err != nil || len(all) > 0 {
					t.Errorf("%v %v %d: %+v, %v", op, action, nth, all, err)
				}
				if t.Failed() {
					t.Fatalf("op %v, action %v, request %d", op, action, nth)
				}
				b.http.Close()
				b.zk.Close()
				if !hit { // this run has sent fewer
					break
				}
			}
		}
	}
}

// The Backend's session expires while a lock is held. Persistent locks stay.
func TestSessionExpires(t *testing.T) {
	var c *terraform.Config
	b := newBackend(t, func(cfg *terraform.Config) { c = cfg })
	client := c.Client
	run := b.client("run1")
	want(t, "LOCK", run.lock(), 200)
	session, err := client.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.zk.Expire(session.ID())
	<-session.Context().Done()
	want(t, "LOCK of another", b.client("b1").lock(), 423)
	want(t, "POST", run.post(state(1, "run1")), 200)
	want(t, "UNLOCK", run.unlock(), 200)
	b.isFine(1, "run1")
}

// A Backend dies while a lock is held, and another one goes on.
func TestBackendIsReplaced(t *testing.T) {
	b := newBackend(t)
	run := b.client("run1")
	want(t, "LOCK", run.lock(), 200)
	b.http.Close()
	b.Close()
	next := newBackendOn(t, b.zk)
	again := next.client("run1")
	want(t, "LOCK of another", next.client("b1").lock(), 423)
	want(t, "POST", again.post(state(1, "run1")), 200)
	want(t, "UNLOCK", again.unlock(), 200)
	next.isFine(1, "run1")
}

// An upload was interrupted, and a later one removes its pieces. Those of a running upload stay.
func TestLeftoversAreSwept(t *testing.T) {
	defer terraform.SetLeftoverAge(time.Hour)()
	b := newBackend(t)
	c := b.zk.Client()
	b.client("run1").run(1)
	dir := "/tf/app/default/versions/vleftover"
	for _, node := range []string{dir, dir + "/0000"} {
		if _, _, err := c.Create(t.Context(), node, []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	b.client("run2").run(2)
	if n := b.stored(t); n != 3 {
		t.Errorf("%d versions; want 3: the upload may be running", n)
	}
	terraform.SetLeftoverAge(-1) // now it counts as interrupted
	b.client("run3").run(3)
	if n := b.stored(t); n != 3 {
		t.Errorf("%d versions; want 3", n)
	}
	b.isFine(3, "run3")
}

// A lock of Config.Ephemeral ends with the session, and the run is told. Its state is refused, and others are kept out.
func TestEphemeralLockIsLost(t *testing.T) {
	var cfg *terraform.Config
	b := newBackend(t, func(c *terraform.Config) { c.Ephemeral = true; cfg = c })
	run := b.client("run1")
	far := b.Deadline()
	want(t, "LOCK", run.lock(), 200)
	if d := b.Deadline(); !d.Before(far) || time.Until(d) > time.Minute {
		t.Errorf("the deadline is in %v", time.Until(d))
	}
	session, err := cfg.Client.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.zk.Expire(session.ID())
	select {
	case <-b.Lost():
	case <-time.After(patience):
		t.Fatal("nobody is told of the loss")
	}
	want(t, "POST", run.post(state(1, "x")), 409)
	want(t, "UNLOCK", run.unlock(), 200)
	want(t, "LOCK of the next", b.client("next").lock(), 423)
}

// A run that ends without an unlock frees its lock. If it may have changed something, others are kept out until somebody
// has looked.
func TestEphemeralLockEndsWithTheBackend(t *testing.T) {
	for operation, next := range map[string]int{"OperationTypePlan": 200, "OperationTypeApply": 423} {
		b := newBackend(t, func(c *terraform.Config) { c.Ephemeral = true })
		run, unlocked := b.client("run1"), b.client("run2")
		run.info.Operation = operation
		unlocked.base = b.http.URL + "/tf/app/other"
		want(t, "LOCK", run.lock(), 200)
		want(t, "LOCK of another workspace", unlocked.lock(), 200)
		want(t, "UNLOCK of another workspace", unlocked.unlock(), 200)
		b.Close()
		after := newBackendOn(t, b.zk).client("b1")
		want(t, operation+": LOCK of another", after.lock(), next)
		after.base = strings.Replace(after.base, "default", "other", 1)
		want(t, operation+": LOCK of the workspace that was unlocked", after.lock(), 200)
	}
}

// A client repeats a POST that hangs. When the first one fails at last, the state has long been stored.
func TestLateFailureOfARepeatedPost(t *testing.T) {
	b := newBackend(t)
	run := b.client("run1")
	want(t, "LOCK", run.lock(), 200)
	body, hangs := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, _ := http.NewRequestWithContext(t.Context(), "POST", run.base+"?ID=run1", body)
		if resp, err := run.http.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := hangs.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	c := b.zk.Client()
	for notes := []string(nil); len(notes) == 0; { // the first request has begun
		notes, _, _ = c.Children(t.Context(), "/tf/app/default/dirty")
	}
	want(t, "POST again", run.post(state(1, "one")), 200)
	want(t, "UNLOCK", run.unlock(), 200)
	hangs.CloseWithError(errors.New("the connection is gone"))
	<-ended
	b.http.CloseClientConnections()
	b.http.Config.SetKeepAlivesEnabled(false)
	b.http.Close() // waits for the requests
	if all, err := b.Unstored(t.Context(), b.ws()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	want(t, "LOCK of the next", newBackendOn(t, b.zk).client("next").lock(), 200)
}

// A client whose node waits at the head of the queue, and has not taken the lock yet, is not told that it has it.
func TestAPlaceInTheQueueIsNoLock(t *testing.T) {
	b := newBackend(t)
	run := b.client("run1")
	m := holdfast.NewMutex(b.zk.Client(), b.LockPath(b.ws()), holdfast.WithLabels(map[string]string{"tf-id": "run1"}))
	h, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "LOCK", run.lock(), 423)
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	want(t, "LOCK", run.lock(), 200)
}

// The lock is taken away between the check of the id and the transaction that stores the state.
func TestLockLostDuringPost(t *testing.T) {
	b := newBackend(t)
	run, other := b.client("run1"), b.zk.Client()
	want(t, "LOCK", run.lock(), 200)
	var once atomic.Bool
	b.zk.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
		if strings.Contains(path, "/detached-") && once.CompareAndSwap(false, true) { // else it is in front of a read
			q, err := holdfast.List(context.Background(), other, "/tf/app/default/lock")
			if err != nil || len(q) != 1 {
				t.Errorf("%+v, %v", q, err)
			} else if err := holdfast.Break(context.Background(), other, "/tf/app/default/lock", q[0].Token); err != nil {
				t.Error(err)
			}
		}
		return zktest.Pass
	})
	want(t, "POST", run.post(state(1, "x")), 409)
	if !once.Load() {
		t.Error("the lock was not taken away")
	}
	b.zk.Intercept(zkproto.OpMulti, nil)
	want(t, "GET", run.get(), 404)
	want(t, "UNLOCK", run.unlock(), 200)
	want(t, "LOCK of the next", b.client("next").lock(), 423)
}
