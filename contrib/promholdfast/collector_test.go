package promholdfast

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// A world is a server, a Collector and a client that reports to it.
type world struct {
	*testing.T
	srv *zktest.Server
	col *Collector
	c   *zk.Client
}

// inBubble runs f with a world in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		col, err := New("/jobs/{*}", "/jobs/nightly")
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, srv: srv, col: col}
		w.c = w.dial()
		defer w.c.Close()
		f(t, w)
	})
}

func (w *world) dial() *zk.Client {
	w.Helper()
	cfg := w.srv.Config()
	cfg.Trace = w.col.Trace()
	c, err := zk.Dial(w.Context(), cfg)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) mutex(path string) *holdfast.Mutex {
	return holdfast.NewMutex(w.c, path, holdfast.WithObserver(w.col.Observer()))
}

func (w *world) lock(l holdfast.Locker) *holdfast.Hold {
	w.Helper()
	h, err := l.Lock(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return h
}

func (w *world) unlock(h *holdfast.Hold) {
	w.Helper()
	if err := h.Unlock(); err != nil {
		w.Fatal(err)
	}
}

// samples are the present values by metric, as in holdfast_held{lock="/jobs/{*}"}. A histogram's is its count.
func samples(t testing.TB, col *Collector) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	each(t, col, func(name string, m *dto.Metric) {
		switch {
		case m.Histogram != nil:
			all[name] = float64(m.Histogram.GetSampleCount())
		case m.Counter != nil:
			all[name] = m.Counter.GetValue()
		default:
			all[name] = m.Gauge.GetValue()
		}
	})
	return all
}

func each(t testing.TB, col *Collector, f func(name string, m *dto.Metric)) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(col); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			f(family.GetName()+"{"+strings.Join(labels, ",")+"}", m)
		}
	}
}

// want compares some of the samples. A metric that is not there counts as 0.
func (w *world) want(want map[string]float64) {
	w.Helper()
	have := samples(w, w.col)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] != want[name] {
			w.Errorf("%s is %v; want %v", name, have[name], want[name])
		}
	}
}

