package deadlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/deadlock"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

var cycles = flag.Int("cycles", 150, "random cycles in TestOneVictimInEachCycle, and states in TestNoVictimWithoutACycle")

// within is how long a cycle lasts at most.
const within = 3 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A kind of lock.
type kind int

const (
	mutex kind = iota
	kazooMutex
	writer
	readers // held by a reader; waiters are writers
	semaphore
	slots
	permits // held by one that has one of three; waiters need all
	pair    // the same with two slots
	tree
	kinds
)

func pathOf(i int) string { return fmt.Sprintf("/locks/lock%d", i) }

// of returns the lock with a number for those who hold it, or for those who wait for it.
func (k kind) of(c *zk.Client, i int, waits bool, opts ...holdfast.Option) holdfast.Locker {
	path := pathOf(i)
	switch k {
	case kazooMutex:
		return holdfast.NewMutex(c, path, append(opts, holdfast.WithLayout(layout.Kazoo))...)
	case writer:
		return holdfast.NewRWMutex(c, path, opts...)
	case readers:
		if rw := holdfast.NewRWMutex(c, path, opts...); waits {
			return rw
		} else {
			return rw.RLocker()
		}
	case semaphore:
		return holdfast.NewSemaphore(c, path, 2, opts...).Locker(2)
	case slots:
		return holdfast.NewSlots(c, path, 1, opts...).Locker(1)
	case permits:
		return holdfast.NewSemaphore(c, path, 3, opts...).Locker(map[bool]int{false: 1, true: 3}[waits])
	case pair:
		return holdfast.NewSlots(c, path, 2, opts...).Locker(map[bool]int{false: 1, true: 2}[waits])
	case tree:
		return holdfast.NewTree(c, path, opts...).Path("src/main.go")
	}
	return holdfast.NewMutex(c, path, opts...)
}

// A member of a cycle holds lock i, and waits for the next one.
type member struct {
	client  *zk.Client
	yields  bool
	foreign bool
	hold    *holdfast.Hold
	node    string // of a foreign member, its place in the lock that it holds
	began   time.Time
}

// A circle is a cycle of waits on a server.
type circle struct {
	*testing.T
	ctx     context.Context
	kinds   []kind
	members []*member
	done    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	got     int        // members of ours that have both locks
	victims []int
	at      time.Time // when the victim gave up
	err     *deadlock.Error
}

// join makes a node as the library of the lock's layout does.
func (c *circle) join(m *member, i int) string {
	prefix := "_c_6f8f5f0e-6d0c-4ee4-a6d1-a4b2e1b0c6f5-lock-"
	if c.kinds[i] == kazooMutex {
		prefix = "0123456789abcdef0123456789abcdef__lock__"
	}
	must(c.T, m.client.CreateAll(c.ctx, pathOf(i)))
	node, _, err := m.client.Create(c.ctx, pathOf(i)+"/"+prefix, nil, zk.EphemeralSequential)
	must(c.T, err)
	return node
}

// isForeign reports whether a client of another library can use the lock.
func (k kind) isForeign() bool { return k == mutex || k == kazooMutex }

// plant makes the members and their first locks.
func plant(ctx context.Context, t *testing.T, srv *zktest.Server, rng *rand.Rand, n int) *circle {
	c := &circle{T: t, ctx: ctx}
	for range n {
		c.kinds = append(c.kinds, kind(rng.IntN(int(kinds))))
	}
	sure := rng.IntN(n)
	for i := range n {
		m := &member{client: srv.Client(), yields: i == sure || rng.IntN(2) == 0}
		if i != sure && c.kinds[i].isForeign() && c.kinds[(i+1)%n].isForeign() && rng.IntN(2) == 0 {
			m.yields, m.foreign = false, true
			m.node = c.join(m, i)
		} else {
			h, err := c.kinds[i].of(m.client, i, false, holdfast.WithOwner(fmt.Sprint("member", i))).Lock(ctx)
			must(t, err)
			m.hold = h
		}
		c.members = append(c.members, m)
	}
	return c
}

// wait begins the wait of a member.
func (c *circle) wait(i int) {
	m, next := c.members[i], (i+1)%len(c.members)
	m.began = time.Now()
	if m.foreign {
		node := c.join(m, next)
		c.done.Go(func() { c.proceed(m, node) })
		return
	}
	opts := []holdfast.Option{holdfast.WithOwner(fmt.Sprint("member", i))}
	if m.yields {
		opts = append(opts, deadlock.Detect())
	}
	c.done.Go(func() {
		h, err := c.kinds[next].of(m.client, next, true, opts...).Lock(m.hold.Context())
		c.mu.Lock()
		var found *deadlock.Error
		switch {
		case err == nil:
			c.got++
		case errors.As(err, &found) && errors.Is(err, holdfast.ErrDeadlock):
			c.victims, c.at, c.err = append(c.victims, i), time.Now(), found
		default:
			c.Errorf("member %d: %v", i, err)
		}
		c.mu.Unlock()
		if err == nil {
			must(c.T, h.Unlock())
		}
		must(c.T, m.hold.Unlock())
	})
}

