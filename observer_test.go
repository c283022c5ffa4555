package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

type wish struct{}

// A diary writes down what an observer is told, a line for each event.
type diary struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	holds map[*holdfast.Hold]string
}

func (d *diary) note(ctx context.Context, what string, e holdfast.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := fmt.Sprintf("%s: %s %s", what, e.Op, e.Path)
	if e.Permits > 0 {
		line += fmt.Sprintf(" ×%d", e.Permits)
	}
	for _, err := range []error{holdfast.ErrLocked, holdfast.ErrLost, holdfast.ErrDeadlock, context.DeadlineExceeded} {
		if errors.Is(e.Err, err) {
			line += ": " + err.Error()
		}
	}
	if e.Took > 0 {
		line += " after " + e.Took.String()
	}
	if e.HandedOn {
		line += ", handed on"
	}
	if e.Kept {
		line += ", kept"
	}
	if what != "queued" {
		line += fmt.Sprintf(" (%v)", ctx.Value(wish{}))
	}
	d.lines = append(d.lines, line)
	// Per Hold: A for acquired, L for lost, R for released.
	if e.Hold != nil {
		d.holds[e.Hold] += strings.ToUpper(what[:1])
	}
}

// observer gives each attempt a number, which its context carries.
func (d *diary) observer() *holdfast.Observer {
	d.holds = make(map[*holdfast.Hold]string)
	n := 0
	return &holdfast.Observer{
		Queued: func(ctx context.Context, e holdfast.Event) context.Context {
			d.note(ctx, "queued", e)
			d.mu.Lock()
			defer d.mu.Unlock()
			n++
			return context.WithValue(ctx, wish{}, n)
		},
		Acquired: func(ctx context.Context, e holdfast.Event) { d.note(ctx, "acquired", e) },
		Lost:     func(ctx context.Context, e holdfast.Event) { d.note(ctx, "lost", e) },
		Released: func(ctx context.Context, e holdfast.Event) { d.note(ctx, "released", e) },
	}
}

