package holdfast_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// slowChange delays the transactions that acquire a detached lock: the first times of them, on their way to the server or
// back from it.
func slowChange(srv *zktest.Server, l *line, times int32, delay time.Duration, way string) {
	var seen atomic.Int32
	srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
		if !strings.Contains(path, "/detaching-") || seen.Add(1) > times {
			return zktest.Pass
		}
		switch way {
		case "request":
			time.AfterFunc(delay, srv.Stall())
		case "answer":
			gate := make(chan struct{})
			l.deaf.Store(&gate)
			time.AfterFunc(delay, func() {
				l.deaf.Store(nil)
				close(gate)
			})
		case "lost answer": // and the lock is found late
			l.stay()
			time.AfterFunc(delay, l.connect)
			return zktest.DropReply
		}
		return zktest.Pass
	})
}

// wantClaim checks that the claim is all that is held, and that at least half of its time is left.
func wantClaim(t *testing.T, srv *zktest.Server, c *zk.Client, got holdfast.Claim, lasts time.Duration) {
	t.Helper()
	if left := time.Until(got.Expires); 2*left < lasts {
		t.Errorf("%v are left of a lock that lasts %v", left, lasts)
	}
	entries, err := holdfast.List(t.Context(), c, lockPath)
	if err != nil || len(entries) == 0 || entries[0].ID != got.ID || entries[0].Path != got.Path || entries[0].Token != got.Token || !entries[0].Expires.Equal(got.Expires) {
		t.Errorf("listed: %+v, %v; want %+v", entries, err, got)
	}
	_, err = holdfast.NewMutex(client(t, srv), lockPath).TryLock(t.Context())
	wantErr(t, err, holdfast.ErrLocked)
}

// The transaction that acquires the lock, or its answer, is late. The lock that the caller gets still lasts for at
// least half of its time, and nobody else has it. A claim whose time is short is given up, and the caller tries again.
func TestDetachedWhoseAnswerIsLate(t *testing.T) {
	const delay = 3 * time.Second
	for _, way := range []string{"request", "answer", "lost answer"} {
		for lasts, again := range map[time.Duration]bool{2 * time.Second: true, 4 * time.Second: true, 5 * time.Second: true, 13 * time.Second: false} {
			for _, try := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/try %v", way, lasts, try), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						l, observer := newLine(t, srv), client(t, srv)
						slowChange(srv, l, 1, delay, way)
						d := detached(l.Client, lasts)
						acquire := d.Lock
						if try {
							acquire = d.TryLock
						}
						got, err := acquire(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						wantClaim(t, srv, observer, got, lasts)
						if e, p := nodesOf(t, observer); e != 0 || p != 1 {
							t.Errorf("%d ephemeral and %d persistent nodes; want the one lock", e, p)
						}
						if _, first := lastNumber(got.Path); first == again {
							t.Errorf("the lock is %s; want another place: %v", got.Path, again)
						}
					})
				})
			}
		}
	}
}

// lastNumber returns the number of a node, and whether it is the first of its directory.
func lastNumber(path string) (number string, first bool) {
	number = path[strings.LastIndexByte(path, '-')+1:]
	return number, number == "0000000000"
}

// While the answer is on its way, the lock expires, and the next in line acquires it. The caller waits for that one.
func TestDetachedThatIsPassedOnBeforeItsAnswer(t *testing.T) {
	for _, way := range []string{"answer", "lost answer"} {
		t.Run(way, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				l := newLine(t, srv)
				before := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
				slowChange(srv, l, 1, 3*time.Second, way)
				d := waitDetached(t.Context(), detached(l.Client, 2*time.Second))
				next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
				unlock(t, before)
				time.Sleep(time.Minute)
				h := next.got(t)
				select {
				case <-d.done:
					t.Fatalf("Lock returns %+v, %v beside another holder", d.claim, d.err)
				default:
				}
				unlock(t, h)
				<-d.done
				if d.err != nil || d.claim.Token <= h.Token() {
					t.Fatalf("%+v, %v; want a token above %d", d.claim, d.err, h.Token())
				}
				wantClaim(t, srv, l.Client, d.claim, 2*time.Second)
			})
		})
	}
}

