package holdfast_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

var deviceOperations = flag.Int("operations", 5_000, "acquisitions of TestDevices, each of 1 to 8 devices")

const (
	devices = 8  // slots
	users   = 16 // callers of them
)

// wantSlots checks which slots a Hold has.
func wantSlots(t *testing.T, h *holdfast.Hold, want ...int) {
	t.Helper()
	first := -1
	if len(want) > 0 {
		first = want[0]
	}
	if !slices.Equal(h.Slots(), want) || h.Slot() != first {
		t.Errorf("slots %v, the first %d; want %v", h.Slots(), h.Slot(), want)
	}
}

func TestSeveralSlotsAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		taken  []int
		n      int
		wishes []int
		want   []int // nil: wantErr
		err    error
	}{
		{"the lowest", nil, 2, nil, []int{0, 1}, nil},
		{"the lowest that are free", []int{0, 2}, 2, nil, []int{1, 3}, nil},
		{"all", nil, 4, nil, []int{0, 1, 2, 3}, nil},
		{"all that are left", []int{1}, 3, nil, []int{0, 2, 3}, nil},
		{"too many are taken", []int{1, 3}, 3, nil, nil, holdfast.ErrLocked},
		{"more than there are", nil, 5, nil, nil, holdfast.ErrLimit},
		{"none", nil, 0, nil, nil, holdfast.ErrLimit},
		{"fewer than none", nil, -1, nil, nil, holdfast.ErrLimit},
		{"wishes", nil, 2, []int{3, 1}, []int{1, 3}, nil},
		{"one of the wishes is taken", []int{3}, 2, []int{3, 2}, []int{0, 2}, nil},
		{"the first of the wishes", nil, 2, []int{3, 2, 1}, []int{2, 3}, nil},
		{"one wish, twice", nil, 2, []int{2, 2}, []int{0, 2}, nil},
		{"wishes that do not exist", nil, 2, []int{-1, 4, 3}, []int{0, 3}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				s := slots(t, srv, 4)
				for _, n := range tt.taken {
					acquire(t, slots(t, srv, 4), n, n)
				}
				h, err := s.TryAcquire(t.Context(), tt.n, tt.wishes...)
				if wantErr(t, err, tt.err); err != nil {
					wantOf(t, s, 4-len(tt.taken), 4) // all or none
					return
				}
				wantSlots(t, h, tt.want...)
				unlock(t, h)
				h = lock(t, s.Locker(tt.n, tt.wishes...))
				wantSlots(t, h, tt.want...)
				wantOf(t, s, 4-len(tt.taken)-tt.n, 4)
				unlock(t, h)
			})
		})
	}
}

// One of the slots is taken after the look: the server refuses all of them, and the caller takes others.
func TestSlotsAreTakenAllOrNone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), slots(t, srv, 4)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		var first []string
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if first == nil {
				if _, _, err := c.Create(t.Context(), slotNode(1), nil, zk.Ephemeral); err != nil {
					t.Error(err)
				}
				first, _, _ = c.Children(t.Context(), lockPath+"/slots")
			}
			return zktest.Pass
		})
		h := lock(t, s.Locker(2))
		wantSlots(t, h, 0, 2)
		wantOf(t, s, 1, 4)
		if len(first) != 1 {
			t.Errorf("before the transaction: %q", first)
		}
		unlock(t, h)
	})
}

// One of the slots is removed by hand before the caller has seen it. The caller gives the others back, and begins anew.
func TestSlotThatIsRemovedBeforeItIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), slots(t, srv, 4)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		removed := false
		srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
			if path == slotNode(1) && !removed {
				removed = true
				remove(t, c, path)
			}
			return zktest.Pass
		})
		h := lock(t, s.Locker(3))
		wantSlots(t, h, 0, 1, 2)
		if !removed {
			t.Error("nothing was removed: the test shows nothing")
		}
		wantOf(t, s, 1, 4)
		unlock(t, h)
		wantOf(t, s, 4, 4)
	})
}