// gaveUp returns the error of the first victim, or nil.
func (c *circle) gaveUp() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// proceed removes both nodes of a foreign member when it holds the second lock.
func (c *circle) proceed(m *member, node string) {
	dir := node[:strings.LastIndexByte(node, '/')]
	for {
		names, _, err := m.client.Children(c.ctx, dir)
		must(c.T, err)
		first := true
		for _, name := range names {
			first = first && name[len(name)-10:] >= node[len(node)-10:]
		}
		if first {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	must(c.T, m.client.Delete(c.ctx, node, zk.AnyVersion))
	must(c.T, m.client.Delete(c.ctx, m.node, zk.AnyVersion))
}

// In a cycle of waits, the youngest wait with the option gives up within three seconds, and nobody else. All others get both
// of their locks, also those of other libraries, whose nodes nobody removes.
func TestOneVictimInEachCycle(t *testing.T) {
	for seed := range uint64(*cycles) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			srv := zktest.NewServer()
			defer srv.Close()
			n := 2 + int(seed%4)
			c := plant(t.Context(), t, srv, rng, n)
			order, victim, ours := rng.Perm(n), -1, 0
			for at, i := range order {
				c.wait(i)
				synctest.Wait()
				if m := c.members[i]; m.yields {
					victim = i
				}
				if !c.members[i].foreign {
					ours++
				}
				if early := c.gaveUp(); early != nil && at < n-1 {
					t.Fatalf("seed %d: %v gives up before there is a cycle", seed, early)
				}
				if at < n-1 {
					time.Sleep([]time.Duration{0, 700 * time.Millisecond, 3 * time.Second, 5 * time.Minute}[rng.IntN(4)])
				}
			}
			closed := time.Now()
			over := make(chan struct{})
			go func() {
				c.done.Wait()
				close(over)
			}()
			select {
			case <-over:
			case <-time.After(time.Minute):
				t.Fatalf("seed %d: kinds %v: the cycle lasts; victims %v, want %d", seed, c.kinds, c.victims, victim)
			}
			if len(c.victims) != 1 || c.victims[0] != victim || c.got != ours-1 {
				t.Fatalf("seed %d: kinds %v: victims %v, want %d; %d of %d members get their locks", seed, c.kinds, c.victims, victim, c.got, ours)
			}
			if took := c.at.Sub(closed); took > within {
				t.Fatalf("seed %d: the victim gives up after %v", seed, took)
			}
			if got := c.err; len(got.Waits) != n || got.Waits[0].Waiter != fmt.Sprint("member", victim) || !strings.Contains(got.Error(), "member") {
				t.Fatalf("seed %d: %v", seed, got)
			}
			if got := c.err.Release; !strings.HasPrefix(got, pathOf(victim)) {
				t.Fatalf("seed %d: release %s, want %s", seed, got, pathOf(victim))
			}
		})
	}
}

// Callers that take locks in one order are in no cycle, and nobody gives up.
func TestNoVictimWithoutACycle(t *testing.T) {
	for seed := range uint64(*cycles) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			srv := zktest.NewServer()
			defer srv.Close()
			n := 3 + rng.IntN(4)
			all := make([]kind, n)
			for i := range all {
				all[i] = kind(rng.IntN(int(kinds)))
			}
			var done sync.WaitGroup
			for range 2 + rng.IntN(5) {
				c, r := srv.Client(), rand.New(rand.NewPCG(rng.Uint64(), 3))
				done.Go(func() {
					ctx, from := t.Context(), 0
					var held []*holdfast.Hold
					for from < n {
						i := from + r.IntN(n-from)
						h, err := all[i].of(c, i, r.IntN(2) == 0, deadlock.Detect()).Lock(ctx)
						if err != nil {
							t.Errorf("seed %d: %v", seed, err)
							break
						}
						held, ctx, from = append(held, h), h.Context(), i+1
						time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
					}
					for _, h := range held {
						must(t, h.Unlock())
					}
				})
			}
			done.Wait()
		})
	}
}