func TestObserverIsToldTheStoryOfALock(t *testing.T) {
	observed := func(d *diary) holdfast.Option { return holdfast.WithObserver(d.observer()) }
	for name, tt := range map[string]struct {
		story func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary)
		want  []string
	}{
		"a mutex": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				h := lock(t, holdfast.NewMutex(c, lockPath, observed(d)))
				if n := h.Context().Value(wish{}); n != 1 {
					t.Errorf("the Hold's Context has %v", n)
				}
				time.Sleep(time.Second)
				unlock(t, h)
			},
			[]string{"queued: lock /l", "acquired: lock /l (1)", "released: lock /l after 1s (1)"},
		},
		"a wait": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				m := holdfast.NewMutex(c, lockPath, observed(d))
				_, err := m.TryLock(lock(t, holdfast.NewMutex(c, lockPath)).Context())
				wantErr(t, err, holdfast.ErrDeadlock)
				_, err = m.TryLock(t.Context())
				wantErr(t, err, holdfast.ErrLocked)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = m.Lock(ctx)
				wantErr(t, err, context.DeadlineExceeded)
			},
			[]string{
				"queued: try lock /l", "acquired: try lock /l: " + holdfast.ErrDeadlock.Error() + " (1)",
				"queued: try lock /l", "acquired: try lock /l: " + holdfast.ErrLocked.Error() + " (2)",
				"queued: lock /l", "acquired: lock /l: context deadline exceeded after 1m0s (3)",
			},
		},
		"a loss": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				h := lock(t, holdfast.NewRWMutex(c, lockPath, observed(d)).RLocker())
				time.Sleep(time.Second)
				srv.Expire(h.SessionID())
				<-h.Lost()
				time.Sleep(time.Second)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
			},
			[]string{"queued: read lock /l", "acquired: read lock /l (1)", "lost: read lock /l: lock lost after 1s (1)", "released: read lock /l: lock lost after 2s (1)"},
		},
		"a loss that is noticed twice": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				h := lock(t, holdfast.NewMutex(c, lockPath, observed(d)))
				if err := client(t, srv).Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				<-h.Lost()
				srv.Expire(h.SessionID())
				time.Sleep(time.Minute)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
			},
			[]string{"queued: lock /l", "acquired: lock /l (1)", "lost: lock /l: lock lost after 5ms (1)", "released: lock /l: lock lost after 1m0.005s (1)"},
		},
		"a semaphore": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				s := holdfast.NewSemaphore(c, lockPath, 3, observed(d))
				h, err := s.Acquire(t.Context(), 2)
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.TryAcquire(t.Context(), 2)
				wantErr(t, err, holdfast.ErrLocked)
				unlock(t, h)
			},
			[]string{
				"queued: acquire /l ×2", "acquired: acquire /l ×2 (1)",
				"queued: try acquire /l ×2", "acquired: try acquire /l ×2: " + holdfast.ErrLocked.Error() + " (2)",
				"released: acquire /l ×2 (1)",
			},
		},
		"a NodeLock": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				l := holdfast.NewNodeLock(c, lockPath, observed(d))
				if err := lock(t, l).Release(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				h, err := l.TryLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, h)
			},
			[]string{
				"queued: lock /l", "acquired: lock /l (1)", "released: lock /l (1)",
				"queued: try lock /l", "acquired: try lock /l (2)", "released: try lock /l (2)",
			},
		},
		"slots": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				s := holdfast.NewSlots(c, lockPath, 1, observed(d))
				h := lock(t, s.Locker(1))
				_, err := s.TryAcquire(t.Context(), 1)
				wantErr(t, err, holdfast.ErrLocked)
				unlock(t, h)
			},
			[]string{"queued: acquire /l ×1", "acquired: acquire /l ×1 (1)", "queued: try acquire /l ×1", "acquired: try acquire /l ×1: locked by another (2)", "released: acquire /l ×1 (1)"},
		},
		"an election": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				h, err := holdfast.NewElection(c, lockPath, observed(d)).Campaign(t.Context(), []byte("me"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := h.CommitAndUnlock(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent)); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"queued: campaign /l", "acquired: campaign /l (1)", "released: campaign /l (1)"},
		},
		"several locks": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				o := observed(d)
				h := lock(t, holdfast.NewMultiLock(holdfast.NewMutex(c, "/b", o), holdfast.NewMutex(c, "/a", o), holdfast.NewMutex(c, "/unseen")))
				time.Sleep(time.Second)
				if err := client(t, srv).Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil { // of /a
					t.Fatal(err)
				}
				<-h.Lost()
				synctest.Wait()
				wantErr(t, h.Unlock(), holdfast.ErrLost)
			},
			[]string{
				"queued: lock /a", "acquired: lock /a (1)", "queued: lock /b", "acquired: lock /b (2)",
				"lost: lock /a: lock lost after 1s (1)", "released: lock /b after 1s (2)", "released: lock /a: lock lost after 1s (1)",
			},
		},
		"a lock that is handed on": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				m := holdfast.NewMutex(c, lockPath, observed(d), holdfast.WithLocalHandoff(1))
				h := lock(t, m)
				next := wait(t.Context(), m)
				synctest.Wait()
				unlock(t, h)
				unlock(t, next.got(t))
			},
			[]string{
				"queued: lock /l", "acquired: lock /l (1)", "queued: lock /l", "released: lock /l, handed on (1)",
				"acquired: lock /l (2)", "released: lock /l (2)",
			},
		},
		"a lock that is kept": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				m := holdfast.NewMutex(c, lockPath, observed(d), holdfast.WithKeep(time.Minute))
				unlock(t, lock(t, m))
				h := lock(t, m)
				next := wait(t.Context(), m)
				unlock(t, h)
				h = next.got(t)
				other := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
				unlock(t, h)
				unlock(t, other.got(t))
			},
			[]string{
				"queued: lock /l", "acquired: lock /l (1)", "released: lock /l, kept (1)", "queued: lock /l", "acquired: lock /l (2)",
				"queued: lock /l", "released: lock /l, handed on (2)", "acquired: lock /l (3)", "released: lock /l (3)",
			},
		},
		"a Once": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				o := once.New(c, lockPath, once.WithLock(observed(d)))
				for range 2 { // the second call needs no lock
					_, err := o.Key("key").Do(t.Context(), func(ctx context.Context) ([]byte, error) {
						if n := ctx.Value(wish{}); n != 1 {
							t.Errorf("the context of the function has %v", n)
						}
						time.Sleep(time.Second)
						return nil, nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			},
			[]string{"queued: lock /l/once-KEY", "acquired: lock /l/once-KEY (1)", "released: lock /l/once-KEY after 1s (1)"},
		},
		"a lock that joins": {
			func(t *testing.T, srv *zktest.Server, c *zk.Client, d *diary) {
				m := holdfast.NewMutex(c, lockPath, observed(d), holdfast.Reentrant())
				h := lock(t, m)
				inner, err := m.Lock(h.Context())
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, h)
				time.Sleep(time.Second)
				srv.Expire(inner.SessionID())
				<-inner.Lost()
				synctest.Wait()
				wantErr(t, inner.Unlock(), holdfast.ErrLost)
			},
			[]string{
				"queued: lock /l", "acquired: lock /l (1)", "queued: lock /l", "acquired: lock /l (2)", "released: lock /l (1)",
				"lost: lock /l: lock lost after 1s (2)", "released: lock /l: lock lost after 1s (2)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				var d diary
				tt.story(t, srv, client(t, srv), &d)
				synctest.Wait()
				var got []string
				for _, line := range d.lines {
					line = strings.ReplaceAll(line, lockPath, "/l")
					got = append(got, regexp.MustCompile(`once-./key`).ReplaceAllString(line, "once-KEY"))
				}
				if strings.Contains(strings.Join(tt.want, ""), "handed on") { // the two goroutines may report in either order
					slices.Sort(got)
					slices.Sort(tt.want)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
				}
			})
		})
	}
}

func TestObserversAreCalledInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var got []string
		named := func(name string) holdfast.Option {
			return holdfast.WithObserver(&holdfast.Observer{
				Queued: func(ctx context.Context, _ holdfast.Event) context.Context {
					got = append(got, fmt.Sprint(name, " after ", ctx.Value(wish{})))
					if name == "second" {
						return nil // stands for ctx
					}
					return context.WithValue(ctx, wish{}, name)
				},
				Released: func(ctx context.Context, _ holdfast.Event) {
					got = append(got, fmt.Sprint(name, " ends ", ctx.Value(wish{})))
				},
			})
		}
		shared := []holdfast.Option{named("first")}
		holdfast.NewMutex(nil, lockPath, append(shared[:1:1], named("another lock's"))...)
		unlock(t, lock(t, holdfast.NewMutex(client(t, srv), lockPath, append(shared, named("second"), named("third"))...)))
		want := []string{"first after <nil>", "second after first", "third after first", "first ends third", "second ends third", "third ends third"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
	})
}

// Whatever comes together, an acquisition is followed by at most one loss and by one release.
func TestObserverCountsEveryHoldOnce(t *testing.T) {
	for name, end := range map[string]func(h *holdfast.Hold){
		"Unlock":          func(h *holdfast.Hold) { h.Unlock() },
		"Release":         func(h *holdfast.Hold) { h.Release() },
		"CommitAndUnlock": func(h *holdfast.Hold) { h.CommitAndUnlock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			for us := range 40 {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var d diary
					o := holdfast.WithObserver(d.observer())
					c := client(t, srv)
					h := lock(t, holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath, o), holdfast.NewMutex(c, lockPath+"-b", o)))
					go srv.Expire(h.SessionID())
					time.Sleep(time.Duration(us) * 25 * time.Microsecond)
					end(h)
					time.Sleep(time.Minute)
					synctest.Wait()
					if len(d.holds) != 2 {
						t.Errorf("%d Holds", len(d.holds))
					}
					for _, story := range d.holds {
						switch story {
						case "AR", "ALR", "ARL":
						default:
							t.Errorf("after %d: %s", us, story)
						}
					}
				})
			}
		})
	}
}

// The lock is lost while the observer is told that it was acquired. It is told of the loss afterwards.
func TestLossDuringTheReportIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var d diary
		o := d.observer()
		acquired := o.Acquired
		o.Acquired = func(ctx context.Context, e holdfast.Event) {
			srv.Expire(e.Hold.SessionID())
			<-e.Hold.Lost()
			synctest.Wait()
			acquired(ctx, e)
		}
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithObserver(o)))
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		if story := d.holds[h]; story != "ALR" {
			t.Errorf("told %s", story)
		}
	})
}

