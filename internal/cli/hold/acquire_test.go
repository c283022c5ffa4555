package hold

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/term"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

const lockPath = "/holdfast/locks/job"

// inBubble runs f with its own server and fake time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

func newTestTaker(srv *zktest.Server) *taker {
	g := &conn.Flags{Namespace: "/holdfast/locks", Timeout: 10 * time.Second}
	return newTaker(&Plan{
		Flags: g, Target: conn.Target{URL: "zk://test", ZK: srv.Config()}, Command: "run", Name: "job", Path: lockPath, Who: conn.Owner(),
		kind: KindFlags{Layout: kind.Layout{Layout: layout.Curator}},
	}, term.NewQueue(nil))
}

// taking takes the lock in a goroutine. The error comes when take has returned.
func taking(k *taker, signals <-chan os.Signal) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := k.take(signals)
		ended <- err
	}()
	return ended
}

// saidBy returns what has been said on k.say so far. Nothing else may take the messages.
func saidBy(k *taker) string {
	var text strings.Builder
	now := make(chan struct{})
	close(now)
	k.say.Deliver(&text, now)
	return text.String()
}

func queueOf(t *testing.T, c *zk.Client) []holdfast.Entry {
	t.Helper()
	queue, err := holdfast.List(t.Context(), c, lockPath)
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

func TestSignalDuringTheAttemptStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		k := newTestTaker(srv)
		signals := make(chan os.Signal)
		// Nobody is ahead, so take acquires the lock unless it heeds the signal. If it does acquire it, it checks
		// the session a second time. A second signal would end the wait without a release.
		var once sync.Once
		k.check = func(*zk.Session) error {
			once.Do(func() { signals <- syscall.SIGTERM })
			return nil
		}
		tenure, err := k.take(signals)
		if tenure != nil || !errors.Is(err, term.ExitCode(128+15)) {
			t.Errorf("take: %v, %v; want exit code 143", tenure, err)
		}
		if queue := queueOf(t, srv.Client()); len(queue) > 0 {
			t.Errorf("the queue is %v; want it empty", queue)
		}
	})
}

func TestSignalAtTheMomentOfSuccessGivesTheLockUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stop    os.Signal // take has received it
		pending os.Signal // it is still in the channel
	}{
		{"seen", syscall.SIGHUP, nil},
		{"pending", nil, syscall.SIGHUP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				had, err := newTestTaker(srv).acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				signals := make(chan os.Signal, 1)
				if tt.pending != nil {
					signals <- tt.pending
				}
				tenure, err := acquired{had, nil}.unless(tt.stop, signals)
				if tenure != nil || !errors.Is(err, term.ExitCode(128+1)) {
					t.Errorf("unless: %v, %v; want exit code 129", tenure, err)
				}
				if queue := queueOf(t, srv.Client()); len(queue) > 0 {
					t.Errorf("the queue is %v; want it empty", queue)
				}
				if had.Client.Close(); had.hold.Context().Err() == nil {
					t.Error("the hold was not released")
				}
			})
		})
	}
}

func TestSecondSignalDoesNotWaitForTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		defer mustLock(t, holdfast.NewMutex(srv.Client(), lockPath)).Unlock()
		signals := make(chan os.Signal, 2)
		result := taking(newTestTaker(srv), signals)
		synctest.Wait()
		resume := srv.Stall()
		signals <- syscall.SIGTERM
		synctest.Wait()
		signals <- syscall.SIGINT
		synctest.Wait()
		select {
		case err := <-result:
			if !errors.Is(err, term.ExitCode(128+2)) {
				t.Errorf("take: %v; want exit code 130", err)
			}
		default:
			t.Error("take still waits for a stalled server")
		}
		resume()
	})
}

func TestTryEndsWhenItsServerIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		k := newTestTaker(srv)
		k.plan.try = true
		resume := func() {}
		defer func() { resume() }()
		k.check = func(*zk.Session) error {
			resume = srv.Stall()
			return nil
		}
		start := time.Now()
		_, err := k.take(nil)
		if !errors.Is(err, conn.ErrUnreachable) || term.Explain(err).Code != term.ExitUnavailable {
			t.Errorf("take: %v; want no server answered", err)
		}
		if d := time.Since(start); d > 25*time.Second {
			t.Errorf("take waited %v for servers that are gone; want about two session timeouts of 10s", d)
		}
	})
}