// A waiter for one permit is behind one that needs all three, so it waits for the holder of one permit, though two are free. If
// that holder waits for a lock of the waiter, the cycle has three members, and any of them can be the victim.
func TestACycleOverTheQueueOfASemaphore(t *testing.T) {
	for _, victim := range []string{"behind", "large", "holder"} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer()
			opts := func(name string) []holdfast.Option {
				if name == victim {
					return []holdfast.Option{holdfast.WithOwner(name), deadlock.Detect()}
				}
				return []holdfast.Option{holdfast.WithOwner(name)}
			}
			large, behind, holder := srv.Client(), srv.Client(), srv.Client()
			permits := func(c *zk.Client, name string, n int) holdfast.Locker {
				return holdfast.NewSemaphore(c, pathOf(0), 3, opts(name)...).Locker(n)
			}
			one, err := permits(holder, "holder", 1).Lock(t.Context())
			must(t, err)
			b, err := mutex.of(behind, 1, false).Lock(t.Context())
			must(t, err)
			var closed time.Time // when the cycle has
			var done sync.WaitGroup
			wait := func(ctx context.Context, name string, l holdfast.Locker, held *holdfast.Hold) {
				done.Go(func() {
					h, err := l.Lock(ctx)
					var cycle *deadlock.Error
					switch {
					case name != victim && err != nil:
						t.Errorf("%s: %v", name, err)
					case name != victim:
						must(t, h.Unlock())
					case !errors.As(err, &cycle) || len(cycle.Waits) != 3 || cycle.Waits[0].Waiter != victim:
						t.Errorf("%s: %v; want a deadlock of three", name, err)
					case time.Since(closed) > within:
						t.Errorf("%s gives up after %v", name, time.Since(closed))
					}
					if held != nil {
						_ = held.Unlock()
					}
				})
				synctest.Wait()
			}
			wait(t.Context(), "large", permits(large, "large", 3), nil)
			wait(b.Context(), "behind", permits(behind, "behind", 1), b)
			time.Sleep(time.Minute)
			closed = time.Now()
			wait(one.Context(), "holder", holdfast.NewMutex(holder, pathOf(1), opts("holder")...), one)
			over := make(chan struct{})
			go func() {
				done.Wait()
				close(over)
			}()
			select {
			case <-over:
			case <-time.After(time.Minute):
				t.Errorf("%s: the cycle lasts", victim)
			}
			srv.Close()
			<-over
		})
	}
}

// A lock of another goroutine of the client is not the caller's: the context of the wait does not descend from its Hold.
func TestALockOfAnotherCallerDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c, other := srv.Client(), srv.Client()
		a, err := mutex.of(c, 0, false).Lock(t.Context())
		must(t, err)
		b, err := mutex.of(other, 1, false).Lock(t.Context())
		must(t, err)
		var done sync.WaitGroup
		done.Go(func() {
			h, err := mutex.of(other, 0, true).Lock(b.Context())
			must(t, err)
			must(t, h.Unlock())
			must(t, b.Unlock())
		})
		done.Go(func() {
			h, err := mutex.of(c, 1, true, deadlock.Detect()).Lock(t.Context())
			must(t, err)
			must(t, h.Unlock())
		})
		time.Sleep(time.Minute)
		must(t, a.Unlock())
		done.Wait()
	})
}

// The earlier locks of a MultiLock are the caller's, while it waits for the next one.
func TestTheEarlierLocksOfAMultiLockCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c, other := srv.Client(), srv.Client()
		b, err := mutex.of(other, 1, false).Lock(t.Context())
		must(t, err)
		var done sync.WaitGroup
		done.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := holdfast.NewMultiLock(mutex.of(c, 0, true, deadlock.Detect()), mutex.of(c, 1, true, deadlock.Detect())).Lock(ctx)
			if !errors.Is(err, holdfast.ErrDeadlock) {
				t.Errorf("%v; want a deadlock", err)
			}
		})
		synctest.Wait()
		h, err := mutex.of(other, 0, true).Lock(b.Context())
		must(t, err)
		must(t, h.Unlock())
		must(t, b.Unlock())
		done.Wait()
	})
}

// The locks of a cycle can be in several directories.
func TestLocksInSeveralDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c, other := srv.Client(), srv.Client()
		permit := func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewSemaphore(c, "/pools/pool", 1, opts...).Locker(1)
		}
		a, err := mutex.of(c, 0, false).Lock(t.Context())
		must(t, err)
		b, err := permit(other).Lock(t.Context())
		must(t, err)
		var done sync.WaitGroup
		done.Go(func() {
			ctx, cancel := context.WithTimeout(a.Context(), within)
			defer cancel()
			if _, err := permit(c, deadlock.Detect()).Lock(ctx); !errors.Is(err, holdfast.ErrDeadlock) {
				t.Errorf("%v; want a deadlock", err)
			}
			must(t, a.Unlock())
		})
		h, err := mutex.of(other, 0, true).Lock(b.Context())
		must(t, err)
		must(t, h.Unlock())
		must(t, b.Unlock())
		done.Wait()
	})
}

// A wait whose node has no mark, or that shares a node with others, cannot be the victim. So the options are refused.
func TestOptionsThatHideTheMarkAreRefused(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	for _, opt := range []holdfast.Option{holdfast.WithValue([]byte("x")), holdfast.WithLocalHandoff(2), holdfast.WithKeep(time.Second)} {
		if _, err := holdfast.NewMutex(srv.Client(), "/a", opt, deadlock.Detect()).TryLock(t.Context()); !errors.Is(err, zk.ErrBadArguments) || !strings.Contains(err.Error(), "do not go together") {
			t.Errorf("%v; want both options refused", err)
		}
	}
	if _, err := holdfast.NewNodeLock(srv.Client(), "/b", deadlock.Detect()).TryLock(t.Context()); !errors.Is(err, zk.ErrBadArguments) {
		t.Errorf("%v; want a refusal", err)
	}
}