func TestMetricsOfLocks(t *testing.T) {
	for name, tt := range map[string]struct {
		story func(w *world)
		want  map[string]float64
	}{
		"a lock is held": {
			func(w *world) { w.lock(w.mutex("/jobs/a")) },
			map[string]float64{
				`holdfast_acquire_total{lock="/jobs/{*}",result="acquired"}`: 1,
				`holdfast_wait_seconds{lock="/jobs/{*}",result="acquired"}`:  1,
				`holdfast_held{lock="/jobs/{*}"}`:                            1,
				`holdfast_waiters{lock="/jobs/{*}"}`:                         0,
				`holdfast_hold_seconds{lock="/jobs/{*}"}`:                    0,
				`holdfast_held{lock="other"}`:                                0,
			},
		},
		"a lock is released": {
			func(w *world) { w.unlock(w.lock(w.mutex("/jobs/nightly"))) },
			map[string]float64{
				`holdfast_acquire_total{lock="/jobs/nightly",result="acquired"}`: 1,
				`holdfast_acquire_total{lock="/jobs/{*}",result="acquired"}`:     0,
				`holdfast_held{lock="/jobs/nightly"}`:                            0,
				`holdfast_hold_seconds{lock="/jobs/nightly"}`:                    1,
			},
		},
		"calls that fail": {
			func(w *world) {
				m := w.mutex("/jobs/a")
				h := w.lock(m)
				if _, err := m.TryLock(w.Context()); !errors.Is(err, holdfast.ErrLocked) {
					w.Error(err)
				}
				if _, err := m.Lock(h.Context()); !errors.Is(err, holdfast.ErrDeadlock) {
					w.Error(err)
				}
				ctx, cancel := context.WithTimeoutCause(w.Context(), time.Minute, errors.New("too late"))
				defer cancel()
				if _, err := m.Lock(ctx); err == nil {
					w.Error("acquired")
				}
				ctx, end := context.WithCancelCause(w.Context())
				end(errors.New("no longer wanted"))
				if _, err := m.Lock(ctx); err == nil {
					w.Error("acquired")
				}
				if _, err := w.mutex("relative").Lock(w.Context()); err == nil {
					w.Error("acquired")
				}
			},
			map[string]float64{
				`holdfast_acquire_total{lock="/jobs/{*}",result="acquired"}`: 1,
				`holdfast_acquire_total{lock="/jobs/{*}",result="locked"}`:   1,
				`holdfast_acquire_total{lock="/jobs/{*}",result="deadlock"}`: 1,
				`holdfast_acquire_total{lock="/jobs/{*}",result="timeout"}`:  1,
				`holdfast_acquire_total{lock="/jobs/{*}",result="canceled"}`: 1,
				`holdfast_acquire_total{lock="other",result="error"}`:        1,
				`holdfast_wait_seconds{lock="/jobs/{*}",result="timeout"}`:   1,
				`holdfast_held{lock="/jobs/{*}"}`:                            1,
				`holdfast_waiters{lock="/jobs/{*}"}`:                         0,
			},
		},
		"a waiter": {
			func(w *world) {
				m := w.mutex("/x")
				w.lock(m)
				go m.Lock(w.Context())
				synctest.Wait()
			},
			map[string]float64{`holdfast_held{lock="other"}`: 1, `holdfast_waiters{lock="other"}`: 1},
		},
		"a session expires": {
			func(w *world) {
				h := w.lock(w.mutex("/x"))
				w.srv.Expire(h.SessionID())
				<-h.Lost()
			},
			map[string]float64{
				`holdfast_lost_total{lock="other",reason="session_expired"}`: 1,
				`holdfast_held{lock="other"}`:                                0,
				`holdfast_hold_seconds{lock="other"}`:                        1,
			},
		},
		"a lost lock is unlocked": {
			func(w *world) {
				h := w.lock(w.mutex("/x"))
				if err := w.srv.Client().Delete(w.Context(), h.Path(), zk.AnyVersion); err != nil {
					w.Fatal(err)
				}
				<-h.Lost()
				h.Unlock()
			},
			map[string]float64{
				`holdfast_lost_total{lock="other",reason="node_removed"}`: 1,
				`holdfast_held{lock="other"}`:                             0,
				`holdfast_hold_seconds{lock="other"}`:                     1,
			},
		},
		"a client is closed": {
			func(w *world) {
				h := w.lock(w.mutex("/x"))
				w.c.Close()
				<-h.Lost()
			},
			map[string]float64{
				`holdfast_lost_total{lock="other",reason="client_closed"}`: 1,
				`holdfast_session_state{state="connected"}`:                0,
				`holdfast_session_state{state="disconnected"}`:             0,
			},
		},
		"several locks at once": {
			func(w *world) { w.lock(holdfast.NewMultiLock(w.mutex("/jobs/a"), w.mutex("/jobs/b"), w.mutex("/c"))) },
			map[string]float64{`holdfast_held{lock="/jobs/{*}"}`: 2, `holdfast_held{lock="other"}`: 1},
		},
		"several locks were held": {
			func(w *world) {
				w.unlock(w.lock(holdfast.NewMultiLock(w.mutex("/jobs/a"), w.mutex("/jobs/b"), w.mutex("/c"))))
			},
			map[string]float64{
				`holdfast_held{lock="/jobs/{*}"}`:         0,
				`holdfast_hold_seconds{lock="/jobs/{*}"}`: 2,
				`holdfast_held{lock="other"}`:             0,
			},
		},
		"requests": {
			func(w *world) {
				w.c.Create(w.Context(), "/a", nil, zk.Persistent)
				w.c.Create(w.Context(), "/a", nil, zk.Persistent)
				w.c.Get(w.Context(), "/b")
			},
			map[string]float64{
				`holdfast_requests_total{operation="create",result="ok"}`:          1,
				`holdfast_requests_total{operation="create",result="node_exists"}`: 1,
				`holdfast_requests_total{operation="get",result="no_node"}`:        1,
				`holdfast_request_seconds{operation="create"}`:                     2,
				`holdfast_session_state{state="connected"}`:                        1,
			},
		},
		"a silent server": {
			func(w *world) {
				s, err := w.c.Session(w.Context())
				if err != nil {
					w.Fatal(err)
				}
				resume := w.srv.Stall()
				w.srv.CloseClientConnections()
				time.Sleep(s.Timeout() / 2)
				w.want(map[string]float64{`holdfast_session_state{state="connected"}`: 0, `holdfast_session_state{state="disconnected"}`: 1})
				resume()
				time.Sleep(s.Timeout())
			},
			map[string]float64{
				`holdfast_session_state{state="connected"}`:    1,
				`holdfast_session_state{state="disconnected"}`: 0,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				tt.story(w)
				synctest.Wait() // for the reports of a loss
				w.want(tt.want)
			})
		})
	}
}

