package terraform_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/terraform"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// refused posts a state that is refused, and unlocks, as both clients do.
func (b *backend) refused() *client {
	b.t.Helper()
	c := b.client("run1")
	want(b.t, "LOCK", c.lock(), 200)
	want(b.t, "POST", c.post(state(5, "five")), 200)
	want(b.t, "POST of an older state", c.post(state(4, "four")), 409)
	want(b.t, "UNLOCK", c.unlock(), 200)
	return c
}

// Point 7: the next run must not plan on the old state.
func TestRefusedStateKeepsOthersOut(t *testing.T) {
	b := newBackend(t)
	b.refused()
	for range 2 {
		h := want(t, "LOCK of the next", b.client("next").lock(), 423).holder(t)
		for _, part := range []string{"the state of run run1 by alice@run1 was not stored", "serial 4", "errored.tfstate on run1", "tofu state push", "holdfast tf forgive app/default"} {
			if !strings.Contains(h.Info, part) {
				t.Errorf("Info is %q, without %q", h.Info, part)
			}
		}
	}
	want(t, "POST with -lock=false", b.client("x").do("POST", b.http.URL+"/tf/app/default", state(6, "six")), 423)
	// Another Backend knows it, too.
	want(t, "LOCK at another", newBackendOn(t, b.zk).client("next").lock(), 423)
}

func TestPushedStateEndsIt(t *testing.T) {
	b := newBackend(t)
	b.refused()
	push := b.client("push")
	push.info.Operation = "state-push"
	want(t, "LOCK of state push", push.lock(), 200)
	want(t, "UNLOCK without a state", push.unlock(), 200)
	want(t, "LOCK of the next", b.client("next").lock(), 423)
	want(t, "LOCK of state push", push.lock(), 200)
	want(t, "push -force of an older state", push.post(state(3, "three")), 200)
	want(t, "push", push.post(state(6, "six")), 200)
	want(t, "UNLOCK", push.unlock(), 200)
	want(t, "LOCK of the next", b.client("next2").lock(), 200)
}

func TestForgiveEndsIt(t *testing.T) {
	b := newBackend(t)
	b.refused()
	all, err := b.Forgive(t.Context(), b.ws())
	if err != nil || len(all) != 1 || all[0].ID != "run1" {
		t.Errorf("%+v, %v", all, err)
	}
	want(t, "LOCK of the next", b.client("next").lock(), 200)
}

func TestRetriedPostEndsIt(t *testing.T) {
	b := newBackend(t)
	c := b.client("run1")
	want(t, "LOCK", c.lock(), 200)
	want(t, "damaged POST", c.do("POST", c.base+"?ID=run1", state(1, "one"), "Content-MD5", "x"), 400)
	if all, err := b.Unstored(t.Context(), b.ws()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v: the run still holds the lock", all, err)
	}
	want(t, "LOCK of another", b.client("b1").lock(), 423)
	want(t, "POST", c.post(state(1, "one")), 200)
	want(t, "UNLOCK", c.unlock(), 200)
	want(t, "LOCK of the next", b.client("next").lock(), 200)
}

// Points 7 and 8: the client is killed in the middle of its POST. Its lock stays, and after a force-unlock the
// workspace is dirty.
func TestClientKilledDuringPost(t *testing.T) {
	b := newBackend(t)
	c := b.client("run1")
	want(t, "LOCK", c.lock(), 200)
	ctx, kill := context.WithCancel(t.Context())
	body, feed := io.Pipe()
	r, _ := http.NewRequestWithContext(ctx, "POST", c.base+"?ID=run1", body)
	r.ContentLength = 1000
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		if resp, err := c.http.Do(r); err == nil {
			t.Errorf("half a POST is answered with %v", resp.Status)
		}
	}()
	feed.Write([]byte(`{"serial":1,`))
	b.untilDirty()
	kill()
	feed.CloseWithError(io.ErrUnexpectedEOF)
	<-failed
	want(t, "GET", c.get(), 404)
	want(t, "LOCK of another", b.client("b1").lock(), 423)
	want(t, "force-unlock", c.do("UNLOCK", c.base+"/lock", nil), 200)
	h := want(t, "LOCK of another", b.client("b2").lock(), 423).holder(t)
	if !strings.Contains(h.Info, "was not stored") {
		t.Errorf("Info is %q", h.Info)
	}
}

// untilDirty waits until the workspace has a note of a state that is not stored.
func (b *backend) untilDirty() {
	b.t.Helper()
	c := b.zk.Client()
	for range 10000 {
		if names, _, err := c.Children(context.Background(), "/tf/app/default/dirty"); err == nil && len(names) > 0 {
			return
		}
	}
	b.t.Fatal("the workspace is not dirty")
}

