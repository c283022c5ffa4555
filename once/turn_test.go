package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// turnPath is a path that no lock of these tests has.
const turnPath = lockPath + "/.holdfast"

// takeTurn takes a turn of key under h. It is nil if the key is done.
func takeTurn(t *testing.T, c *zk.Client, h *holdfast.Hold, key string, opts ...once.Option) (*once.Turn, once.Result) {
	t.Helper()
	turn, r, err := once.New(c, turnPath, opts...).Key(key).Turn(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return turn, r
}

func takeTurnWithin(t *testing.T, c *zk.Client, h *holdfast.Hold, d time.Duration) (*once.Turn, once.Result) {
	t.Helper()
	turn, r, err := once.New(c, turnPath).Every(d).Turn(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return turn, r
}

func turnDone(t *testing.T, turn *once.Turn, value string) once.Result {
	t.Helper()
	r, err := turn.Done(t.Context(), []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A key is done when its turn says so, and not before. Do and Within read the same.
func TestTurnIsTakenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		h := lock(t, m)
		turn, _ := takeTurn(t, c, h, "k", once.WithLock(holdfast.WithOwner("ada")))
		if turn == nil {
			t.Fatal("nobody has done it")
		}
		unlock(t, h) // the run has failed

		h = lock(t, m)
		turn, _ = takeTurn(t, c, h, "k", once.WithLock(holdfast.WithOwner("ada")))
		if turn == nil {
			t.Fatal("it was not done")
		}
		first := turnDone(t, turn, "x")
		if !first.Ran || first.Owner != "ada" || string(first.Value) != "x" || first.Token != h.Token() || first.At.IsZero() || first.Began.IsZero() {
			t.Errorf("%+v", first)
		}
		unlock(t, h)

		h = lock(t, m)
		turn, r := takeTurn(t, c, h, "k")
		if turn != nil || r.Ran || r.Owner != "ada" || string(r.Value) != "x" || r.Token != first.Token || !r.At.Equal(first.At) {
			t.Errorf("%v, %+v; want %+v", turn, r, first)
		}
		if turn, _ := takeTurn(t, c, h, "other"); turn == nil {
			t.Error("another key is done")
		}
		unlock(t, h)
		got, err := once.New(c, turnPath).Key("k").Do(t.Context(), (&runner{}).run)
		if err != nil || got.Ran || got.Token != first.Token {
			t.Errorf("Do: %+v, %v", got, err)
		}
		if err := once.New(c, turnPath).Key("k").Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		h = lock(t, m)
		if turn, _ := takeTurn(t, c, h, "k"); turn == nil {
			t.Error("the key is forgotten")
		}
		unlock(t, h)
	})
}

// The lock and the Once of its turns do not refuse each other, and the lock is as it was.
func TestTurnsBesideOtherLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		turn, _ := takeTurn(t, c, h, "k")
		turnDone(t, turn, "")
		if err := reserve.For(t.Context(), h, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		time.Sleep(time.Second)
		for range 2 {
			for _, l := range []holdfast.Locker{holdfast.NewMutex(c, lockPath), holdfast.NewRWMutex(c, lockPath).RLocker(), holdfast.NewSemaphore(c, lockPath, 2).Locker(1)} {
				unlock(t, lock(t, l))
			}
		}
		if entries, err := holdfast.List(t.Context(), c, lockPath); err != nil || len(entries) > 0 {
			t.Errorf("%+v, %v", entries, err)
		}
		if foreign, err := holdfast.Foreign(t.Context(), c, lockPath); err != nil || len(foreign) > 0 {
			t.Errorf("%+v, %v", foreign, err)
		}
	})
}

