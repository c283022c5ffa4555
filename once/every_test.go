package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zktest"
)

func within(t *testing.T, o *once.Once, d time.Duration, r *runner) once.Result {
	t.Helper()
	got, err := o.Every(d).Do(t.Context(), r.run)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A period is exact to a millisecond of the server's clock, and begins with the call that runs. A run that
// began exactly a period before is not within it.
func TestWithinCountsFromTheBeginningOfARun(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := newOnce(t, srv, once.WithLock(holdfast.WithOwner("a"))), newOnce(t, srv)
		r := &runner{value: "x", lasts: 4 * time.Second}
		began := time.Now()
		first := within(t, a, 10*time.Second, r)
		if !first.Ran || !first.Began.Equal(began) || !first.At.Equal(began.Add(r.lasts)) {
			t.Errorf("%+v; it began at %v", first, began)
		}
		time.Sleep(time.Until(began.Add(10*time.Second - time.Millisecond)))
		if got := within(t, b, 10*time.Second, r); got.Ran || got.Owner != "a" || string(got.Value) != "x" || got.Token != first.Token || !got.Began.Equal(began) || !got.At.Equal(first.At) {
			t.Errorf("just before the period is over: %+v; want that of %+v", got, first)
		}
		time.Sleep(time.Millisecond)
		if got := within(t, b, 10*time.Second, r); !got.Ran || string(got.Value) != "x+" || got.Token <= first.Token {
			t.Errorf("after the period: %+v", got)
		}
		if got := within(t, a, time.Hour, r); got.Ran {
			t.Errorf("another period of the caller: %+v", got)
		}
		if got := do(t, a, "within", r); !got.Ran {
			t.Errorf("a key has the result of Within: %+v", got)
		}
	})
}

// A run that takes longer than the period moves no later run: callers of the next period wait for its end,
// one of them runs, and the period after that is where it would have been.
func TestWithinRunThatIsLongerThanThePeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const d = 9 * time.Second
		began := time.Now()
		long, short := &runner{lasts: 15 * time.Second}, &runner{}
		o := newOnce(t, srv)
		first := calls(func() (once.Result, error) { return o.Every(d).Do(t.Context(), long.run) })
		var all []*call
		for range 3 { // of its own period, and of the next
			all = append(all, calls(func() (once.Result, error) { return newOnce(t, srv).Every(d).Do(t.Context(), short.run) }))
		}
		time.Sleep(10 * time.Second)
		for range 3 {
			all = append(all, calls(func() (once.Result, error) { return newOnce(t, srv).Every(d).Do(t.Context(), short.run) }))
		}
		<-first.done
		for i, c := range all {
			if <-c.done; c.err != nil || c.result.Ran != (i == 3) {
				t.Errorf("caller %d: %+v, %v", i, c.result, c.err)
			}
		}
		if time.Since(began) != long.lasts {
			t.Errorf("all was over after %v", time.Since(began))
		}
		time.Sleep(time.Until(began.Add(20 * time.Second)))
		if got := within(t, o, d, short); !got.Ran {
			t.Errorf("the third period: %+v", got)
		}
	})
}

// A run that fails, or whose runner is lost, does not count, unless it counts at most once.
func TestWithinFailedRuns(t *testing.T) {
	broken := errors.New("broken")
	for mode, opts := range onceModes {
		atMost := len(opts) == 2
		for name, end := range map[string]func(t *testing.T, srv *zktest.Server, o *once.Once, c *zk.Client){
			"failure": func(t *testing.T, _ *zktest.Server, o *once.Once, _ *zk.Client) {
				_, err := o.Every(time.Minute).Do(t.Context(), (&runner{err: broken}).run)
				wantErr(t, err, broken)
			},
			"crash": func(t *testing.T, srv *zktest.Server, o *once.Once, c *zk.Client) {
				_, err := o.Every(time.Minute).Do(t.Context(), func(ctx context.Context) ([]byte, error) {
					s, err := c.Session(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					srv.Expire(s.ID())
					<-ctx.Done()
					return nil, nil
				})
				wantErr(t, err, holdfast.ErrLost)
			},
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					o := once.New(c, oncePath, opts...)
					within(t, o, time.Minute, &runner{value: "earlier"})
					time.Sleep(time.Minute)
					end(t, srv, o, c)
					r := &runner{}
					got, err := newOnce(t, srv).Every(time.Minute).Do(t.Context(), r.run)
					if atMost {
						wantErr(t, err, once.ErrBegun)
						wantCalls(t, r, 0)
						time.Sleep(time.Minute)
						got, err = newOnce(t, srv, opts...).Every(time.Minute).Do(t.Context(), r.run)
					}
					if err != nil || !got.Ran {
						t.Errorf("%+v, %v", got, err)
					}
					if got := within(t, o, time.Minute, r); got.Ran || got.Owner != "" {
						t.Errorf("after a success: %+v", got)
					}
				})
			})
		}
	}
}

