package once_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

const oncePath = "/holdfast/once/report"

func newOnce(t *testing.T, srv *zktest.Server, opts ...once.Option) *once.Once {
	t.Helper()
	return once.New(client(t, srv), oncePath, opts...)
}

// A runner is a function for Do that counts its calls, and how many run at one time.
type runner struct {
	calls, now, most atomic.Int32
	lasts            time.Duration
	value            string
	err              error
	begun            chan struct{} // gets a value for each call, if there is one
}

func (r *runner) run(ctx context.Context) ([]byte, error) {
	n := r.calls.Add(1)
	r.most.Store(max(r.most.Load(), r.now.Add(1)))
	defer r.now.Add(-1)
	if r.begun != nil {
		r.begun <- struct{}{}
	}
	select {
	case <-time.After(r.lasts):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return []byte(r.value + strings.Repeat("+", int(n)-1)), r.err
}

func do(t *testing.T, o *once.Once, key string, r *runner) once.Result {
	t.Helper()
	got, err := o.Key(key).Do(t.Context(), r.run)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantCalls(t *testing.T, r *runner, want int32) {
	t.Helper()
	if n := r.calls.Load(); n != want {
		t.Errorf("the function was called %d times; want %d", n, want)
	}
	if r.most.Load() > 1 {
		t.Errorf("%d calls at one time", r.most.Load())
	}
}

// A call is a Do or Within in a goroutine.
type call struct {
	done   chan struct{}
	result once.Result
	err    error
}

func calls(do func() (once.Result, error)) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.result, c.err = do()
	}()
	synctest.Wait()
	return c
}

func (c *call) waiting() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func TestOnceRunsOneCallAndTellsTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		r := &runner{value: "42", lasts: time.Second}
		var all []*call
		for i := range 20 {
			o := newOnce(t, srv, once.WithLock(holdfast.WithOwner(fmt.Sprint("host", i))))
			all = append(all, calls(func() (once.Result, error) { return o.Key("monday").Do(t.Context(), r.run) }))
		}
		ran := 0
		for _, c := range all {
			<-c.done
			first := all[0].result
			if c.result.Ran {
				ran++
			}
			c.result.Ran = true
			if c.err != nil || string(c.result.Value) != "42" || c.result.Owner != "host0" || c.result.Token != first.Token || first.Token == 0 ||
				!c.result.At.Equal(first.At) || !c.result.Began.Equal(first.Began) || first.At.Sub(first.Began) != time.Second {
				t.Errorf("%+v, %v; want the same as %+v", c.result, c.err, first)
			}
		}
		if ran != 1 {
			t.Errorf("%d calls say that they ran", ran)
		}
		wantCalls(t, r, 1)
		if got := do(t, newOnce(t, srv), "tuesday", r); !got.Ran {
			t.Error("another key did not run")
		}
	})
}

// One key that runs is in nobody else's way.
func TestOnceKeysDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		o := newOnce(t, srv)
		slow := calls(func() (once.Result, error) {
			return o.Key("slow").Do(t.Context(), (&runner{lasts: time.Hour}).run)
		})
		for i := range 40 {
			do(t, o, fmt.Sprint(i), &runner{})
		}
		if !slow.waiting() {
			t.Error(slow.err)
		}
	})
}

// When the mark exists, a call costs one read.
func TestOnceAnswersWithOneRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		do(t, newOnce(t, srv), "key", &runner{})
		o := newOnce(t, srv)
		var n atomic.Int32
		for _, op := range []zkproto.Op{zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpGetData, zkproto.OpExists, zkproto.OpGetChildren2, zkproto.OpMulti, zkproto.OpSync} {
			srv.Intercept(op, func(path string) zktest.Action {
				if strings.HasPrefix(path, oncePath) {
					n.Add(1)
				}
				return zktest.Pass
			})
		}
		do(t, o, "key", &runner{})
		if n.Load() != 1 {
			t.Errorf("%d requests; want 1", n.Load())
		}
	})
}

func TestOnceFailedRunIsNotRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		o := newOnce(t, srv)
		broken := errors.New("broken")
		r := &runner{err: broken}
		if got, err := o.Key("key").Do(t.Context(), r.run); err != broken || !got.Ran || got.Value != nil {
			t.Errorf("%+v, %v; want the function's own error", got, err)
		}
		func() {
			defer func() {
				if recover() != "oops" {
					t.Error("the panic is gone")
				}
			}()
			o.Key("key").Do(t.Context(), func(context.Context) ([]byte, error) { panic("oops") })
		}()
		large := &runner{value: strings.Repeat("x", once.MaxValue+1)}
		_, err := o.Key("key").Do(t.Context(), large.run)
		wantErr(t, err, zk.ErrTooLarge)
		large.value = large.value[1:]
		large.calls.Store(0)
		if got := do(t, newOnce(t, srv), "key", large); !got.Ran || len(got.Value) != 64<<10 {
			t.Errorf("ran: %v, %d bytes", got.Ran, len(got.Value))
		}
		if got := do(t, newOnce(t, srv), "key", large); got.Ran || string(got.Value) != large.value {
			t.Errorf("ran: %v, %d bytes", got.Ran, len(got.Value))
		}
		wantCalls(t, large, 1)
	})
}

