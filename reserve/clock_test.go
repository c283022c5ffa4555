package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zktest"
)

// A step moves the server's clock by by, at a time after the reservation.
type step struct{ at, by time.Duration }

// A waiter and a client that tries every second, each its own process, get the lock when the reservation is over. A
// clock that goes back costs them at most the reservation's length once more, from the first look at it.
func TestReservationUnderAClockThatMoves(t *testing.T) {
	const d = 10 * time.Second
	for name, tt := range map[string]struct {
		steps        []step
		look         time.Duration // when the first client looks
		waits, tries time.Duration // when the lock is acquired, for a waiter and for one that tries
	}{
		"no step":                  {waits: d, tries: d},
		"back by a little":         {steps: []step{{0, -4 * time.Second}}, waits: d, tries: d},
		"back by a little, later":  {steps: []step{{7 * time.Second, -4 * time.Second}}, waits: d, tries: 14 * time.Second},
		"back by a minute":         {steps: []step{{0, -time.Minute}}, waits: d, tries: d},
		"back by an hour":          {steps: []step{{0, -time.Hour}}, waits: d, tries: d},
		"back by an hour, later":   {steps: []step{{7 * time.Second, -time.Hour}}, waits: d, tries: 18 * time.Second},
		"back before the look":     {steps: []step{{time.Second, -time.Hour}}, look: 4 * time.Second, waits: 14 * time.Second, tries: 14 * time.Second},
		"looked at when over":      {steps: []step{{time.Second, -12 * time.Second}}, look: 11500 * time.Millisecond, waits: 21500 * time.Millisecond, tries: 21500 * time.Millisecond},
		"looked at when long over": {steps: []step{{time.Second, -12 * time.Second}}, look: time.Minute, waits: time.Minute, tries: time.Minute},
		"back again and again":     {steps: []step{{0, -20 * time.Minute}, {3 * time.Second, -20 * time.Minute}, {6 * time.Second, -20 * time.Minute}}, waits: d, tries: 17 * time.Second},
		"back and forward":         {steps: []step{{0, -time.Hour}, {3 * time.Second, time.Hour}}, waits: d, tries: 3 * time.Second},
		"forward":                  {steps: []step{{3 * time.Second, 5 * time.Second}}, waits: d, tries: 5 * time.Second},
		"forward and back":         {steps: []step{{3 * time.Second, 5 * time.Second}, {4 * time.Second, -5 * time.Second}}, waits: d, tries: d},
	} {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/waits=%v", name, waits), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					h := lock(t, reservable(t, srv, holdfast.WithOwner("ada")))
					token := h.Token()
					reserveFor(t, h, d)
					began := time.Now()
					unlock(t, h)
					for _, s := range tt.steps {
						time.AfterFunc(s.at+time.Millisecond, func() { srv.MoveClock(s.by) }) // after the first look
					}
					if tt.look == 0 && len(tt.steps) > 0 && tt.steps[0].at == 0 { // before it
						time.Sleep(2 * time.Millisecond)
					}
					time.Sleep(tt.look)
					want := tt.tries
					if waits {
						want = tt.waits
						unlock(t, lock(t, reservable(t, srv)))
					}
					for !waits {
						c := client(t, srv)
						h, err := reserve.Locker(holdfast.NewMutex(c, lockPath)).TryLock(t.Context())
						if err == nil {
							unlock(t, h)
							break
						}
						wantErr(t, err, holdfast.ErrLocked)
						if r, err := reserve.Of(t.Context(), c, lockPath); err != nil || r == nil || r.Token != token || r.Owner != "ada" || r.Until.Sub(r.From) != d {
							t.Errorf("%+v, %v", r, err)
						}
						c.Close()
						time.Sleep(time.Second)
					}
					if got := time.Since(began); got < want || got > want+1200*time.Millisecond {
						t.Errorf("acquired after %v; want %v", got, want)
					}
				})
			})
		}
	}
}

// A waiter that has joined before the reservation was made, and before a step of the clock, rests as long as any other.
func TestReservationIsYoungerThanTheWaiter(t *testing.T) {
	const d = 10 * time.Second
	for _, by := range []time.Duration{-time.Hour, -5 * time.Second, 0, 5 * time.Second, time.Hour} {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprint(by, readOnly), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					h := lock(t, reservable(t, srv))
					var opts []holdfast.Option
					if readOnly { // the waiter cannot write its own node
						opts = append(opts, holdfast.WithACL(zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}))
					}
					waiter := reservable(t, srv, opts...)
					got := make(chan time.Time, 1)
					go func() {
						unlock(t, lock(t, waiter))
						got <- time.Now()
					}()
					time.Sleep(time.Minute)
					srv.MoveClock(by)
					reserveFor(t, h, d)
					began := time.Now()
					time.Sleep(3 * time.Second)
					unlock(t, h)
					most := d
					if readOnly {
						most += 3 * time.Second // from when the waiter sees it
					}
					if took := (<-got).Sub(began); took < d || took > most+5*time.Millisecond {
						t.Errorf("the lock was reserved for %v; want %v", took, d)
					}
				})
			})
		}
	}
}

// Somebody who may not write the reservation cannot begin it anew. A waiter counts its time by itself.
func TestReservationThatOthersMayNotWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const d = 10 * time.Second
		h := lock(t, reservable(t, srv, holdfast.WithACL(zk.ACL{Perms: zk.PermRead | zk.PermDelete | zk.PermCreate, Scheme: "world", ID: "anyone"})))
		reserveFor(t, h, d)
		began := time.Now()
		unlock(t, h)
		srv.MoveClock(-time.Hour)
		_, err := reservable(t, srv).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, lock(t, reservable(t, srv)))
		wantRest(t, time.Since(began), d)
	})
}