// An event says in one word how the call or the Hold has ended.
func TestOutcomesOfEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var last string
		seen := make(map[string]bool)
		note := func(_ context.Context, e holdfast.Event) { last = e.Outcome; seen[last] = true }
		of := holdfast.WithObserver(&holdfast.Observer{Acquired: note, Lost: note})
		want := func(outcome string) {
			t.Helper()
			if last != outcome {
				t.Errorf("the outcome is %q; want %q", last, outcome)
			}
		}
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, of)
		taken := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		m.TryLock(t.Context())
		want("locked")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m.Lock(short)
		want("timeout")
		given, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, giveUp)
		m.Lock(given)
		want("canceled")
		newest := holdfast.NewMutex(c, lockPath, holdfast.WithSupersede())
		w := wait(t.Context(), holdfast.NewMutex(c, lockPath, of, holdfast.WithSupersede()))
		newer := wait(t.Context(), newest)
		<-w.done
		want("superseded")
		holdfast.NewMutex(c, lockPath, of, holdfast.WithQueueMax(1, false)).Lock(t.Context())
		want("queue_full")
		unlock(t, taken)
		unlock(t, newer.got(t))

		h := lock(t, m)
		want("acquired")
		m.Lock(h.Context())
		want("deadlock")
		holdfast.NewMutex(c, "relative", of).Lock(t.Context())
		want("error")
		if err := holdfast.Break(t.Context(), client(t, srv), lockPath, h.Token()); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		synctest.Wait()
		want("node_removed")

		h = lock(t, m)
		srv.Expire(h.SessionID())
		<-h.Lost()
		synctest.Wait()
		want("session_expired")
		h = lock(t, m)
		c.Close()
		<-h.Lost()
		synctest.Wait()
		want("client_closed")
		for _, o := range append(holdfast.Outcomes(), holdfast.Losses()...) {
			if !seen[o] && o != "auth_failed" { // a session that the server refuses ends before it has a lock
				t.Errorf("%q was not seen", o)
			}
		}
	})
}

// survive calls f in a goroutine that may end in any way, and reports whether f has returned.
func survive(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recover() }()
		f()
		returned = true
	}()
	<-done
	return returned
}

// taken are calls that take a lock, each of one kind. They give it back.
var taken = map[string]func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error{
	"mutex": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, opts...)
	}),
	"writer": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewRWMutex(c, lockPath, opts...)
	}),
	"reader": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewRWMutex(c, lockPath, opts...).RLocker()
	}),
	"permits": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSemaphore(c, lockPath, 2, opts...).Locker(2)
	}),
	"slot": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSlots(c, lockPath, 2, opts...).Locker(1)
	}),
	"node lock": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewNodeLock(c, lockPath, opts...)
	}),
	"tree": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewTree(c, lockPath, opts...).Path("a/b")
	}),
	"reservable": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return reserve.Locker(holdfast.NewMutex(c, lockPath, opts...))
	}),
	"handed on": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithLocalHandoff(3))...)
	}),
	"kept": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithKeep(time.Second))...)
	}),
	"several": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath, opts...), holdfast.NewMutex(c, lockPath+"2", opts...), holdfast.NewSemaphore(c, lockPath+"3", 2, opts...).Locker(1))
	}),
	"try": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		h, err := holdfast.NewMutex(c, lockPath, opts...).TryLock(ctx)
		if err != nil {
			return err
		}
		return h.Unlock()
	},
	"writer that reads": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		m := holdfast.NewRWMutex(c, lockPath, opts...)
		return holdfast.Do(ctx, m, func(ctx context.Context) error {
			return holdfast.Do(ctx, m.RLocker(), func(context.Context) error { return nil })
		})
	},
	"term": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		return holdfast.NewElection(c, lockPath, opts...).Lead(ctx, nil, func(context.Context) error { return nil })
	},
	"once": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		_, err := once.New(c, lockPath, once.WithLock(opts...)).Key("k").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
		return err
	},
}

func giveBack(of func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker) func(context.Context, *zk.Client, ...holdfast.Option) error {
	return func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		h, err := of(c, opts...).Lock(ctx)
		if err != nil {
			return err
		}
		return h.Unlock()
	}
}