func TestOnceAtMostOnceRecordsTheBeginning(t *testing.T) {
	broken := errors.New("broken")
	for name, end := range map[string]func(t *testing.T, srv *zktest.Server, c *zk.Client){
		"crash": func(t *testing.T, srv *zktest.Server, c *zk.Client) {
			o := once.New(c, oncePath, once.AtMostOnce(), once.WithLock(holdfast.WithOwner("first")))
			r := &runner{begun: make(chan struct{}), lasts: time.Hour}
			go o.Key("key").Do(t.Context(), r.run)
			<-r.begun
			w := newOnce(t, srv, once.AtMostOnce())
			waits := calls(func() (once.Result, error) { return w.Key("key").Do(t.Context(), (&runner{}).run) })
			time.Sleep(time.Minute)
			if !waits.waiting() {
				t.Fatalf("a caller does not wait for a runner that lives: %+v, %v", waits.result, waits.err)
			}
			s, err := c.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			srv.Expire(s.ID())
			<-waits.done
			wantErr(t, waits.err, once.ErrBegun)
		},
		"failure": func(t *testing.T, srv *zktest.Server, c *zk.Client) {
			o := once.New(c, oncePath, once.AtMostOnce(), once.WithLock(holdfast.WithOwner("first")))
			_, err := o.Key("key").Do(t.Context(), (&runner{err: broken}).run)
			wantErr(t, err, broken)
		},
		"panic": func(t *testing.T, srv *zktest.Server, c *zk.Client) {
			o := once.New(c, oncePath, once.AtMostOnce(), once.WithLock(holdfast.WithOwner("first")))
			defer func() { recover() }()
			o.Key("key").Do(t.Context(), func(context.Context) ([]byte, error) { panic("oops") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				end(t, srv, client(t, srv))
				for _, opts := range [][]once.Option{nil, {once.AtMostOnce()}} {
					r := &runner{}
					got, err := newOnce(t, srv, opts...).Key("key").Do(t.Context(), r.run)
					wantErr(t, err, once.ErrBegun)
					wantCalls(t, r, 0)
					if got.Ran || got.Owner != "first" || got.Token == 0 || got.Began.IsZero() || !strings.Contains(fmt.Sprint(err), "first began at ") {
						t.Errorf("%+v, %v", got, err)
					}
					if name == "failure" && !strings.Contains(fmt.Sprint(err), "broken") {
						t.Errorf("%v; want the reason", err)
					}
				}
				o := newOnce(t, srv, once.AtMostOnce())
				if err := o.Key("key").Forget(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := do(t, o, "key", &runner{value: "x"}); !got.Ran {
					t.Errorf("%+v after Forget", got)
				}
				if got := do(t, o, "key", &runner{}); got.Ran || string(got.Value) != "x" {
					t.Errorf("%+v after success", got)
				}
			})
		})
	}
}

func TestOnceKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		o := newOnce(t, srv)
		keys := []string{"a", "a/b", ".", "..", "%", "%25", "a b", "\x00", "ü", "\xff", "2026-11-23T02:00:00Z", strings.Repeat("/", once.MaxKey), "done", "_c_x-lock-0000000001"}
		for _, key := range keys {
			r := &runner{value: key}
			if got := do(t, o, key, r); !got.Ran || string(got.Value) != key {
				t.Errorf("%q: %+v", key, got)
			}
		}
		for _, key := range keys {
			if got := do(t, o, key, &runner{}); got.Ran || string(got.Value) != key {
				t.Errorf("%q: %+v", key, got)
			}
			if name, err := once.EscapeKey(key); err != nil {
				t.Error(err)
			} else if back, err := url.PathUnescape(name); back != key || err != nil {
				t.Errorf("%q is %q, which is %q again (%v)", key, name, back, err)
			}
		}
		for _, key := range []string{"", strings.Repeat("x", once.MaxKey+1)} {
			_, err := o.Key(key).Do(t.Context(), (&runner{}).run)
			wantErr(t, err, zk.ErrBadArguments)
			if !strings.Contains(fmt.Sprint(err), fmt.Sprintf("%d bytes; want 1 to 256", len(key))) {
				t.Error(err)
			}
			wantErr(t, o.Key(key).Forget(t.Context()), zk.ErrBadArguments)
		}
	})
}

func TestOnceRefusesBadPathsAndPeriods(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, o := range []*once.Once{once.New(c, "/"), once.New(c, "a")} {
			_, err := o.Key("key").Do(t.Context(), (&runner{}).run)
			wantErr(t, err, zk.ErrInvalidPath)
		}
		_, err := newOnce(t, srv).Every(0).Do(t.Context(), (&runner{}).run)
		wantErr(t, err, zk.ErrBadArguments)
	})
}