// The server is lost half a second before the wait ends: too late for the client to know that it is gone, and too
// early to read who holds the lock.
func TestBoundedWaitWhoseServerIsLostAtItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		defer mustLock(t, holdfast.NewMutex(srv.Client(), lockPath)).Unlock()
		k := newTestTaker(srv)
		k.plan.bounded, k.plan.wait = true, time.Hour
		dial := k.plan.Target.ZK.Dial
		gone := make(chan struct{})
		k.plan.Target.ZK.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-gone:
				return nil, syscall.ECONNREFUSED
			default:
				return dial(ctx, network, addr)
			}
		}
		go func() {
			time.Sleep(time.Hour - time.Second/2)
			close(gone)
			srv.CloseClientConnections()
		}()
		if _, err := k.take(nil); !errors.Is(err, conn.ErrUnreachable) || term.Explain(err).Code != term.ExitUnavailable {
			t.Errorf("take: %v; want no server answered", err)
		}
	})
}

// A wait can end while the client has the lock and reads whether it is reserved.
func TestBusyNamesTheReservationAndNotItsOwnNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		first := mustLock(t, holdfast.NewMutex(srv.Client(), lockPath, holdfast.WithOwner("first")))
		if err := reserve.For(t.Context(), first, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		k, c := newTestTaker(srv), srv.Client()
		want := regexp.MustCompile(`^job: held until \S+ by first \(--min-hold\)$`)
		if _, err := (view{k.plan, c}).busy(t.Context()); !want.MatchString(err.Error()) {
			t.Errorf("busy without a queue: %v; want %v", err, want)
		}
		own, err := holdfast.NewMutex(c, lockPath).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer own.Unlock()
		if _, err := (view{k.plan, c}).busy(t.Context()); !want.MatchString(err.Error()) {
			t.Errorf("busy with its own node in the queue: %v; want %v", err, want)
		}
	})
}

func TestBoundedWaitIsBusyAtItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		holder, err := holdfast.NewMutex(c, lockPath, holdfast.WithOwner("somebody")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Unlock()
		time.Sleep(2 * time.Second) // by then the holder has recorded the time of its acquire
		k := newTestTaker(srv)
		k.plan.bounded, k.plan.wait = true, time.Hour
		start := time.Now()
		_, err = k.take(nil)
		if term.Explain(err).Code != term.ExitBusy || err.Error() != "job: timed out after 1h: held by somebody for 1h2s" {
			t.Errorf("take: %v; want busy", err)
		}
		if d := time.Since(start); d != time.Hour {
			t.Errorf("take waited %v; want 1h", d)
		}
		if queue := queueOf(t, c); len(queue) != 1 {
			t.Errorf("the queue is %v; want the holder alone", queue)
		}
		if got, want := saidBy(k), "holdfast: waiting for job: held by somebody for 3s, position 1 of 1\n"; got != want {
			t.Errorf("after a second: %q; want %q", got, want)
		}
	})
}

// Exit code 75 says that somebody has the lock. If the server just does not answer, nobody is known to.
func TestBoundedWaitWithoutAnAnswerIsNotBusy(t *testing.T) {
	for _, tt := range []struct {
		what string
		op   zkproto.Op
		give func(k *taker)
		says string
	}{
		{"mutex", zkproto.OpCreate2, func(*taker) {}, "create " + lockPath},
		{"semaphore", zkproto.OpMulti, func(k *taker) { k.plan.kind.limit, k.plan.kind.permits = 2, 1 }, "multi"},
		{"slots", zkproto.OpMulti, func(k *taker) { k.plan.kind.limit, k.plan.kind.permits, k.plan.kind.slot = 2, 1, true }, "multi"},
		{"node", zkproto.OpCreate2, func(k *taker) { k.plan.kind.node = true }, "create " + lockPath},
	} {
		for _, held := range []bool{false, true} {
			for name, action := range map[string]zktest.Action{"drops": zktest.DropRequest, "throttles": zktest.Throttle} {
				t.Run(fmt.Sprintf("%s/%s/held %v", tt.what, name, held), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						other := srv.Client()
						k := newTestTaker(srv)
						k.plan.bounded, k.plan.wait = true, 500*time.Millisecond
						tt.give(k)
						if held {
							k.plan.kind.limit = min(k.plan.kind.limit, 1)
							h, err := k.locker(other).Lock(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							defer func() {
								srv.Intercept(tt.op, nil)
								h.Unlock()
							}()
						}
						srv.Intercept(tt.op, func(string) zktest.Action { return action })
						_, err := k.take(nil)
						got := term.Explain(err)
						switch {
						case held && got.Code != term.ExitBusy:
							t.Errorf("%v, exit code %d; want %d: somebody holds it", err, got.Code, term.ExitBusy)
						case !held && (got.Code != term.ExitUnavailable || !strings.Contains(err.Error(), tt.says)):
							t.Errorf("%v, exit code %d; want %d with the request %q", err, got.Code, term.ExitUnavailable, tt.says)
						}
					})
				})
			}
		}
	}
}

func TestBoundedWaitGoesOnInTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		holder, err := holdfast.NewMutex(c, lockPath).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Minute)
			queue := queueOf(t, c)
			srv.Expire(queue[1].Session)
			time.Sleep(time.Minute)
			holder.Unlock()
		}()
		k := newTestTaker(srv)
		k.plan.bounded, k.plan.wait = true, time.Hour
		tenure, err := k.take(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tenure.Close()
		if tenure.hold.Token() <= holder.Token() {
			t.Errorf("token %d after %d; want a larger one", tenure.hold.Token(), holder.Token())
		}
		if err := tenure.hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// A session that ends when the lock is held, and before the command may start, does not end the wait.
func TestWaitGoesOnAfterTheLockIsLostUnused(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   zkproto.Op // the first one after the lock is held
		give func(*taker)
	}{
		{"--once-key", zkproto.OpGetData, func(k *taker) { k.plan.once = onceFlags{key: "monday", used: true} }},
		{"--once-per", zkproto.OpGetData, func(k *taker) { k.plan.once = onceFlags{per: time.Minute, used: true} }},
		{"--min-hold", zkproto.OpMulti, func(k *taker) { k.plan.minHold = time.Minute }},
	} {
		for _, bounded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/bounded=%v", tt.name, bounded), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := srv.Client()
					k := newTestTaker(srv)
					k.plan.bounded, k.plan.wait = bounded, time.Hour
					tt.give(k)
					var held, expired atomic.Bool
					first := make(chan int64, 1)
					srv.Intercept(tt.op, func(path string) zktest.Action {
						if expired.Load() || tt.op == zkproto.OpGetData && !strings.HasSuffix(path, "/done") || path == lockPath { // a read comes behind it
							return zktest.Pass
						}
						if held.CompareAndSwap(false, true) {
							go func() {
								queue := queueOf(t, c)
								first <- queue[0].Token
								srv.Expire(queue[0].Session)
								expired.Store(true)
							}()
						}
						return zktest.DropRequest
					})
					tenure, err := k.take(nil)
					if err != nil {
						t.Fatal(err)
					}
					defer tenure.Close()
					if !expired.Load() {
						t.Fatal("the first session lives")
					}
					if before := <-first; tenure.hold.Token() <= before {
						t.Errorf("token %d after %d; want a larger one", tenure.hold.Token(), before)
					}
					if r, err := reserve.Of(t.Context(), c, lockPath); err != nil || (r != nil) != (k.plan.minHold > 0) {
						t.Errorf("Reserved: %v, %v", r, err)
					}
					// A signal at this moment gives up the lock and the reservation.
					signals := make(chan os.Signal, 1)
					signals <- syscall.SIGTERM
					if _, err := (acquired{tenure, nil}).unless(nil, signals); !errors.Is(err, term.ExitCode(128+15)) {
						t.Errorf("unless: %v; want exit code 143", err)
					}
					if r, err := reserve.Of(t.Context(), c, lockPath); r != nil || err != nil {
						t.Errorf("after the signal, Reserved: %v, %v", r, err)
					}
				})
			})
		}
	}
}

// A second signal does not end lock --detached before it knows whether the lock is held, while the server may
// answer: otherwise nobody would know the lock's id.
func TestSecondSignalWaitsForADetachedLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		k := newTestTaker(srv)
		k.plan.detached.on = true
		var resume func()
		stalled := make(chan struct{})
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the waiter makes the lock
			if resume == nil {
				resume = srv.Stall()
				close(stalled)
			}
			return zktest.Pass
		})
		signals := make(chan os.Signal, 2)
		result := taking(k, signals)
		<-stalled
		signals <- syscall.SIGTERM
		synctest.Wait()
		signals <- syscall.SIGINT
		synctest.Wait()
		if len(result) > 0 {
			t.Error("take has returned, and does not know whether the lock is held")
		}
		resume()
		if err := <-result; !errors.Is(err, term.ExitCode(128+15)) {
			t.Errorf("take: %v; want exit code 143", err)
		}
		if queue := queueOf(t, srv.Client()); len(queue) > 0 {
			t.Errorf("the queue is %v; want it empty", queue)
		}
	})
}

// When no server has answered for some time, a signal ends lock --detached, too.
func TestSignalEndsLockDetachedWithoutAServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		defer mustLock(t, holdfast.NewMutex(srv.Client(), lockPath)).Unlock()
		k := newTestTaker(srv)
		k.plan.detached.on = true
		signals := make(chan os.Signal, 2)
		result := taking(k, signals)
		synctest.Wait()
		resume := srv.Stall()
		for i := 0; i < 20 && len(result) == 0; i++ {
			time.Sleep(time.Second)
			signals <- syscall.SIGINT
			synctest.Wait()
		}
		if len(result) == 0 {
			t.Error("take still waits for a stalled server")
		}
		resume()
	})
}