// A hook that panics, or ends its goroutine, costs the caller its call. It does not cost the others the lock: nobody could
// unlock it, and the session lives on.
func TestHookThatPanicsLeavesNoLock(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("a hook") }, "Goexit": runtime.Goexit}
	hooks := map[string]func(end func()) *holdfast.Observer{
		"Queued": func(end func()) *holdfast.Observer {
			return &holdfast.Observer{Queued: func(context.Context, holdfast.Event) context.Context { end(); return nil }}
		},
		"Acquired": func(end func()) *holdfast.Observer {
			return &holdfast.Observer{Acquired: func(context.Context, holdfast.Event) { end() }}
		},
		"Released": func(end func()) *holdfast.Observer {
			return &holdfast.Observer{Released: func(context.Context, holdfast.Event) { end() }}
		},
	}
	for hook, of := range hooks {
		for kind, take := range taken {
			for how, end := range ends {
				for nth := range int32(3) { // of several locks, each
					t.Run(fmt.Sprintf("%s/%s/%s/%d", hook, kind, how, nth), func(t *testing.T) {
						inBubble(t, func(t *testing.T, srv *zktest.Server) {
							c, other := client(t, srv), client(t, srv)
							var calls atomic.Int32
							observer := of(func() {
								if calls.Add(1) == nth+1 {
									end()
								}
							})
							returned := survive(func() { take(t.Context(), c, holdfast.WithObserver(observer)) })
							if returned != (calls.Load() <= nth) {
								t.Errorf("the call returned: %v; the hook was called %d times", returned, calls.Load())
							}
							wantLeftAlone(t, other, take)
							wantLeftAlone(t, c, take)
						})
					})
				}
			}
		}
	}
}

// wantLeftAlone checks that a lock is free, for c, within a moment.
func wantLeftAlone(t *testing.T, c *zk.Client, take func(context.Context, *zk.Client, ...holdfast.Option) error) {
	t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := take(ctx, c); err != nil {
		t.Errorf("the lock is not free: %v", err)
	}
}

// The same with the client's hook, after each request on the way to the lock and back.
func TestTraceThatPanicsLeavesNoLock(t *testing.T) {
	all := map[string]func(context.Context, *zk.Client, ...holdfast.Option) error{
		"detached": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error { // the caller has the id if Lock returns
			_, err := detached(c, 0, opts...).Lock(ctx)
			return err
		},
		"detached for some time": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
			_, err := detached(c, time.Hour, opts...).Lock(ctx)
			return err
		},
		"release": func(ctx context.Context, c *zk.Client, _ ...holdfast.Option) error {
			h, err := holdfast.NewMultiLock(holdfast.NewNodeLock(c, lockPath), holdfast.NewNodeLock(c, lockPath+"2")).Lock(ctx)
			if err != nil {
				return err
			}
			return h.Release()
		},
		"commit and unlock": func(ctx context.Context, c *zk.Client, _ ...holdfast.Option) error {
			h, err := holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath), holdfast.NewMutex(c, lockPath+"2")).Lock(ctx)
			if err != nil {
				return err
			}
			_, err = h.CommitAndUnlock(ctx, zk.CheckOp("/", zk.AnyVersion))
			return err
		},
	}
	for kind, take := range taken {
		all[kind] = take
	}
	for kind, take := range all {
		t.Run(kind, func(t *testing.T) {
			for nth, over := int32(1), false; !over; nth++ {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var calls atomic.Int32
					var armed atomic.Bool
					cfg := srv.Config()
					cfg.Trace = &zk.Trace{RequestDone: func(context.Context, string, string, time.Duration, error) {
						// Elsewhere, a panic would end the program.
						if armed.Load() && strings.Contains(callers(), "holdfast_test.survive.") && calls.Add(1) == nth {
							panic("a hook")
						}
					}}
					c, err := zk.Dial(t.Context(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					other := client(t, srv)
					armed.Store(true)
					over = survive(func() { take(t.Context(), c) })
					armed.Store(false)
					if over {
						return
					}
					wantLeftAlone(t, other, take)
				})
			}
		})
	}
}

// callers names the functions on the stack.
func callers() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, f.Function)
		if !more {
			return strings.Join(names, " ")
		}
	}
}

// A loop over the leaders that panics leaves no watch behind.
func TestLoopOverLeadersThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, candidate{holdfast.NewElection(client(t, srv), lockPath), "a"})
		var removed atomic.Int32
		srv.Intercept(zkproto.OpRemoveWatches, func(path string) zktest.Action {
			if path == h.Path() {
				removed.Add(1)
			}
			return zktest.Pass
		})
		survive(func() {
			for range holdfast.NewElection(c, lockPath).Leaders(t.Context()) {
				panic("in the loop")
			}
		})
		synctest.Wait()
		if n := removed.Load(); n != 1 {
			t.Errorf("%d watches of the leader's node are removed; want that of the loop", n)
		}
		unlock(t, h)
	})
}