// The options of the locks are those of holdfast's table (see its tests). The errors name what is wrong.
func TestOnceRefusesOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		for says, opts := range map[string][]once.Option{
			"holdfast: do " + oncePath + ": bad arguments: ForgetAfter(-1ns) is negative":                   {once.ForgetAfter(-1)},
			"holdfast: do " + oncePath + ": bad arguments: a Once cannot honour Reentrant: make it without": {once.WithLock(holdfast.Reentrant())},
			"cannot honour Reentrant, WithKeep:":                                                            {once.WithLock(holdfast.WithKeep(1)), once.ForgetAfter(-1), once.WithLock(holdfast.Reentrant())},
		} {
			o := newOnce(t, srv, opts...)
			_, err := o.Key("key").Do(t.Context(), (&runner{}).run)
			wantErr(t, err, zk.ErrBadArguments)
			if !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("%v; want %q", err, says)
			}
			_, _, err = o.Every(time.Hour).Turn(t.Context(), nil)
			wantErr(t, err, zk.ErrBadArguments)
			wantErr(t, o.Key("key").Forget(t.Context()), zk.ErrBadArguments)
		}
	})
}

func TestOnceInsideItselfIsADeadlock(t *testing.T) {
	for _, opts := range [][]once.Option{nil, {once.AtMostOnce()}} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			o := newOnce(t, srv, opts...)
			_, err := o.Key("key").Do(t.Context(), func(ctx context.Context) ([]byte, error) {
				if _, err := o.Key("other").Do(ctx, (&runner{}).run); err != nil {
					t.Error(err)
				}
				wantErr(t, o.Key("key").Forget(ctx), holdfast.ErrDeadlock)
				_, err := o.Key("key").Do(ctx, (&runner{}).run)
				return nil, err
			})
			wantErr(t, err, holdfast.ErrDeadlock)
		})
	}
}

func TestOnceCancelledCallerLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		r := &runner{begun: make(chan struct{}), lasts: time.Minute}
		running := calls(func() (once.Result, error) { return newOnce(t, srv).Key("key").Do(t.Context(), r.run) })
		<-r.begun
		ctx, cancel := context.WithCancelCause(t.Context())
		w := calls(func() (once.Result, error) { return once.New(c, oncePath).Key("key").Do(ctx, r.run) })
		why := errors.New("enough")
		cancel(why)
		<-w.done
		wantErr(t, w.err, why)
		synctest.Wait()
		if left, err := c.Ephemerals(t.Context(), "/"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
		<-running.done
		if running.err != nil {
			t.Error(running.err)
		}
		// A run whose caller has given up is recorded if it succeeds all the same.
		ctx, cancel = context.WithCancelCause(t.Context())
		got, err := once.New(c, oncePath).Key("other").Do(ctx, func(ctx context.Context) ([]byte, error) {
			cancel(why)
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), why)
			return []byte("done"), nil
		})
		if err != nil || !got.Ran {
			t.Errorf("%+v, %v", got, err)
		}
		if got := do(t, newOnce(t, srv), "other", r); got.Ran || string(got.Value) != "done" {
			t.Errorf("%+v", got)
		}
	})
}

// If the session ends while f runs, f is told, its result is not recorded, and the next caller runs.
func TestOnceRunnerThatLosesTheLockRecordsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		next := newOnce(t, srv)
		var w *call
		r := &runner{value: "second"}
		got, err := once.New(c, oncePath).Key("key").Do(t.Context(), func(ctx context.Context) ([]byte, error) {
			w = calls(func() (once.Result, error) { return next.Key("key").Do(t.Context(), r.run) })
			s, err := c.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			srv.Expire(s.ID())
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), holdfast.ErrLost)
			return []byte("first"), nil
		})
		wantErr(t, err, holdfast.ErrLost)
		if !got.Ran {
			t.Error("the function ran, and Do denies it")
		}
		<-w.done
		if w.err != nil || !w.result.Ran {
			t.Errorf("%+v, %v", w.result, w.err)
		}
		if got := do(t, once.New(c, oncePath), "key", r); string(got.Value) != "second" || got.Token != w.result.Token {
			t.Errorf("%+v; want %+v", got, w.result)
		}
		wantCalls(t, r, 1)
	})
}

func TestOnceForget(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		o := newOnce(t, srv)
		r := &runner{value: "x"}
		if err := o.Key("key").Forget(t.Context()); err != nil {
			t.Errorf("nothing to forget: %v", err)
		}
		first := do(t, o, "key", r)
		do(t, o, "other", &runner{})
		if err := o.Key("key").Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := do(t, o, "key", r); !got.Ran || string(got.Value) != "x+" || got.Token <= first.Token {
			t.Errorf("%+v", got)
		}
		if got := do(t, o, "other", r); got.Ran {
			t.Error("the other key is forgotten, too")
		}
		// Forget waits for a run.
		slow := &runner{begun: make(chan struct{}), lasts: time.Minute}
		running := calls(func() (once.Result, error) { return newOnce(t, srv).Key("slow").Do(t.Context(), slow.run) })
		<-slow.begun
		began := time.Now()
		if err := o.Key("slow").Forget(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		<-running.done
		slow.begun = nil
		if got := do(t, o, "slow", slow); !got.Ran {
			t.Errorf("%+v", got)
		}
	})
}