// A period counts from the moments when the callers joined the queue, however long the run was.
func TestTurnWithinCountsFromTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		const d = 10 * time.Second
		began := time.Now()
		h := lock(t, holdfast.NewMutex(c, lockPath))
		turn, _ := takeTurnWithin(t, c, h, d)
		type late struct {
			turn *once.Turn
			r    once.Result
		}
		results := make(chan late, 2)
		for _, after := range []time.Duration{time.Second, d} { // of this period, and of the next
			time.Sleep(time.Until(began.Add(after)))
			other := client(t, srv)
			go func() {
				h := lock(t, holdfast.NewMutex(other, lockPath))
				turn, r := takeTurnWithin(t, other, h, d)
				if turn != nil {
					turnDone(t, turn, "")
				}
				unlock(t, h)
				results <- late{turn, r}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		turnDone(t, turn, "x")
		unlock(t, h)
		if first := <-results; first.turn != nil || string(first.r.Value) != "x" || !first.r.Began.Equal(began) {
			t.Errorf("within the period: %+v", first)
		}
		if second := <-results; second.turn == nil {
			t.Errorf("of the next period: %+v", second)
		}
	})
}

// Who has lost the lock records nothing, and the next holder runs.
func TestTurnOfALostLockRecordsNothing(t *testing.T) {
	losses := map[string]func(t *testing.T, srv *zktest.Server, h *holdfast.Hold){
		"expire": func(_ *testing.T, srv *zktest.Server, h *holdfast.Hold) { srv.Expire(h.SessionID()) },
		"node": func(t *testing.T, srv *zktest.Server, h *holdfast.Hold) {
			if err := client(t, srv).Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		},
		"unlock": func(t *testing.T, _ *zktest.Server, h *holdfast.Hold) { unlock(t, h) },
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, holdfast.NewMutex(c, lockPath))
				turn, _ := takeTurn(t, c, h, "k")
				lose(t, srv, h)
				_, err := turn.Done(t.Context(), nil)
				if !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrNotHeld) {
					t.Errorf("%v", err)
				}
				other := client(t, srv)
				next := lock(t, holdfast.NewMutex(other, lockPath))
				if again, _ := takeTurn(t, other, next, "k"); again == nil {
					t.Error("it is recorded")
				}
				unlock(t, next)
			})
		})
	}
}

// A connection that is lost at any point of a turn makes nothing fail, and the result is recorded once.
func TestTurnUnderLostConnections(t *testing.T) {
	for _, fault := range faults {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			points := 0
			for at, reached := 1, true; reached; at++ {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					cut := newCut(srv, at, func(zkproto.Op) zktest.Action { return fault })
					cut.on.Store(true)
					h := lock(t, holdfast.NewMutex(c, lockPath))
					turn, _ := takeTurn(t, c, h, "k", once.ForgetAfter(time.Minute))
					first := turnDone(t, turn, "x")
					cut.on.Store(false)
					unlock(t, h)
					next := lock(t, holdfast.NewMutex(c, lockPath))
					if turn, r := takeTurn(t, c, next, "k"); turn != nil || r.Token != first.Token || string(r.Value) != "x" {
						t.Errorf("request %d: %v, %+v after %+v", at, turn, r, first)
					}
					unlock(t, next)
					reached = cut.reached.Load()
				})
				points = at
			}
			if points < 8 {
				t.Errorf("%d points; want more", points)
			}
		})
	}
}

func TestTurnRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		_, _, err := once.New(c, turnPath, once.AtMostOnce()).Key("k").Turn(t.Context(), h)
		wantErr(t, err, zk.ErrBadArguments)
		for _, key := range []string{"", string(make([]byte, once.MaxKey+1))} {
			_, _, err = once.New(c, turnPath).Key(key).Turn(t.Context(), h)
			wantErr(t, err, zk.ErrBadArguments)
		}
		_, _, err = once.New(c, turnPath).Every(0).Turn(t.Context(), h)
		wantErr(t, err, zk.ErrBadArguments)
		turn, _ := takeTurn(t, c, h, "k")
		_, err = turn.Done(t.Context(), make([]byte, once.MaxValue+1))
		wantErr(t, err, zk.ErrTooLarge)
		unlock(t, h)
		_, _, err = once.New(c, turnPath).Key("k").Turn(t.Context(), h)
		wantErr(t, err, holdfast.ErrNotHeld)
		both := lock(t, holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath), holdfast.NewMutex(c, "/holdfast/locks/x")))
		_, _, err = once.New(c, turnPath).Key("k").Turn(t.Context(), both)
		wantErr(t, err, zk.ErrBadArguments)
		unlock(t, both)
	})
}