// A caller for whom slots are free waits behind one that needs more of them. Otherwise small callers could take each slot
// as it becomes free.
func TestSmallCallersDoNotStarveALargeOne(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		caller := func(n int) holdfast.Locker { return slots(t, srv, 4).Locker(n) }
		one, two := lock(t, caller(1)), lock(t, caller(1))
		large, small, medium := wait(t.Context(), caller(3)), wait(t.Context(), caller(1)), wait(t.Context(), caller(2))
		_, err := caller(1).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		if !large.waiting() || !small.waiting() || !medium.waiting() {
			t.Fatal("somebody does not wait")
		}
		unlock(t, one)
		got := large.got(t)
		wantSlots(t, got, 0, 2, 3)
		if !small.waiting() {
			t.Fatal("five slots of four are in use")
		}
		unlock(t, two)
		h := small.got(t)
		wantSlots(t, h, 1)
		unlock(t, h)
		if !medium.waiting() {
			t.Fatal("five slots of four are in use")
		}
		unlock(t, got)
		wantSlots(t, medium.got(t), 0, 1)
	})
}

// Each slot has the token of the Hold, and fences on its own. Without one of its slots, a Hold is lost, and gives the
// others back.
func TestSeveralSlotsAreOneHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s, m := holdfast.NewSlots(c, lockPath, 4), holdfast.NewMutex(c, lockPath+"-m")
		zero := acquire(t, s, 0)
		h := lock(t, holdfast.NewMultiLock(m, s.Locker(1, 1), s.Locker(2, 3))) // the largest number counts
		wantSlots(t, h, 1, 3)
		if len(h.Tokens()) != 3 || tokenOf(h, slotNode(1)) == 0 || tokenOf(h, slotNode(1)) != tokenOf(h, slotNode(3)) {
			t.Errorf("tokens %v", h.Tokens())
		}
		wantOf(t, s, 1, 4)
		unlock(t, h)
		next := lock(t, s.Locker(3))
		wantSlots(t, next, 1, 2, 3)
		if next.Token() <= tokenOf(h, slotNode(3)) {
			t.Errorf("token %d after %v; want it to grow", next.Token(), h.Tokens())
		}
		if _, err := next.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * holdfast.GracePeriod)
		remove(t, client(t, srv), slotNode(3)) // not the first
		wantLost(t, next)
		wantOf(t, s, 3, 4)
		unlock(t, zero)
		alone := lock(t, m)
		wantSlots(t, alone)
		unlock(t, alone)
	})
}

// A deviceWorld has callers that acquire one to eight of eight slots, in virtual time. Some give up, processes die,
// sessions end, and answers are lost. Everything that the test does happens at an instant of its own (see at), so the
// order of the calls is the order in which their places join the queue.
type deviceWorld struct {
	t     *testing.T
	srv   *zktest.Server
	alone bool // each caller takes all slots: one job at a time
	began time.Time

	mu       sync.Mutex
	left     int // acquisitions to go
	calls    int
	owner    [devices]*deviceUser
	grants   []deviceGrant
	busy     time.Duration // the sum of the time of all slots in use
	ended    map[string]int
	failures int
}

// A deviceUser is a process that restarts when it dies.
type deviceUser struct {
	number  int
	client  *zk.Client
	hold    *holdfast.Hold
	kill    context.CancelFunc // of the attempt or the work
	rejoins bool               // its session has ended during the call, so its place is a later one
	struck  bool               // its connection was broken on purpose since it was seen to be whole
}

type deviceGrant struct {
	call    int // the number of the call, in their order
	before  int // acquisitions before the call
	token   int64
	rejoins bool
}

// at sleeps for about d, until an instant at which nobody else does anything: residue is the caller's own, of 64.
func (w *deviceWorld) at(d time.Duration, residue int) {
	now := time.Since(w.began)
	then := (now + d) / 64 * 64
	time.Sleep(then + 64 + time.Duration(residue) - now)
}

func (w *deviceWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed(format, args...)
}

// failed is fail with w.mu held.
func (w *deviceWorld) failed(format string, args ...any) {
	if w.failures++; w.failures < 10 {
		w.t.Errorf(format, args...)
	}
	w.left = 0
}