// A reservation that is recorded, though the client was told of its end instead, does not stay: nobody runs.
func TestReservationThatFailsDoesNotStay(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		observer := srv.Client()
		k := newTestTaker(srv)
		had, err := k.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer had.Close()
		k.plan.minHold = time.Hour
		if err := k.reserver.reserve(t.Context(), had.Client, had.hold); err != nil {
			t.Fatal(err)
		}
		k.reserver.undo(had.Client, had.hold)
		exists := func() bool {
			r, err := reserve.Of(t.Context(), observer, lockPath)
			if err != nil {
				t.Error(err)
			}
			return r != nil
		}
		if exists() {
			t.Error("unreserve left the reservation")
		}
		var sent atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
			switch {
			case path == lockPath: // a read comes behind it
				return zktest.Pass
			case !sent.CompareAndSwap(false, true):
				return zktest.DropRequest
			}
			go func() {
				for !exists() {
				}
				srv.Expire(had.hold.SessionID())
			}()
			return zktest.DropReply
		})
		if err := k.reserver.reserve(t.Context(), had.Client, had.hold); err == nil {
			t.Error("reserve succeeded; this test wants it to fail")
		}
		if !sent.Load() || exists() {
			t.Error("the lock stays reserved, though no command was started")
		}
	})
}

// A wait that a second signal cuts off may leave the lock reserved. run says so.
func TestWaitThatIsCutOffKnowsItsReservation(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		k := newTestTaker(srv)
		k.plan.minHold = time.Hour
		var resume func()
		stalled := make(chan struct{})
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the reservation
			if resume == nil {
				resume = srv.Stall()
				close(stalled)
			}
			return zktest.Pass
		})
		signals := make(chan os.Signal, 2)
		result := taking(k, signals)
		<-stalled
		signals <- syscall.SIGTERM
		synctest.Wait()
		signals <- syscall.SIGINT
		if err := <-result; !errors.Is(err, term.ExitCode(128+2)) {
			t.Errorf("take: %v; want exit code 130", err)
		}
		if !k.reserver.made.Load() {
			t.Error("the lock may be reserved, and the taker does not know")
		}
		time.Sleep(time.Hour) // the session ends
		resume()
	})
}

// A release waits for the server. Signals that ask to stop cut it off, and no others.
func TestReleaseIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		k := newTestTaker(srv)
		had, err := k.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer had.Close()
		resume := srv.Stall()
		defer resume()
		signals, ended := make(chan os.Signal, 1), make(chan error, 1)
		go func() { ended <- k.unlock(had, signals) }()
		for _, sig := range []os.Signal{inputEnded, syscall.SIGPIPE} {
			signals <- sig
			synctest.Wait()
			if len(ended) > 0 {
				t.Fatalf("%v has cut the release off: %v", sig, <-ended)
			}
		}
		signals <- os.Interrupt
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, term.ExitCode(128+2)) {
				t.Errorf("unlock: %v; want exit code 130", err)
			}
		default:
			t.Error("unlock does not heed the signal")
		}
	})
}

// The wait can go on in another session, which a server may have granted another timeout. No command starts in a session
// that does not suit it.
func TestSessionOfTheHoldIsChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := mustLock(t, holdfast.NewMutex(srv.Client(), lockPath))
		k := newTestTaker(srv)
		refused := errors.New("refused")
		var first int64
		k.check = func(s *zk.Session) error {
			if first == 0 {
				first = s.ID()
			}
			if s.ID() != first {
				return refused
			}
			return nil
		}
		ended := taking(k, nil)
		time.Sleep(time.Minute)
		synctest.Wait() // the check has seen the first session
		srv.Expire(first)
		time.Sleep(time.Minute)
		if len(ended) > 0 {
			t.Fatalf("the wait has ended: %v", <-ended)
		}
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, refused) {
			t.Errorf("take: %v; want the error of the check", err)
		}
	})
}

// A time that is too short for this server is the user's to change: nobody holds the lock, and a server answers.
func TestLockThatExpiresTooSoonIsAWrongCommandLine(t *testing.T) {
	k := &Plan{Name: "db", Path: "/l"}
	err := k.failed(&holdfast.Error{Op: "lock", Path: "/l", Err: fmt.Errorf("%w: let it last longer than 2ms", zk.ErrBadArguments)})
	if got := term.Explain(err).Code; got != term.ExitUsage {
		t.Errorf("%v: exit code %d; want %d", err, got, term.ExitUsage)
	}
}