// A handoff is measured from the release, and only where the release was the cause of the acquisition.
func TestHandoffs(t *testing.T) {
	for name, tt := range map[string]struct {
		story func(w *world)
		want  uint64
	}{
		"from a holder to a waiter": {func(w *world) {
			m := w.mutex("/l")
			first := w.lock(m)
			next := w.later(m)
			time.Sleep(time.Minute)
			w.unlock(first)
			w.unlock(<-next)
		}, 1},
		"through a queue": {func(w *world) {
			m := w.mutex("/l")
			first := w.lock(m)
			second := w.later(m)
			synctest.Wait()
			third := w.later(m)
			synctest.Wait()
			w.unlock(first)
			w.unlock(<-second)
			w.unlock(<-third)
		}, 2},
		"from a writer to readers": {func(w *world) {
			m := holdfast.NewRWMutex(w.c, "/l", holdfast.WithObserver(w.col.Observer()))
			first := w.lock(m)
			reader := w.later(m.RLocker())
			synctest.Wait()
			w.unlock(first)
			w.unlock(<-reader)
		}, 1},
		"a writer that goes on as a reader": {func(w *world) {
			m := holdfast.NewRWMutex(w.c, "/l", holdfast.WithObserver(w.col.Observer()))
			first := w.lock(m)
			next := w.later(m)
			synctest.Wait()
			read, err := m.RLock(first.Context())
			if err != nil {
				w.Fatal(err)
			}
			w.unlock(first)
			time.Sleep(time.Minute)
			w.unlock(read)
			w.unlock(<-next)
		}, 0},
		"from a reader": {func(w *world) {
			m := holdfast.NewRWMutex(w.c, "/l", holdfast.WithObserver(w.col.Observer()))
			outside := w.lock(holdfast.NewRWMutex(w.c, "/l").RLocker())
			reader := w.lock(m.RLocker())
			next := w.later(m)
			synctest.Wait()
			w.unlock(reader)
			time.Sleep(time.Minute)
			w.unlock(outside)
			w.unlock(<-next)
		}, 0},
		"a lock that was free": {func(w *world) {
			m := w.mutex("/l")
			w.lock(w.mutex("/other"))
			w.unlock(w.lock(m))
			time.Sleep(time.Minute)
			w.unlock(w.lock(m))
		}, 0},
		"a waiter of somebody else in between": {func(w *world) {
			m := w.mutex("/l")
			first := w.lock(m)
			outside := w.later(holdfast.NewMutex(w.c, "/l"))
			synctest.Wait()
			next := w.later(m)
			synctest.Wait()
			w.unlock(first)
			h := <-outside
			time.Sleep(time.Minute)
			w.unlock(h)
			w.unlock(<-next)
		}, 0},
		"several locks at once": {func(w *world) {
			first := w.lock(holdfast.NewMultiLock(w.mutex("/l"), w.mutex("/m")))
			next := w.later(w.mutex("/l"))
			time.Sleep(time.Minute)
			w.unlock(first)
			w.unlock(<-next)
		}, 1},
		"a lost lock": {func(w *world) {
			m := w.mutex("/l")
			first := w.lock(m)
			c := w.dial()
			defer c.Close()
			next := w.later(holdfast.NewMutex(c, "/l", holdfast.WithObserver(w.col.Observer())))
			synctest.Wait()
			w.srv.Expire(first.SessionID())
			w.unlock(<-next)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				tt.story(w)
				synctest.Wait() // for the reports of a loss
				var held int
				var queues map[string]*queue
				w.col.settle(func() { held, queues = len(w.col.current), maps.Clone(w.col.queues) })
				maps.DeleteFunc(queues, func(path string, q *queue) bool { return path == "/other" || q.uses == 0 })
				if len(queues) > 0 || held > 1 {
					t.Errorf("%d holds and %d queues remain", held, len(queues))
				}
				each(t, w.col, func(name string, m *dto.Metric) {
					if name != `holdfast_handoff_seconds{lock="other"}` {
						return
					}
					// The server is in memory and time is virtual, so a handoff takes none.
					if n, sum := m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum(); n != tt.want || sum > 1 {
						t.Errorf("%d handoffs of %v s; want %d", n, sum, tt.want)
					}
				})
			})
		})
	}
}