// The run whose lock was taken away finds that its state is refused. The next run must know.
func TestStateOfALostLock(t *testing.T) {
	b := newBackend(t)
	c, other := b.client("run1"), b.client("run2")
	want(t, "LOCK", c.lock(), 200)
	want(t, "force-unlock", c.do("UNLOCK", c.base+"/lock", nil), 200)
	want(t, "LOCK of another", other.lock(), 200)
	want(t, "POST of the first", c.post(state(1, "x")), 409)
	want(t, "POST of the other", other.post(state(1, "one")), 200)
	want(t, "UNLOCK", other.unlock(), 200)
	h := want(t, "LOCK of the next", b.client("next").lock(), 423).holder(t)
	if !strings.HasPrefix(h.ID, "run1 (its state was not stored: holdfast tf forgive app/default") {
		t.Errorf("%+v", h)
	}
}

// No server answers in the middle of a POST, and the client gives up. UNLOCK tells of it when a server answers again.
func TestNoServerDuringPost(t *testing.T) {
	b := newBackend(t)
	c := b.client("run1")
	want(t, "LOCK", c.lock(), 200)
	begun := make(chan struct{}, 1000)
	b.zk.Intercept(zkproto.OpSetData, func(path string) zktest.Action {
		if strings.Contains(path, "/dirty/") {
			select {
			case begun <- struct{}{}:
			default:
			}
			return zktest.DropRequest
		}
		return zktest.Pass
	})
	ctx, giveUp := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.try(ctx, "POST", c.base+"?ID=run1", state(1, "one"))
	}()
	<-begun
	giveUp()
	<-sent
	<-begun // the Backend goes on
	b.zk.Intercept(zkproto.OpSetData, nil)
	want(t, "UNLOCK", c.unlock(), 200)
	if next := b.client("next").lock(); next.status != 423 {
		// The Backend has heard late that the client has given up, and has stored the state.
		want(t, "LOCK of the next", next, 200)
		want(t, "GET", c.get(), 200)
	}
}

// A client gives up its POST and unlocks while the Backend has not yet been able to write that a state is under way. The
// next run is told all the same.
func TestUnlockBeforePostHasBegun(t *testing.T) {
	for i := range 5 {
		b := newBackend(t)
		c := b.client(fmt.Sprint("run", i))
		want(t, "LOCK", c.lock(), 200)
		var tries atomic.Int64
		begun := make(chan struct{})
		b.zk.Intercept(zkproto.OpSetData, func(path string) zktest.Action {
			if !strings.Contains(path, "/dirty/") {
				return zktest.Pass
			}
			switch n := tries.Add(1); {
			case n < 6: // of POST, which pauses longer each time
				return zktest.Throttle
			case n == 6:
				close(begun)
				return zktest.Throttle
			}
			return zktest.Pass
		})
		// The body never ends.
		ctx, giveUp := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", c.base+"?ID="+c.info.ID, io.MultiReader(strings.NewReader(`{"serial":1,`), neverEnds{ctx}))
		if err != nil {
			t.Fatal(err)
		}
		posted := make(chan struct{})
		go func() {
			defer close(posted)
			if resp, err := c.http.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		<-begun
		unlocked, next := c.unlock(), b.client("next").lock()
		giveUp()
		<-posted
		want(t, "UNLOCK", unlocked, 200)
		want(t, "LOCK of the next", next, 423)
	}
}

// neverEnds is a body that ends with its context.
type neverEnds struct{ ctx context.Context }

func (n neverEnds) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

// A frozen workspace is locked by nobody new. The run that holds the lock finishes.
func TestFreeze(t *testing.T) {
	b := newBackend(t)
	for _, ws := range []terraform.Workspace{b.ws(), {Project: "app"}} {
		c := b.client("run1")
		want(t, "LOCK", c.lock(), 200)
		if err := b.Freeze(t.Context(), ws, terraform.Freeze{Reason: "release 9", By: "carol"}); err != nil {
			t.Fatal(err)
		}
		h := want(t, "LOCK of another", b.client("b1").lock(), 423).holder(t)
		if !strings.Contains(h.Info, "is frozen: release 9; to end it: holdfast tf freeze --end app") || h.Who != "carol" || h.ID != "frozen: release 9" {
			t.Errorf("%+v", h)
		}
		want(t, "LOCK again", c.lock(), 200)
		want(t, "POST of the holder", c.post(state(1, "one")), 200)
		want(t, "UNLOCK", c.unlock(), 200)
		want(t, "LOCK", c.lock(), 423)
		want(t, "POST with -lock=false", c.do("POST", c.base, state(2, "two")), 423)
		want(t, "GET", c.get(), 200)
		if was, err := b.Thaw(t.Context(), ws); !was || err != nil {
			t.Errorf("Thaw: %v, %v", was, err)
		}
		if was, err := b.Thaw(t.Context(), ws); was || err != nil {
			t.Errorf("second Thaw: %v, %v", was, err)
		}
		want(t, "LOCK", b.client("b2").lock(), 200)
		want(t, "UNLOCK", b.client("b2").unlock(), 200)
	}
}