// The records of a key and of a period are read and removed each by itself.
func TestRecordsAreReadAndForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		o := once.New(c, turnPath)
		key := func() (*once.Result, error) { return o.Key("k").Recorded(t.Context()) }
		period := func() (*once.Result, error) { return o.Every(time.Hour).Recorded(t.Context()) }
		want := func(read func() (*once.Result, error), want *once.Result) {
			t.Helper()
			got, err := read()
			if err != nil || (got == nil) != (want == nil) || got != nil && (got.Token != want.Token || got.Owner != want.Owner || !got.At.Equal(want.At)) {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		}
		want(key, nil)
		want(period, nil)
		if err := o.Every(time.Hour).Forget(t.Context()); err != nil {
			t.Error(err)
		}
		h := lock(t, holdfast.NewMutex(c, lockPath))
		turn, _ := takeTurn(t, c, h, "k", once.WithLock(holdfast.WithOwner("ada")))
		a := turnDone(t, turn, "")
		turn, _ = takeTurnWithin(t, c, h, time.Hour)
		b := turnDone(t, turn, "")
		want(key, &a)
		want(period, &b)
		if err := o.Every(time.Hour).Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(key, &a)
		want(period, nil)
		if turn, _ := takeTurnWithin(t, c, h, time.Hour); turn == nil {
			t.Error("the run is forgotten, and counts")
		}
		unlock(t, h)
		failed := errors.New("full")
		if _, err := once.New(c, turnPath, once.AtMostOnce()).Key("bad").Do(t.Context(), func(context.Context) ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
			t.Fatal(err)
		}
		d := client(t, srv)
		_, err := once.New(d, turnPath, once.AtMostOnce()).Key("begun").Do(t.Context(), func(ctx context.Context) ([]byte, error) {
			srv.Expire(sessionOf(t, d))
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err == nil {
			t.Error("the run has lost its lock")
		}
		r, err := o.Key("begun").Recorded(t.Context())
		if r == nil || r.Token == 0 {
			t.Errorf("%+v", r)
		}
		wantErr(t, err, once.ErrBegun)
		r, err = o.Key("bad").Recorded(t.Context())
		if r == nil || r.Token == 0 {
			t.Errorf("%+v", r)
		}
		wantErr(t, err, once.ErrBegun)
		_, err = o.Key("").Recorded(t.Context())
		wantErr(t, err, zk.ErrBadArguments)
	})
}

// ForgetRun removes the run that its caller has seen, and no newer one.
func TestForgetRunRemovesNoOtherRun(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		const period = time.Millisecond
		o := once.New(c, turnPath)
		for name, tt := range map[string]struct {
			turn     func(*holdfast.Hold) *once.Turn
			forget   func(token int64) error
			recorded func() (*once.Result, error)
			again    func() error // forgets the first key, and something is recorded
		}{
			"key": {
				func(h *holdfast.Hold) *once.Turn { turn, _ := takeTurn(t, c, h, "k"); return turn },
				func(token int64) error { return o.Key("k").ForgetRun(t.Context(), token) },
				func() (*once.Result, error) { return o.Key("k").Recorded(t.Context()) },
				func() error { return o.Key("k").Forget(t.Context()) },
			},
			"period": {
				func(h *holdfast.Hold) *once.Turn { turn, _ := takeTurnWithin(t, c, h, period); return turn },
				func(token int64) error { return o.Every(time.Hour).ForgetRun(t.Context(), token) },
				func() (*once.Result, error) { return o.Every(time.Hour).Recorded(t.Context()) },
				func() error { return o.Every(time.Hour).Forget(t.Context()) },
			},
		} {
			m := holdfast.NewMutex(c, lockPath)
			run := func() int64 {
				h := lock(t, m)
				turn := tt.turn(h)
				if turn == nil {
					t.Fatalf("%s: the run is recorded", name)
				}
				token := turnDone(t, turn, "").Token
				unlock(t, h)
				return token
			}
			first := run()
			if err := tt.again(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			second := run()
			wantErr(t, tt.forget(first), holdfast.ErrNotHeld)
			if r, err := tt.recorded(); err != nil || r == nil || r.Token != second {
				t.Errorf("%s: %+v, %v; want the run with the token %d", name, r, err, second)
			}
			if err := tt.forget(second); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if r, err := tt.recorded(); err != nil || r != nil {
				t.Errorf("%s: %+v, %v; want none", name, r, err)
			}
			wantErr(t, tt.forget(second), holdfast.ErrNotHeld)
		}
	})
}