// marksOf lists the keys that have a mark.
func marksOf(t *testing.T, c *zk.Client) (keys map[string]bool) {
	t.Helper()
	keys = make(map[string]bool)
	shards, _, err := c.Children(t.Context(), oncePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards {
		in, _, err := c.Children(t.Context(), oncePath+"/"+shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range in {
			if _, ok, err := c.Exists(t.Context(), oncePath+"/"+shard+"/"+key+"/done"); err != nil {
				t.Fatal(err)
			} else if ok {
				keys[key] = true
			}
		}
	}
	return keys
}

func TestOnceForgetsOldMarks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		keep := once.New(c, oncePath)
		const n = 300
		for i := range n {
			do(t, keep, fmt.Sprint("old", i), &runner{})
		}
		time.Sleep(time.Hour)
		if marks := len(marksOf(t, c)); marks != n {
			t.Fatalf("%d marks", marks)
		}
		o := once.New(c, oncePath, once.ForgetAfter(time.Hour))
		do(t, o, "young", &runner{}) // after exactly an hour the last ones stay
		before := len(marksOf(t, c))
		if before < n+1-16 {
			t.Errorf("%d marks: one run has removed too many", before)
		}
		for i := range n {
			time.Sleep(time.Second)
			do(t, o, fmt.Sprint("new", i), &runner{})
			if i < 16 {
				after := len(marksOf(t, c))
				if after < before+1-16 {
					t.Fatalf("%d marks after %d: a run has removed too many", after, before)
				}
				before = after
			}
		}
		for key := range marksOf(t, c) {
			if strings.HasPrefix(key, "old") {
				t.Errorf("%s is still there", key)
			}
		}
		for i := range n {
			if got := do(t, o, fmt.Sprint("new", i), &runner{}); got.Ran {
				t.Errorf("new%d was forgotten", i)
			}
		}
		if got := do(t, o, "old1", &runner{}); !got.Ran {
			t.Error("old1 is not forgotten")
		}
		// Containers without a mark go away.
		time.Sleep(10 * time.Minute)
		dirs := 0
		shards, _, _ := c.Children(t.Context(), oncePath)
		for _, shard := range shards {
			in, _, err := c.Children(t.Context(), oncePath+"/"+shard)
			if err != nil {
				t.Fatal(err)
			}
			dirs += len(in)
		}
		if marks := len(marksOf(t, c)); dirs != marks {
			t.Errorf("%d directories of %d marks", dirs, marks)
		}
	})
}

// A cut counts the requests for nodes of a Once, and does something at one of them.
type cut struct {
	on      atomic.Bool
	n       atomic.Int32
	at      int32
	next    func() // is called at the request after that, if it is set
	reached atomic.Bool
}

// newCut makes strike answer the at-th request after on is set. It starts at 1.
func newCut(srv *zktest.Server, at int, strike func(op zkproto.Op) zktest.Action) *cut {
	c := &cut{at: int32(at)}
	for _, op := range []zkproto.Op{
		zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
		zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
	} {
		srv.Intercept(op, func(path string) zktest.Action {
			if !c.on.Load() || !strings.HasPrefix(path, "/holdfast") {
				return zktest.Pass
			}
			n := c.n.Add(1)
			if n == c.at+1 && c.next != nil {
				c.next()
				return zktest.DropRequest
			}
			if n != c.at {
				return zktest.Pass
			}
			c.reached.Store(true)
			return strike(op)
		})
	}
	return c
}

// onceModes are the two promises of a Once.
var onceModes = map[string][]once.Option{
	"at least once": {once.ForgetAfter(time.Minute)}, "at most once": {once.AtMostOnce(), once.ForgetAfter(time.Minute)},
}

// everywhere runs f with a fault at each request of a Do, until a Do has fewer requests.
func everywhere(t *testing.T, f func(t *testing.T, srv *zktest.Server, opts []once.Option, at int, fault zktest.Action) (reached bool)) {
	for mode, opts := range onceModes {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%s/%v", mode, fault), func(t *testing.T) {
				points := 0
				for at, reached := 1, true; reached; at++ {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						do(t, newOnce(t, srv), "older", &runner{}) // so that there is something to forget
						time.Sleep(time.Minute + time.Second)
						reached = f(t, srv, opts, at, fault)
					})
					points = at
				}
				if points < 8 {
					t.Errorf("%d points; want more", points)
				}
				t.Logf("figure: %d points", points-1)
			})
		}
	}
}

// A connection that is lost at any point of a Do makes nothing fail and nothing run twice.
func TestOnceUnderLostConnectionsRunsOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, srv *zktest.Server, opts []once.Option, at int, fault zktest.Action) bool {
		c := client(t, srv)
		var op zkproto.Op
		cut := newCut(srv, at, func(o zkproto.Op) zktest.Action { op = o; return fault })
		r := &runner{value: "x"}
		cut.on.Store(true)
		got, err := once.New(c, oncePath, opts...).Key("key").Do(t.Context(), r.run)
		cut.on.Store(false)
		if err != nil || !got.Ran || string(got.Value) != "x" || got.At.IsZero() {
			t.Errorf("request %d (%v): %+v, %v", at, op, got, err)
		}
		wantCalls(t, r, 1)
		if again := do(t, newOnce(t, srv), "key", r); again.Ran || again.Token != got.Token || !again.At.Equal(got.At) {
			t.Errorf("request %d (%v): %+v after %+v", at, op, again, got)
		}
		if left, err := c.Ephemerals(t.Context(), "/"); err != nil || len(left) > 0 {
			t.Errorf("request %d (%v): left behind: %q, %v", at, op, left, err)
		}
		return cut.reached.Load()
	})
}