// A time that is shorter than the way to the server can never be granted. Lock does not try for ever, and leaves nothing.
func TestDetachedThatIsTooShort(t *testing.T) {
	for _, way := range []string{"request", "answer"} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/try %v", way, try), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					l := newLine(t, srv)
					slowChange(srv, l, 1000, 3*time.Second, way)
					d := detached(l.Client, 2*time.Second)
					acquire := d.Lock
					if try {
						acquire = d.TryLock
					}
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					got, err := acquire(ctx)
					wantErr(t, err, zk.ErrBadArguments)
					if !strings.Contains(fmt.Sprint(err), "longer than 2s") || got != (holdfast.Claim{}) {
						t.Errorf("%+v, %v; want an error that says that the time is too short", got, err)
					}
					if took := time.Since(began); took > 20*time.Second {
						t.Errorf("it took %v", took)
					}
					wantQueued(t, client(t, srv), 0)

					ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					_, err = acquire(ctx) // the first answer comes after the caller has given up
					wantErr(t, err, context.DeadlineExceeded)
					synctest.Wait()
					wantQueued(t, client(t, srv), 0)
				})
			})
		}
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) { // it is over before the smallest unit of time
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tries atomic.Int32
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if tries.Add(1) > 50 {
				cancel()
			}
			return zktest.Pass
		})
		_, err := detached(client(t, srv), 1).Lock(ctx)
		wantErr(t, err, zk.ErrBadArguments)
		got := claim(t, detached(client(t, srv), time.Millisecond))
		if got.Expires.Before(time.Now()) {
			t.Errorf("it has expired: %+v", got)
		}
	})
}

// The claim that came too late cannot be given up either: no server answers. It stays until it expires, and the caller
// does not get it.
func TestDetachedThatCannotBeGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l, observer := newLine(t, srv), client(t, srv)
		slowChange(srv, l, 1, 6*time.Second, "answer")
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action { return zktest.Throttle })
		d := waitDetached(t.Context(), detached(l.Client, 10*time.Second))
		time.Sleep(8 * time.Second)
		if e, p := nodesOf(t, observer); p != 1 {
			t.Fatalf("%d ephemeral and %d persistent nodes", e, p)
		}
		time.Sleep(30 * time.Second)
		srv.Intercept(zkproto.OpDelete, nil)
		<-d.done
		if d.err != nil {
			t.Fatal(d.err)
		}
		wantClaim(t, srv, observer, d.claim, 10*time.Second)
	})
}

// A client with permission can write any time of expiry. One that is before everything else is over, so the lock is
// removed, as it is if another client of ours has written such a time.
func TestForgedExpiry(t *testing.T) {
	for written, over := range map[string]bool{
		"-1": true, "1": true, "-9000000000000000": true, "-9223372036854775807": true, "-9223372036854775808": true,
		"9000000000000000": false, "9223372036854775807": false, "0": false,
	} {
		for name, of := range map[string]func(*zk.Client) holdfast.Locker{"mutex": mutexAt, "reader": readAt} {
			t.Run(name+"/"+written, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					got := claim(t, detached(c, 0))
					if _, err := c.Set(t.Context(), got.Path, []byte(`{"id":"`+got.ID+`","expires":`+written+`}`), zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
					h, err := of(client(t, srv)).TryLock(t.Context())
					if over != (err == nil) {
						t.Fatalf("TryLock: %v; want the lock: %v", err, over)
					}
					if over {
						unlock(t, h)
						return
					}
					w := wait(t.Context(), of(client(t, srv)))
					time.Sleep(time.Hour)
					if !w.waiting() {
						t.Error("the lock has ended before its time")
					}
				})
			})
		}
	}
}