// use acquires slots again and again.
func (w *deviceWorld) use(u *deviceUser, rng *rand.Rand) {
	for {
		w.at(upTo(rng, time.Millisecond), u.number)
		w.mu.Lock()
		u.struck = false
		w.mu.Unlock()
		_ = zk.Repeat(w.t.Context(), func() error { // on a broken connection, the call would join late
			_, _, err := u.client.Exists(w.t.Context(), "/")
			return err
		})
		w.at(0, u.number)
		ctx, kill := context.WithCancel(w.t.Context())
		w.mu.Lock()
		if w.left <= 0 {
			w.mu.Unlock()
			kill()
			return
		}
		if u.struck {
			w.mu.Unlock()
			kill()
			continue
		}
		w.calls++
		u.kill, u.rejoins = kill, false
		g := deviceGrant{call: w.calls, before: len(w.grants)}
		w.mu.Unlock()
		w.job(ctx, u, rng, g)
		kill()
	}
}

// job acquires slots once, works, and releases them.
func (w *deviceWorld) job(ctx context.Context, u *deviceUser, rng *rand.Rand, g deviceGrant) {
	size, wishes := 1+rng.IntN(devices), []int{rng.IntN(devices+2) - 1, rng.IntN(devices)}
	asked := size
	if w.alone {
		asked = devices
	}
	acquire := holdfast.NewSlots(u.client, lockPath, devices).Acquire
	waiting := ctx
	switch rng.IntN(20) {
	case 0:
		acquire = holdfast.NewSlots(u.client, lockPath, devices).TryAcquire
	case 1: // it gives up, mostly
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, upTo(rng, 20*time.Millisecond))
		defer cancel()
	}
	h, err := acquire(waiting, asked, wishes[:rng.IntN(3)]...)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case errors.Is(err, holdfast.ErrLocked):
			w.ended["locked"]++
		case ctx.Err() != nil:
			w.ended["killed"]++
		case errors.Is(err, context.DeadlineExceeded):
			w.ended["given up"]++
		case errors.Is(err, zk.ErrSessionExpired) && u.rejoins: // of a try
			w.ended["expired"]++
		default:
			w.failed("user %d: %v", u.number, err)
		}
		return
	}
	w.take(u, h, g, asked)
	from := time.Now()
	work := time.NewTimer(time.Millisecond + upTo(rng, 19*time.Millisecond))
	defer work.Stop()
	select {
	case <-work.C:
		w.at(0, users+u.number)
	case <-h.Lost():
	case <-ctx.Done():
	}
	w.leave(u, h, time.Duration(size)*time.Since(from))
	if err := h.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		w.fail("user %d: %v", u.number, err)
	}
}

// take notes that u has slots, unless it is dead by now.
func (w *deviceWorld) take(u *deviceUser, h *holdfast.Hold, g deviceGrant, size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left--
	g.token, g.rejoins = h.Token(), u.rejoins
	w.grants = append(w.grants, g)
	numbers := h.Slots()
	if len(numbers) != size || !slices.IsSorted(numbers) || numbers[0] < 0 || numbers[size-1] >= devices || len(slices.Compact(numbers)) != size {
		w.failed("slots %v; want %d of %d", h.Slots(), size, devices)
		return
	}
	u.hold = h
	for _, i := range numbers {
		if o := w.owner[i]; o != nil {
			w.failed("slot %d belongs to user %d and to user %d", i, o.number, u.number)
		}
		w.owner[i] = u
	}
}

// leave notes that u works no more, whether it releases its slots, has lost them or is dead.
func (w *deviceWorld) leave(u *deviceUser, h *holdfast.Hold, busy time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy += busy
	w.vacate(u, h)
}

// vacate is leave with w.mu held.
func (w *deviceWorld) vacate(u *deviceUser, h *holdfast.Hold) {
	if u.hold == nil || u.hold != h {
		return
	}
	u.hold = nil
	for i, o := range w.owner {
		if o == u {
			w.owner[i] = nil
		}
	}
}

// strike ends sessions until done is closed: of a process that dies, or of one that goes on. Now and then, it breaks all
// connections.
func (w *deviceWorld) strike(all []*deviceUser, rng *rand.Rand, done chan struct{}) {
	for {
		w.at(50*time.Millisecond+upTo(rng, 100*time.Millisecond), 2*users)
		select {
		case <-done:
			return
		default:
		}
		if rng.IntN(20) == 0 {
			w.mu.Lock()
			for _, u := range all {
				u.struck = true
			}
			w.mu.Unlock()
			w.srv.CloseClientConnections()
			continue
		}
		u := all[rng.IntN(len(all))]
		session, err := u.client.Session(w.t.Context())
		if err != nil {
			w.fail("user %d: %v", u.number, err)
			return
		}
		w.mu.Lock()
		w.vacate(u, u.hold) // its slots are free from now on
		u.rejoins, u.struck = true, true
		if kill := u.kill; kill != nil && rng.IntN(2) == 0 {
			kill()
		}
		w.mu.Unlock()
		w.srv.Expire(session.ID())
	}
}