// A runner that crashes at any point of a Do leaves a key that the next caller runs, or that nobody runs
// if it counts at most once and had begun. A key whose result was acknowledged is never run again.
func TestOnceOutlivesACrashAtAnyPoint(t *testing.T) {
	everywhere(t, func(t *testing.T, srv *zktest.Server, opts []once.Option, at int, fault zktest.Action) bool {
		c := client(t, srv)
		closed := make(chan struct{})
		var op zkproto.Op
		cut := newCut(srv, at, func(o zkproto.Op) zktest.Action {
			op = o
			go func() { defer close(closed); c.Close() }()
			return fault
		})
		r := &runner{value: "x"}
		cut.on.Store(true)
		first, firstErr := once.New(c, oncePath, opts...).Key("key").Do(t.Context(), r.run)
		if cut.on.Store(false); cut.reached.Load() {
			<-closed
		}
		before := r.calls.Load()
		second, err := newOnce(t, srv, opts...).Key("key").Do(t.Context(), r.run)
		atMost := len(opts) == 2
		where := fmt.Sprintf("request %d (%v): %+v, %v; then %+v, %v", at, op, first, firstErr, second, err)
		switch {
		case firstErr == nil && (err != nil || second.Ran || second.Token != first.Token):
			t.Errorf("%s: it was acknowledged", where)
		case atMost && r.calls.Load() > 1, r.most.Load() > 1, r.calls.Load() > 2:
			t.Errorf("%s: %d calls", where, r.calls.Load())
		case !atMost && err != nil, err != nil && !errors.Is(err, once.ErrBegun):
			t.Errorf("%s", where)
		case err == nil && !second.Ran && before == 0:
			t.Errorf("%s: nobody ran", where)
		}
		return cut.reached.Load()
	})
}

// The session expires at any point of a Do. The caller lives, so the function has run at the end, unless
// it counts at most once.
func TestOnceOutlivesItsSessionAtAnyPoint(t *testing.T) {
	everywhere(t, func(t *testing.T, srv *zktest.Server, opts []once.Option, at int, fault zktest.Action) bool {
		c := client(t, srv)
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var op zkproto.Op
		cut := newCut(srv, at, func(o zkproto.Op) zktest.Action {
			if op = o; fault == zktest.DropRequest {
				srv.Expire(s.ID())
			}
			return fault
		})
		if fault == zktest.DropReply { // the session expires when it has executed the request
			cut.next = func() { srv.Expire(s.ID()) }
		}
		r := &runner{value: "x"}
		cut.on.Store(true)
		first, firstErr := once.New(c, oncePath, opts...).Key("key").Do(t.Context(), r.run)
		cut.on.Store(false)
		where := fmt.Sprintf("request %d (%v): %+v, %v", at, op, first, firstErr)
		atMost := len(opts) == 2
		switch {
		case r.calls.Load() > 1:
			t.Errorf("%s: %d calls", where, r.calls.Load())
		case firstErr == nil && !first.Ran, firstErr != nil && first.Ran && !errors.Is(firstErr, holdfast.ErrLost):
			t.Error(where)
		case firstErr != nil && !first.Ran && !(atMost && op == zkproto.OpMulti && errors.Is(firstErr, once.ErrBegun)):
			t.Errorf("%s: the function was not called", where)
		}
		second, err := newOnce(t, srv, opts...).Key("key").Do(t.Context(), r.run)
		where += fmt.Sprintf("; then %+v, %v", second, err)
		switch {
		case firstErr == nil && (err != nil || second.Ran || second.Token != first.Token):
			t.Errorf("%s: it was acknowledged", where)
		case firstErr != nil && (err == nil) == atMost, err != nil && !errors.Is(err, once.ErrBegun):
			t.Error(where)
		case firstErr != nil && err == nil && !second.Ran:
			t.Errorf("%s: the result was recorded, and Do denies it", where)
		case atMost && r.calls.Load() > 1:
			t.Errorf("%s: %d calls", where, r.calls.Load())
		}
		return cut.reached.Load()
	})
}

// The connection stalls when a mark is on its way, for about as long as the session lives. Whatever Do
// returns then is true. ErrLost means that nothing is recorded, now or later.
func TestOnceMarkThatIsHeldUpIsNotGuessed(t *testing.T) {
	for mode, opts := range map[string][]once.Option{"at least once": nil, "at most once": {once.AtMostOnce()}} {
		for nth := 1; nth <= 1+len(opts); nth++ { // the beginning, the end
			for _, how := range []zktest.Action{zktest.Pass, zktest.DropRequest, zktest.DropReply} {
				t.Run(fmt.Sprintf("%s/%d/%v", mode, nth, how), func(t *testing.T) {
					outcomes := make(map[string]int)
					for after := 5 * time.Second; after <= 14*time.Second; after += 100 * time.Millisecond {
						inBubble(t, func(t *testing.T, srv *zktest.Server) { outcomes[heldUp(t, srv, opts, nth, how, after)]++ })
					}
					if t.Logf("figure: %v", outcomes); outcomes["recorded"] == 0 {
						t.Error("no result was ever recorded")
					}
				})
			}
		}
	}
}