// later starts a call of Lock, and returns its Hold.
func (w *world) later(l holdfast.Locker) <-chan *holdfast.Hold {
	got := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := l.Lock(w.Context())
		if err != nil {
			w.Error(err)
		}
		got <- h
	}()
	return got
}

// The two reports of a handoff come in any order.
func TestAHandoffIsReportedInAnyOrder(t *testing.T) {
	col, err := New()
	if err != nil {
		t.Fatal(err)
	}
	l := col.locks[other]
	released := tick()
	call := taken{number: 8, from: released - time.Second, at: released + time.Millisecond}
	col.queues["/l"] = &queue{lock: l, uses: 2, holders: [2]int64{8, 7}, next: call}
	for range 2 { // one release, one handoff
		col.deleted("/l/lock-0000000006", released)
	}
	for _, path := range []string{"/l/lock-0000000004", "/l/lock-0000000007", "/m/lock-0000000006", "/l", "/l/0000000006x", ""} {
		col.deleted(path, released)
	}
	if got := samples(t, col)[`holdfast_handoff_seconds{lock="other"}`]; got != 1 {
		t.Errorf("%v handoffs; want 1", got)
	}
}

func TestTheLeaseThatRemains(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const name = `holdfast_lease_remaining_seconds{lock="/jobs/{*}"}`
		if left, ok := samples(t, w.col)[name]; ok {
			t.Errorf("%v without a hold", left)
		}
		h := w.lock(w.mutex("/jobs/a"))
		resume := w.srv.Stall()
		time.Sleep(time.Second)
		want := time.Until(h.Deadline()).Seconds()
		if left := samples(t, w.col)[name]; left != want || left <= 0 {
			t.Errorf("%v; want %v", left, want)
		}
		resume()
		w.unlock(h)
		if left, ok := samples(t, w.col)[name]; ok {
			t.Errorf("%v after the release", left)
		}
	})
}

// Whatever the names of the locks, the metrics stay the same, and little is kept of locks that nobody uses.
func TestMemoryDoesNotGrowWithNames(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		work := func(i int) {
			w.unlock(w.lock(w.mutex(fmt.Sprintf("/jobs/%d", i))))
			w.unlock(w.lock(w.mutex(fmt.Sprintf("/l%d/x", i))))
		}
		work(0)
		before := slices.Sorted(maps.Keys(samples(t, w.col)))
		for i := range mostIdle {
			work(i)
		}
		if after := slices.Sorted(maps.Keys(samples(t, w.col))); !slices.Equal(after, before) {
			t.Errorf("the metrics were\n%q and are\n%q", before, after)
		}
		w.col.settle(func() {
			if held, queues := len(w.col.current), len(w.col.queues); held > 0 || queues > mostIdle || w.col.idle != queues {
				t.Errorf("%d holds and %d queues remain, %d of them idle", held, queues, w.col.idle)
			}
		})
	})
}