// The server's clock goes back, so that the last run is in the future. It counts while it is less than a
// period away.
func TestWithinClockThatGoesBack(t *testing.T) {
	for ahead, runs := range map[time.Duration]bool{
		time.Second: false, time.Minute - time.Millisecond: false, time.Minute: true, time.Hour: true,
	} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			o := once.New(c, oncePath)
			first := within(t, o, time.Minute, &runner{})
			marks := findMarks(t, c)
			if len(marks) != 1 {
				t.Fatalf("marks %q", marks)
			}
			data := dataOf(t, c, marks[0])
			was, is := fmt.Sprintf(`"began":%d`, first.Began.UnixMilli()), fmt.Sprintf(`"began":%d`, first.Began.Add(ahead).UnixMilli())
			if !strings.Contains(data, was) {
				t.Fatalf("the mark is %q", data)
			}
			if _, err := c.Set(t.Context(), marks[0], []byte(strings.Replace(data, was, is, 1)), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			if got := within(t, o, time.Minute, &runner{}); got.Ran != runs {
				t.Errorf("the last run is %v ahead: %+v", ahead, got)
			}
		})
	}
}

// findMarks returns the paths of all marks of ends.
func findMarks(t *testing.T, c *zk.Client) (paths []string) {
	t.Helper()
	shards, _, err := c.Children(t.Context(), oncePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards {
		keys, _, err := c.Children(t.Context(), oncePath+"/"+shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			mark := oncePath + "/" + shard + "/" + key + "/done"
			if _, ok, err := c.Exists(t.Context(), mark); err != nil {
				t.Fatal(err)
			} else if ok {
				paths = append(paths, mark)
			}
		}
	}
	return paths
}

// A fleet is programs on several hosts that fire the same job, by clocks that differ.
type fleet struct {
	period, apart, lasts time.Duration // apart: the largest difference of two clocks
	fire                 func(o *once.Once, at time.Time, f func(context.Context) ([]byte, error)) (once.Result, error)
}

// run lets 20 hosts fire, and returns how often the job ran for each scheduled time, and when runs began.
// Each host skips the times at its ends that other clocks do not reach.
func (f fleet) run(t *testing.T, srv *zktest.Server, lasts time.Duration) (perFire map[time.Time]int, began []time.Time) {
	const hosts = 20
	rng := rand.New(rand.NewPCG(1, 2))
	perFire = make(map[time.Time]int)
	start := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range hosts {
		fast := time.Duration(rng.Int64N(int64(f.apart)))
		if i < 2 {
			fast = time.Duration(i) * f.apart
		}
		o := newOnce(t, srv, once.ForgetAfter(10*time.Minute))
		wg.Go(func() {
			for at := start.Add(f.apart); at.Before(start.Add(lasts)); at = at.Add(f.period) {
				time.Sleep(time.Until(at.Add(-fast)))
				r, err := f.fire(o, at, func(context.Context) ([]byte, error) {
					time.Sleep(f.lasts)
					return nil, nil
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if perFire[at] += 0; r.Ran {
					perFire[at]++
					began = append(began, r.Began)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return perFire, began
}

// Twenty hosts fire a job every 10 s for an hour. Their clocks are up to a minute apart. The scheduled time
// is the key, so each fire runs exactly once.
func TestOnceUnderSkewRunsEachFireOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		f := fleet{10 * time.Second, time.Minute, 7 * time.Second, func(o *once.Once, at time.Time, f func(context.Context) ([]byte, error)) (once.Result, error) {
			return o.Key(at.UTC().Format(time.RFC3339)).Do(t.Context(), f)
		}}
		perFire, _ := f.run(t, srv, time.Hour)
		for at, n := range perFire {
			if n != 1 {
				t.Errorf("the fire of %v ran %d times", at, n)
			}
		}
		if len(perFire) != 354 {
			t.Errorf("%d fires", len(perFire))
		}
	})
}

// Without a key, the period has to be longer than the clocks are apart: then each fire runs exactly once.
// Fires that are spread over the whole period run once in a period.
func TestWithinUnderSkewRunsOncePerPeriod(t *testing.T) {
	for _, tt := range []struct{ period, d, apart, lasts time.Duration }{
		{5 * time.Minute, 150 * time.Second, time.Minute, time.Hour},
		{10 * time.Second, 5 * time.Second, 4 * time.Second, 20 * time.Minute},
		{10 * time.Second, 10 * time.Second, time.Minute, 20 * time.Minute},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				f := fleet{tt.period, tt.apart, time.Second, func(o *once.Once, _ time.Time, f func(context.Context) ([]byte, error)) (once.Result, error) {
					return o.Every(tt.d).Do(t.Context(), f)
				}}
				perFire, began := f.run(t, srv, tt.lasts)
				for i, at := range began {
					if i > 0 && at.Sub(began[i-1]) < tt.d {
						t.Errorf("a run began %v after the one before", at.Sub(began[i-1]))
					}
				}
				if tt.d < tt.period {
					for at, n := range perFire {
						if n != 1 {
							t.Errorf("the fire of %v ran %d times", at, n)
						}
					}
				} else if n := len(began); n < 114 || n > 120 {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}