func heldUp(t *testing.T, srv *zktest.Server, opts []once.Option, nth int, how zktest.Action, after time.Duration) string {
	o := newOnce(t, srv, opts...)
	r := &runner{value: "x"}
	var healed sync.WaitGroup
	n := 0
	srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
		if !strings.HasPrefix(path, oncePath) {
			return zktest.Pass
		}
		if n++; n != nth {
			return zktest.Pass
		}
		resume := srv.Stall()
		healed.Go(func() {
			time.Sleep(after)
			resume()
		})
		return how
	})
	first, firstErr := o.Key("key").Do(t.Context(), r.run)
	healed.Wait()
	before := r.calls.Load()
	second, err := newOnce(t, srv).Key("key").Do(t.Context(), r.run)
	where := fmt.Sprintf("after %v: %+v, %v; then %+v, %v", after, first, firstErr, second, err)
	begun := errors.Is(err, once.ErrBegun)
	switch {
	case r.calls.Load() > 1 && (firstErr == nil || len(opts) == 1), first.Ran != (before == 1), before > 1:
		t.Errorf("%s: %d calls", where, r.calls.Load())
	case firstErr == nil:
		if err != nil || second.Ran || second.Token != first.Token {
			t.Error(where)
		}
		return "recorded"
	case errors.Is(firstErr, holdfast.ErrLost) && first.Ran:
		if begun != (len(opts) == 1) || !begun && (err != nil || !second.Ran) {
			t.Error(where)
		}
		return "lost"
	case errors.Is(firstErr, once.ErrBegun) && !first.Ran && nth == 1 && len(opts) == 1:
		if !begun {
			t.Error(where)
		}
		return "begun"
	default:
		t.Error(where)
	}
	return "wrong"
}

// If the caller gives up while the beginning is recorded, the record is withdrawn, and the next caller runs.
func TestOnceWithdrawsABeginning(t *testing.T) {
	for _, how := range []zktest.Action{zktest.Pass, zktest.DropRequest, zktest.DropReply} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				ctx, cancel := context.WithCancel(t.Context())
				var struck atomic.Bool
				srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
					if strings.HasPrefix(path, oncePath) && struck.CompareAndSwap(false, true) {
						cancel()
						return how
					}
					return zktest.Pass
				})
				r := &runner{}
				_, err := newOnce(t, srv, once.AtMostOnce()).Key("key").Do(ctx, r.run)
				wantErr(t, err, context.Canceled)
				wantCalls(t, r, 0)
				if got := do(t, newOnce(t, srv, once.AtMostOnce()), "key", r); !got.Ran {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// A caller with a short period gives up while it records a beginning. The older beginning that this one
// would replace, or has replaced, comes back: it still counts for callers with a long period.
func TestOnceThatWithdrawsLeavesTheOlderBeginning(t *testing.T) {
	for _, how := range []zktest.Action{zktest.Pass, zktest.DropRequest, zktest.DropReply} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				_, err := once.New(c, oncePath, once.AtMostOnce()).Every(time.Hour).Do(t.Context(), func(ctx context.Context) ([]byte, error) {
					srv.Expire(sessionOf(t, c))
					<-ctx.Done()
					return nil, ctx.Err()
				})
				wantErr(t, err, context.Canceled)
				time.Sleep(10 * time.Minute)

				ctx, cancel := context.WithCancel(t.Context())
				var struck atomic.Bool
				srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
					if strings.HasPrefix(path, oncePath) && struck.CompareAndSwap(false, true) {
						cancel()
						return how
					}
					return zktest.Pass
				})
				r := &runner{}
				_, err = newOnce(t, srv, once.AtMostOnce()).Every(time.Minute).Do(ctx, r.run)
				wantErr(t, err, context.Canceled)
				if !struck.Load() {
					t.Error("no beginning was recorded: the test shows nothing")
				}
				_, err = newOnce(t, srv, once.AtMostOnce()).Every(time.Hour).Do(t.Context(), r.run)
				wantErr(t, err, once.ErrBegun)
				wantCalls(t, r, 0)
				if got := within(t, newOnce(t, srv, once.AtMostOnce()), time.Minute, r); !got.Ran {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// If no server answers any more, Do says that it does not know, after two session timeouts at most.
func TestOnceThatCannotFindOutSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		o := newOnce(t, srv)
		var began time.Time
		var resume func()
		srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
			if !strings.HasPrefix(path, oncePath) {
				return zktest.Pass
			}
			resume = srv.Stall()
			return zktest.DropReply
		})
		r := &runner{}
		_, err := o.Key("key").Do(t.Context(), func(ctx context.Context) ([]byte, error) {
			began = time.Now()
			return r.run(ctx)
		})
		wantErr(t, err, holdfast.ErrUncertain)
		if d := time.Since(began); d < sessionTimeout || d > 2*sessionTimeout {
			t.Errorf("Do returned after %v", d)
		}
		srv.Intercept(zkproto.OpMulti, nil)
		resume()
		if got := do(t, newOnce(t, srv), "key", r); got.Ran != (r.calls.Load() == 2) {
			t.Errorf("%+v", got)
		}
	})
}