// run lets the callers acquire slots n times, and returns the share of the time of all slots for which they were used.
func (w *deviceWorld) run(n int, seed uint64) (used float64) {
	w.began, w.left, w.ended = time.Now(), n, make(map[string]int)
	var mu sync.Mutex
	faulty := rand.New(rand.NewPCG(seed, 1))
	for op, faults := range map[zkproto.Op][]zktest.Action{
		zkproto.OpCreate2: {zktest.DropReply}, // the place exists from the call on
		zkproto.OpMulti:   {zktest.DropRequest, zktest.DropReply},
		zkproto.OpDelete:  {zktest.DropRequest, zktest.DropReply},
	} {
		w.srv.Intercept(op, func(string) zktest.Action {
			mu.Lock()
			defer mu.Unlock()
			if faulty.IntN(1000) == 0 {
				return faults[faulty.IntN(len(faults))]
			}
			return zktest.Pass
		})
	}
	var all []*deviceUser
	for i := range users {
		all = append(all, &deviceUser{number: i, client: client(w.t, w.srv)})
	}
	var working, striking sync.WaitGroup
	done := make(chan struct{})
	striking.Go(func() { w.strike(all, rand.New(rand.NewPCG(seed, 2)), done) })
	for i, u := range all {
		working.Go(func() { w.use(u, rand.New(rand.NewPCG(seed, uint64(3+i)))) })
	}
	working.Wait()
	used = float64(w.busy) / float64(devices*time.Since(w.began))
	close(done)
	striking.Wait()
	w.srv.Intercept(zkproto.OpDelete, nil)
	w.srv.Intercept(zkproto.OpMulti, nil)
	w.srv.Intercept(zkproto.OpCreate2, nil)
	time.Sleep(time.Minute)
	synctest.Wait()
	wantOf(w.t, holdfast.NewSlots(all[0].client, lockPath, devices), devices, devices)
	for _, u := range all {
		wantNodes(w.t, u.client, 0)
	}
	return used
}

// judge checks the order of the acquisitions, and returns the longest wait in turns of others.
func (w *deviceWorld) judge() (longest int) {
	slices.SortFunc(w.grants, func(a, b deviceGrant) int { return int(a.token - b.token) })
	latest := 0 // of the calls so far
	for i, g := range w.grants {
		if !g.rejoins {
			if latest > g.call {
				w.failed("call %d was served before call %d", latest, g.call)
			}
			longest = max(longest, i-g.before)
		}
		latest = max(latest, g.call)
	}
	if longest > users-1 {
		w.failed("a caller waited for %d turns of others; want at most %d", longest, users-1)
	}
	return longest
}

// Sixteen callers want one to eight of eight slots. No slot has two owners, none is lost, and callers are served in the
// order of their calls, whatever they ask for. So none waits for more than one turn of each other caller.
func TestDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	run := func(n int, seed uint64, alone bool) (used float64) {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer()
			defer srv.Close()
			w := &deviceWorld{t: t, srv: srv, alone: alone}
			used = w.run(n, seed)
			longest := w.judge()
			t.Logf("figure: %d acquisitions by %d callers in %v of virtual time; %v; at most %d turns of others waited for",
				len(w.grants), users, time.Since(w.began).Round(time.Second), w.ended, longest)
			for _, end := range []string{"locked", "given up", "killed"} {
				if w.ended[end] == 0 {
					t.Errorf("no call was %s: the test shows nothing", end)
				}
			}
		})
		return used
	}
	together := run(*deviceOperations, 1, false)
	alone := run(min(*deviceOperations, 50_000), 2, true)
	t.Logf("figure: the slots are in use for %s of the time; with one job at a time, for %s", percent(together), percent(alone))
	if together <= alone {
		t.Error("several jobs at once use the slots no better than one at a time")
	}
}

func percent(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) }