// A connection that is lost at any point while the clock is found to have gone back costs no reservation, and no more
// than its length.
func TestReservationBeginsAnewUnderLostConnections(t *testing.T) {
	const d = 10 * time.Second
	for _, fault := range faults {
		for _, old := range []bool{false, true} { // the waiter has joined before the reservation
			t.Run(fmt.Sprint(fault, old), func(t *testing.T) {
				points := 0
				for at, reached := 1, true; reached; at++ {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						h := lock(t, reservable(t, srv))
						waiter := reservable(t, srv)
						got := make(chan time.Time, 1)
						wait := func() {
							unlock(t, lock(t, waiter))
							got <- time.Now()
						}
						if old {
							go wait()
							time.Sleep(time.Second)
						}
						reserveFor(t, h, d)
						began := time.Now()
						srv.MoveClock(-time.Hour)
						cut := newCut(srv, at, fault)
						cut.on.Store(true)
						h.Release()
						if !old {
							go wait()
						}
						took := (<-got).Sub(began)
						cut.on.Store(false)
						if took < d || took > d+2*sessionTimeout {
							t.Errorf("request %d: reserved for %v; want %v", at, took, d)
						}
						reached = cut.reached.Load()
					})
					points = at
				}
				if points < 6 {
					t.Errorf("%d points; want more", points)
				}
			})
		}
	}
}

// Hosts try and wait at random moments, while the clock goes back at random moments, by random times. Nobody gets the
// lock before the reservation's time is over, and everybody gets it within that time after the first look that
// follows the last step.
func TestReservationsUnderRandomSteps(t *testing.T) {
	const d = 10 * time.Second
	for seed := range uint64(40) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			rng := rand.New(rand.NewPCG(seed, 1))
			h := lock(t, reservable(t, srv))
			reserveFor(t, h, d)
			began := time.Now()
			unlock(t, h)
			var stepped atomic.Pointer[time.Time]
			stepped.Store(&began)
			for range rng.IntN(4) {
				at, by := time.Duration(rng.Int64N(int64(20*time.Second))), time.Duration(rng.ExpFloat64()*float64(20*time.Second))
				time.AfterFunc(at, func() {
					srv.MoveClock(-by)
					now := time.Now()
					stepped.Store(&now)
				})
			}
			const every = 3 * time.Second
			for {
				l := reservable(t, srv)
				patience := time.Duration(0)
				if rng.IntN(2) == 0 {
					patience = time.Duration(rng.Int64N(int64(every)))
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				acquire := l.Lock
				if patience == 0 {
					ctx, acquire = t.Context(), l.TryLock
				}
				h, err := acquire(ctx)
				cancel()
				if err == nil {
					if took := time.Since(began); took < d {
						t.Errorf("seed %d: acquired after %v", seed, took)
					}
					unlock(t, h)
					break
				}
				wantErr(t, err, holdfast.ErrLocked)
				time.Sleep(time.Duration(rng.Int64N(int64(every))))
			}
			if late := time.Since(*stepped.Load()); late > d+3*every {
				t.Errorf("seed %d: acquired %v after the last step", seed, late)
			}
		})
	}
}

// Each lock of a MultiLock has a reservation and a client of its own. Writers and named locks rest as a Mutex does.
func TestReservationOfOtherKindsUnderAClockThatMoves(t *testing.T) {
	const d = 10 * time.Second
	const second = "/holdfast/locks/second"
	for name, of := range map[string]func(a, b *zk.Client) holdfast.Locker{
		"MultiLock": func(a, b *zk.Client) holdfast.Locker {
			return holdfast.NewMultiLock(holdfast.NewMutex(a, lockPath), holdfast.NewMutex(b, second))
		},
		"writer": func(a, _ *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(a, lockPath) },
		"reader": func(a, _ *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(a, lockPath).RLocker() },
		"named": func(a, _ *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(a, lockPath, holdfast.WithLayout(layout.Named("n")))
		},
		"value": func(a, _ *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(a, lockPath, holdfast.WithValue([]byte("v")))
		},
	} {
		for _, old := range []bool{true, false} { // the waiter has joined before the reservation
			t.Run(fmt.Sprintf("%s/%v", name, old), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var holders []*holdfast.Hold
					if name == "named" {
						holders = append(holders, lock(t, holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(layout.Named("n")))))
					} else {
						holders = append(holders, lock(t, holdfast.NewMutex(client(t, srv), lockPath)), lock(t, holdfast.NewMutex(client(t, srv), second)))
					}
					got := make(chan time.Time, 1)
					wait := func() {
						unlock(t, lock(t, reserve.Locker(of(client(t, srv), client(t, srv)))))
						got <- time.Now()
					}
					if old {
						go wait()
						time.Sleep(time.Second)
						srv.MoveClock(-time.Hour)
					}
					for _, h := range holders {
						reserveFor(t, h, d)
					}
					began := time.Now()
					if !old {
						srv.MoveClock(-time.Hour)
					}
					for _, h := range holders {
						unlock(t, h)
					}
					if !old {
						go wait()
					}
					wantRest(t, (<-got).Sub(began), d)
				})
			})
		}
	}
}