// An event brings a caller its turn, and its session continues at a server that has not applied the run
// before. Here, the mark is hidden, and the place of that run made anew, until the caller writes.
func TestOnceLooksWhereTheRunBeforeIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		r := &runner{value: "x", lasts: time.Minute}
		first := calls(func() (once.Result, error) { return newOnce(t, srv).Key("key").Do(t.Context(), r.run) })
		name, err := once.EscapeKey("key")
		if err != nil {
			t.Fatal(err)
		}
		places, err := admin.Ephemerals(t.Context(), oncePath)
		if err != nil || len(places) != 0 {
			t.Fatal(places, err)
		}
		var dir string
		for i := range 16 {
			d := fmt.Sprintf("%s/once-%x/%s", oncePath, i, name)
			if names, _, err := admin.Children(t.Context(), d); err == nil && len(names) == 1 {
				dir, places = d, []string{d + "/" + names[0]}
			}
		}
		second := calls(func() (once.Result, error) { return newOnce(t, srv).Key("key").Do(t.Context(), r.run) })
		var hidden, shown atomic.Bool
		var data []byte
		srv.Intercept(zkproto.OpDelete, func(path string) zktest.Action {
			if path == places[0] && hidden.CompareAndSwap(false, true) {
				if data, _, err = admin.Get(t.Context(), dir+"/done"); err != nil {
					t.Error(err)
				}
				if err := admin.Delete(t.Context(), dir+"/done", zk.AnyVersion); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		look := func(path string) zktest.Action {
			if hidden.Load() && !shown.Load() && path == places[0] {
				if _, _, err := admin.Create(t.Context(), path, nil, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
					t.Error(err)
				}
			}
			return zktest.Pass
		}
		srv.Intercept(zkproto.OpExists, look)
		srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
			if hidden.Load() && strings.HasPrefix(path, dir) && shown.CompareAndSwap(false, true) {
				if _, _, err := admin.Create(t.Context(), dir+"/done", data, zk.Persistent); err != nil {
					t.Error(err)
				}
				if err := admin.Delete(t.Context(), places[0], zk.AnyVersion); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		<-first.done
		<-second.done
		if second.err != nil || second.result.Ran || string(second.result.Value) != "x" || !shown.Load() {
			t.Errorf("%+v, %v", second.result, second.err)
		}
		wantCalls(t, r, 1)
	})
}

// A node in place of a mark, which no Once has written, is an error and never a result.
func TestOnceDoesNotBelieveOtherData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		o := once.New(c, oncePath)
		do(t, o, "key", &runner{})
		mark := findMarks(t, c)[0]
		for _, data := range []string{"", "x", "{}", "{}\n", `{"token":0}` + "\n", `{"token":1}`} {
			if _, err := c.Set(t.Context(), mark, []byte(data), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			r := &runner{}
			_, err := o.Key("key").Do(t.Context(), r.run)
			if wantErr(t, err, holdfast.ErrKind); !strings.Contains(fmt.Sprint(err), mark) {
				t.Errorf("%v; want the node", err)
			}
			wantCalls(t, r, 0)
		}
	})
}

func FuzzMark(f *testing.F) {
	for _, data := range []string{"", "{}", `{"token":7,"began":5,"owner":"a"}` + "\nvalue\nof lines", `{"token":7,"began":5,"failed":"x"}` + "\n", `{"token":-7}` + "\n"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, again, err := once.ReadMark(data)
		if err != nil && !errors.Is(err, holdfast.ErrKind) && !errors.Is(err, once.ErrBegun) || again == nil && !errors.Is(err, holdfast.ErrKind) {
			t.Fatalf("%q: %v", data, err)
		}
		if again == nil {
			return
		}
		if r.Token <= 0 || r.Ran || !r.At.IsZero() {
			t.Errorf("%q: %+v", data, r)
		}
		same, third, err2 := once.ReadMark(again)
		if fmt.Sprint(same, err2) != fmt.Sprint(r, err) || string(third) != string(again) {
			t.Errorf("%q is written as %q, which reads as %+v, %v", data, again, same, err2)
		}
	})
}

// A run finds an old mark. Before it removes it, the mark is removed by somebody else, and the key runs
// again. The young mark has the same name and the same version, and stays.
func TestOnceForgetsNoYoungMark(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := newOnce(t, srv)
		var keys []string // of one shard
		for i := 0; len(keys) < 2; i++ {
			if key := fmt.Sprint(i); len(keys) == 0 || once.Shard(key) == once.Shard(keys[0]) {
				keys = append(keys, key)
			}
		}
		do(t, other, keys[0], &runner{})
		time.Sleep(time.Hour)
		r := &runner{value: "young"}
		var struck atomic.Bool
		var running atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if running.Load() && struck.CompareAndSwap(false, true) {
				if err := other.Key(keys[0]).Forget(t.Context()); err != nil {
					t.Error(err)
				}
				do(t, other, keys[0], r)
			}
			return zktest.Pass
		})
		o := newOnce(t, srv, once.ForgetAfter(time.Minute))
		if _, err := o.Key(keys[1]).Do(t.Context(), func(context.Context) ([]byte, error) {
			running.Store(true)
			return nil, nil
		}); err != nil || !struck.Load() {
			t.Error(err)
		}
		if got := do(t, other, keys[0], r); got.Ran {
			t.Error("the young mark was removed")
		}
		wantCalls(t, r, 1)
	})
}