// Holds that share a node share its token and its age. So a Turn could not tell their runs apart, and would call each
// later one done.
func TestTurnNeedsANodeOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for name, opt := range map[string]holdfast.Option{"keep": holdfast.WithKeep(time.Hour), "handoff": holdfast.WithLocalHandoff(3)} {
			m := holdfast.NewMutex(c, lockPath+name, opt)
			o := once.New(c, lockPath+name+"/.holdfast")
			for range 2 {
				h := lock(t, m)
				if turn, r, err := o.Every(time.Second).Turn(t.Context(), h); !errors.Is(err, zk.ErrBadArguments) {
					t.Errorf("%s: %v, %+v, %v", name, turn, r, err)
				}
				_, _, err := o.Key("k").Turn(t.Context(), h)
				wantErr(t, err, zk.ErrBadArguments)
				unlock(t, h)
				time.Sleep(time.Minute)
			}
		}
		h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithKeep(0), holdfast.WithLocalHandoff(0)))
		if turn, _ := takeTurnWithin(t, c, h, time.Second); turn == nil {
			t.Error("the options keep nothing")
		}
		unlock(t, h)
	})
}

// A Turn is recorded once: by the second Done, by the Done of a second Turn under one Hold, and by that of a caller
// who uses another lock, nothing is written, and the error says what to do.
func TestTurnIsRecordedOnce(t *testing.T) {
	for _, earlier := range []bool{false, true} { // a run of an earlier period is recorded
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			m := holdfast.NewMutex(c, lockPath)
			if earlier {
				h := lock(t, m)
				turn, _ := takeTurnWithin(t, c, h, time.Minute)
				turnDone(t, turn, "0")
				unlock(t, h)
				time.Sleep(time.Hour)
			}
			h, other := lock(t, m), lock(t, holdfast.NewMutex(c, lockPath+"2"))
			first, _ := takeTurnWithin(t, c, h, time.Minute)
			second, _ := takeTurnWithin(t, c, h, time.Minute)
			foreign, _ := takeTurnWithin(t, c, other, time.Minute)
			done := turnDone(t, first, "1")
			for name, turn := range map[string]*once.Turn{"the same": first, "of one Hold": second, "under another lock": foreign} {
				_, err := turn.Done(t.Context(), []byte("2"))
				wantErr(t, err, zk.ErrBadArguments)
				if !strings.Contains(fmt.Sprint(err), "call Turn") {
					t.Errorf("%s: %v does not say what to do", name, err)
				}
			}
			r, err := once.New(c, turnPath).Every(time.Hour).Recorded(t.Context())
			if err != nil || string(r.Value) != "1" || r.Token != done.Token || !r.At.Equal(done.At) {
				t.Errorf("recorded: %+v, %v; want %+v", r, err, done)
			}
			unlock(t, h)
			unlock(t, other)
		})
	}
}

// The session ends while a directory is made for the record. The lock is lost with it.
func TestLossWhileADirectoryIsMade(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *zk.Client, h *holdfast.Hold) error{
		"turn": func(t *testing.T, c *zk.Client, h *holdfast.Hold) error {
			turn, _ := takeTurn(t, c, h, "k")
			_, err := turn.Done(t.Context(), nil)
			return err
		},
		"reserve": func(t *testing.T, _ *zk.Client, h *holdfast.Hold) error {
			return reserve.For(t.Context(), h, time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, holdfast.NewMutex(c, lockPath))
				id := h.SessionID()
				hit := false
				for _, op := range []zkproto.Op{zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer} {
					srv.Intercept(op, func(path string) zktest.Action {
						if !hit && strings.HasPrefix(path, lockPath) {
							hit = true
							srv.Expire(id)
							return zktest.DropRequest
						}
						return zktest.Pass
					})
				}
				wantErr(t, end(t, c, h), holdfast.ErrLost)
				if !hit {
					t.Error("no directory was made")
				}
			})
		})
	}
}