func TestObservationsAreExemplarsOfATrace(t *testing.T) {
	for name, tt := range map[string]struct {
		flags trace.TraceFlags
		want  string
	}{
		"sampled":     {trace.FlagsSampled, "4bf92f3577b34da6a3ce929d0e0e4736"},
		"not sampled": {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				id, _ := trace.TraceIDFromHex("4bf92f3577b34da6a3ce929d0e0e4736")
				ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{7}, TraceFlags: tt.flags}))
				h, err := w.mutex("/jobs/a").Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				w.unlock(h)
				got := make(map[string]string)
				each(t, w.col, func(name string, m *dto.Metric) {
					for _, b := range m.GetHistogram().GetBucket() {
						for _, l := range b.GetExemplar().GetLabel() {
							got[name+" "+l.GetName()] = l.GetValue()
						}
					}
				})
				for _, name := range []string{`holdfast_wait_seconds{lock="/jobs/{*}",result="acquired"}`, `holdfast_hold_seconds{lock="/jobs/{*}"}`} {
					if id := got[name+" trace_id"]; id != tt.want {
						t.Errorf("%s has the trace %q; want %q", name, id, tt.want)
					}
				}
			})
		})
	}
}

// Every histogram of locks is a native and a classic one. That of requests is classic.
func TestHistogramsAreNativeAndClassic(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.unlock(w.lock(w.mutex("/l")))
		n := 0
		each(t, w.col, func(name string, m *dto.Metric) {
			if h := m.Histogram; h != nil {
				n++
				if native := !strings.HasPrefix(name, "holdfast_request_"); native != (h.Schema != nil) || len(h.Bucket) < 10 {
					t.Errorf("%s: schema %v, %d buckets", name, h.Schema, len(h.Bucket))
				}
			}
		})
		if n < 4 {
			t.Errorf("%d histograms", n)
		}
	})
}

func TestMetricsPassTheLinter(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.lock(w.mutex("/l"))
		reg := prometheus.NewPedanticRegistry()
		if err := reg.Register(w.col); err != nil {
			t.Fatal(err)
		}
		problems, err := testutil.GatherAndLint(reg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
}

func TestLabelOfALock(t *testing.T) {
	col, err := New("/jobs/{*}", "/jobs/nightly", "/users/user-{*}/lock", "/users/{*}/{*}", "/a-{*}-z")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/jobs/nightly":      "/jobs/nightly",
		"/jobs/weekly":       "/jobs/{*}",
		"/jobs":              other,
		"/jobs/":             other,
		"/jobs/a/b":          other,
		"/users/user-7/lock": "/users/user-{*}/lock",
		"/users/user-/lock":  "/users/{*}/{*}",
		"/users/x/lock":      "/users/{*}/{*}",
		"/users/x":           other,
		"/a-b-z":             "/a-{*}-z",
		"/a-z":               other,
		"/a--z":              other,
		"/jobs/{*}":          "/jobs/{*}",
		"":                   other,
		"/":                  other,
		"other":              other,
	} {
		if got := col.names.of(path); got != want {
			t.Errorf("%q has the label %q; want %q", path, got, want)
		}
	}
}

func TestBadTemplatesAreRefused(t *testing.T) {
	for template, want := range map[string]string{
		"":                                    `template "": a path begins with /`,
		"jobs/{*}":                            `template "jobs/{*}": a path begins with /: write /jobs/{*}`,
		"/":                                   "empty element",
		"/jobs/":                              "empty element",
		"/{*}{*}":                             "{*} twice",
		"/jobs/*":                             "only {*}",
		"/jobs/{id}":                          "only {*}",
		"/" + strings.Repeat("é", 1000) + "*": "…",
	} {
		_, err := New("/ok", template)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.100q: %v; want %q", template, err, want)
		}
	}
}