// A throttling server delays a call, and makes nothing fail.
func TestOnceOutlastsAThrottledServer(t *testing.T) {
	for mode, opts := range onceModes {
		for name, call := range map[string]func(ctx context.Context, o *once.Once, r *runner) (once.Result, error){
			"do": func(ctx context.Context, o *once.Once, r *runner) (once.Result, error) {
				return o.Key("key").Do(ctx, r.run)
			},
			"within": func(ctx context.Context, o *once.Once, r *runner) (once.Result, error) {
				return o.Every(time.Minute).Do(ctx, r.run)
			},
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					o, th := newOnce(t, srv, opts...), newThrottle(srv)
					r := &runner{lasts: time.Second, begun: make(chan struct{})}
					th.on.Store(true)
					c := calls(func() (once.Result, error) { return call(t.Context(), o, r) })
					time.Sleep(20 * time.Second)
					th.on.Store(false)
					<-r.begun
					th.on.Store(true) // while the end is to be recorded
					time.Sleep(20 * time.Second)
					if n := th.refused.Load(); n == 0 || n > 300 || !c.waiting() {
						t.Errorf("%d requests in 40 s; %+v, %v", n, c.result, c.err)
					}
					th.on.Store(false)
					if <-c.done; c.err != nil || !c.result.Ran {
						t.Errorf("%+v, %v", c.result, c.err)
					}
					wantCalls(t, r, 1)
				})
			})
		}
	}
}

func TestOnceMarksHaveTheACLOfTheOption(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		acl := []zk.ACL{{Perms: zk.PermAll &^ zk.PermAdmin, Scheme: "world", ID: "anyone"}}
		do(t, newOnce(t, srv, once.WithLock(holdfast.WithACL(acl...)), once.AtMostOnce()), "key", &runner{})
		c := client(t, srv)
		for _, node := range append(findMarks(t, c), oncePath) {
			if got, _, err := c.GetACL(t.Context(), node); err != nil || len(got) != 1 || got[0] != acl[0] {
				t.Errorf("%s has %+v, %v", node, got, err)
			}
		}
	})
}

// A lateLine is a client's way to the server. While it holds, requests are on their way and do not arrive,
// and the client reaches no server until its session has lapsed.
type lateLine struct {
	holds   atomic.Bool
	session *zk.Session

	mu   sync.Mutex // guards the fields below
	held []byte
	late net.Conn // to which they belong
}

type lateConn struct {
	net.Conn
	line *lateLine
}

func (c lateConn) Write(b []byte) (int, error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if !c.line.holds.Load() || c.line.late != nil && c.line.late != c.Conn {
		return c.Conn.Write(b)
	}
	c.line.late = c.Conn
	c.line.held = append(c.line.held, b...)
	return len(b), nil
}

// Close leaves a connection open that still has requests on their way.
func (c lateConn) Close() error {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.late == c.Conn {
		return c.Conn.SetReadDeadline(time.Now())
	}
	return c.Conn.Close()
}

// arrive lets the requests arrive.
func (l *lateLine) arrive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.Store(false)
	l.late.SetReadDeadline(time.Time{})
	l.late.Write(l.held)
	synctest.Wait()
	l.late.Close()
	l.late = nil
}

// The session lapses while a mark is on its way, and at the server it still lives. When Do has said that
// nothing is recorded, the request arrives. It does nothing then.
func TestOnceMarkThatArrivesLateIsNotWritten(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []once.Option
		nth  int32 // transaction that is late
	}{
		"end": {nil, 1}, "beginning": {[]once.Option{once.AtMostOnce()}, 1}, "end at most once": {[]once.Option{once.AtMostOnce()}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				l := &lateLine{}
				cfg := srv.Config()
				cfg.SessionTimeout = sessionTimeout
				dial := cfg.Dial
				cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if l.holds.Load() && l.session.Context().Err() == nil {
						return nil, errors.New("no way to the server")
					}
					conn, err := dial(ctx, network, address)
					return lateConn{conn, l}, err
				}
				c, err := zk.Dial(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if l.session, err = c.Session(t.Context()); err != nil {
					t.Fatal(err)
				}
				var reads atomic.Int32
				if tt.nth == 1 && tt.opts != nil { // the request after the look
					srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
						if path == oncePath && reads.Add(1) == 1 {
							l.holds.Store(true)
						}
						return zktest.Pass
					})
				}
				r := &runner{value: "x"}
				first, firstErr := once.New(c, oncePath, tt.opts...).Key("key").Do(t.Context(), func(ctx context.Context) ([]byte, error) {
					if tt.nth == 2 || tt.opts == nil {
						l.holds.Store(true)
					}
					return r.run(ctx)
				})
				if len(l.held) == 0 {
					t.Fatalf("nothing was late: %+v, %v", first, firstErr)
				}
				l.arrive()
				second, err := newOnce(t, srv).Key("key").Do(t.Context(), r.run)
				where := fmt.Sprintf("%+v, %v; then %+v, %v", first, firstErr, second, err)
				switch {
				case name == "beginning" && (firstErr != nil || !first.Ran || err != nil || second.Ran || second.Token != first.Token),
					name == "end" && (!errors.Is(firstErr, holdfast.ErrLost) || err != nil || !second.Ran),
					name == "end at most once" && (!errors.Is(firstErr, holdfast.ErrLost) || !errors.Is(err, once.ErrBegun)):
					t.Error(where)
				}
			})
		})
	}
}