// Many goroutines report at once, and a scrape reads the metrics meanwhile.
func TestConcurrentReports(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	col, err := New("/l")
	if err != nil {
		t.Fatal(err)
	}
	cfg := srv.Config()
	cfg.Trace = col.Trace()
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := holdfast.NewMutex(c, "/l", holdfast.WithObserver(col.Observer()))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				h, err := m.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.Unlock(); err != nil {
					t.Error(err)
				}
				samples(t, col)
			}
		})
	}
	wg.Wait()
	have := samples(t, col)
	for name, want := range map[string]float64{
		`holdfast_acquire_total{lock="/l",result="acquired"}`: 80,
		`holdfast_hold_seconds{lock="/l"}`:                    80,
		`holdfast_held{lock="/l"}`:                            0,
		`holdfast_waiters{lock="/l"}`:                         0,
	} {
		if have[name] != want {
			t.Errorf("%s is %v; want %v", name, have[name], want)
		}
	}
}

func TestResultOfARequest(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no longer wanted"))
	late, cancelLate := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), errors.New("too late"))
	defer cancelLate()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), &zk.Error{Op: "get", Err: zk.ErrNoNode}, "no_node"},
		{ended, zk.ErrConnectionLoss, "connection_loss"},
		{ended, context.Cause(ended), "canceled"},
		{late, context.Cause(late), "timeout"},
		{t.Context(), context.DeadlineExceeded, "timeout"},
		{t.Context(), zk.ErrTooLarge, "error"},
		{t.Context(), zk.ErrInvalidACL, "error"},
	} {
		if got := requestResults[requestResult(tt.ctx, tt.err)].label; got != tt.want {
			t.Errorf("%v: %s; want %s", tt.err, got, tt.want)
		}
	}
}

// A scrape has all that was reported before it, wherever it is on its way to the metrics.
func TestAScrapeHasWhatEndedBefore(t *testing.T) {
	col, err := New()
	if err != nil {
		t.Fatal(err)
	}
	trace := col.Trace()
	request := func() { trace.RequestDone(t.Context(), "get", "/a", time.Millisecond, nil) }
	done := 0
	for _, n := range []int{1, batch - 2, 1, 1, 1, batch + 1, 5 * batch, 3} {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range n {
					request()
				}
			})
		}
		all.Wait()
		done += 3 * n
		const name = `holdfast_request_seconds{operation="get"}`
		if have := samples(t, col)[name]; have != float64(done) {
			t.Errorf("%s is %v after %d requests", name, have, done)
		}
	}
	observer := col.Observer()
	e := holdfast.Event{Path: "/l", Op: "lock", Err: holdfast.ErrLocked, Outcome: "locked"}
	for what, f := range map[string]func(){
		"a call":    func() { observer.Queued(t.Context(), e); observer.Acquired(t.Context(), e) },
		"a request": request,
	} {
		if testing.AllocsPerRun(100, f) > 0 {
			t.Errorf("%s that is not traced allocates", what)
		}
	}
}

// Without scrapes, the last events do not keep their Holds, and so the contexts of the calls, in memory.
func TestEndedHoldsAreNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hold := func() weak.Pointer[holdfast.Hold] {
			h := w.lock(w.mutex("/l"))
			w.unlock(h)
			return weak.Make(h)
		}()
		time.Sleep(latest + 1)
		synctest.Wait()
		for range 3 { // finalizers
			runtime.GC()
		}
		if hold.Value() != nil {
			t.Error("it is kept")
		}
		runtime.KeepAlive(w)
	})
}

// A hook of one bubble may have to wait for the goroutine of another one, or of none.
func TestBubblesCanShareACollector(t *testing.T) {
	col, err := New()
	if err != nil {
		t.Fatal(err)
	}
	hook := col.Trace().RequestDone
	report := func(ctx context.Context, n int) {
		for range n {
			hook(ctx, "get", "/a", time.Millisecond, nil)
		}
	}
	const each, bubbles = 20 * batch, 20
	var over atomic.Bool
	var outside sync.WaitGroup
	n := 0
	outside.Go(func() {
		for ; !over.Load(); n += each {
			report(t.Context(), each)
		}
	})
	for range bubbles {
		synctest.Test(t, func(t *testing.T) { report(t.Context(), each) })
	}
	over.Store(true)
	outside.Wait()
	if got := samples(t, col)[`holdfast_request_seconds{operation="get"}`]; got != float64(n+each*bubbles) {
		t.Errorf("%v requests; want %d", got, n+each*bubbles)
	}
}
