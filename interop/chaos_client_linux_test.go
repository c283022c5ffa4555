package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

// A chaosClient is a process that takes locks of every kind, over and over, and records what it
// was told and when. It stops when its standard input ends.
type chaosClient struct {
	Process int // starting at 1
	Servers []string
	Timeout time.Duration // session timeout
	Tick    time.Duration
	Clients int // clients of package zk, each with its own session
	Workers int
	Dir     string // directory for its files
	Shared  string // directory of the files that all processes write
	Seed    uint64

	clients  []*zk.Client
	sessions []*atomic.Int64 // the current session of each client
	log      *chaos.Log

	mu            sync.Mutex // guards the files
	events, lines *json.Encoder
}

// A chaosEvent is an event of a session, of the process, or of the data that the locks guard.
type chaosEvent struct {
	At      time.Duration `json:"at"`
	What    string        `json:"what"`
	Session int64         `json:"session,omitempty"`
	For     time.Duration `json:"for,omitempty"`   // duration of a stall
	Value   int64         `json:"value,omitempty"` // written to a store
	Read    int64         `json:"read,omitempty"`  // the value before Value
	Count   int           `json:"count,omitempty"` // number of leftovers
	Text    string        `json:"text,omitempty"`
	Lock    string        `json:"lock,omitempty"`
	By      string        `json:"by,omitempty"`
}

// Kinds of events.
const (
	chaosDisconnected = "disconnected"
	chaosOver         = "session over"
	chaosStalled      = "stalled" // the scheduler did not run the process for a while
	chaosGoroutines   = "goroutines left"
	chaosFiles        = "file descriptors left"
	chaosDone         = "done"
)

// generation is how long a lock's name is used. Histories that end can be checked exactly.
const generation = 12 * time.Second

// monotonic returns the time of the one clock that all processes of this machine share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// runChaosClient runs the process; path is the path of its description.
func runChaosClient(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c chaosClient
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	return c.run()
}

func (c *chaosClient) run() error {
	history, err := os.Create(filepath.Join(c.Dir, "history"))
	if err != nil {
		return err
	}
	events, err := os.Create(filepath.Join(c.Dir, "events"))
	if err != nil {
		return err
	}
	c.events = json.NewEncoder(events)
	// Each line is written at once: the process may be killed at any time.
	c.lines = json.NewEncoder(history)
	c.log = chaos.NewLog(monotonic, c.Process*10_000_000, c.line)
	goroutines, files := runtime.NumGoroutine(), openFiles()

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range c.Clients {
		if err := c.dial(ctx); err != nil {
			stop()
			return err
		}
	}
	for i := range c.Workers {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		wg.Go(func() { c.work(ctx, i, rng) })
	}
	for i := range 4 {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(1000+i)))
		wg.Go(func() { c.sit(ctx, i, rng) })
	}
	for i := range 2 {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(2000+i)))
		wg.Go(func() { c.share(ctx, i, rng) })
	}
	for i := range newestCallers {
		rng := rand.New(rand.NewPCG(c.Seed, uint64(4000+i)))
		wg.Go(func() { c.arrive(ctx, i, rng) })
	}
	wg.Go(func() { c.dine(ctx, rand.New(rand.NewPCG(c.Seed, 3000))) })
	wg.Go(func() { c.lead(ctx, rand.New(rand.NewPCG(c.Seed, 4000))) })
	wg.Go(func() { c.account(ctx) })
	wg.Go(func() { c.watchScheduler(ctx) })
	io.Copy(io.Discard, os.Stdin)
	stop()
	wg.Wait()
	var errs []error
	for _, z := range c.clients {
		errs = append(errs, z.Close())
	}
	c.leaves(goroutines, files)
	c.event(chaosEvent{What: chaosDone})
	return errors.Join(errs...)
}

// leaves records the leftovers, some time after everything was closed.
func (c *chaosClient) leaves(goroutines, files int) {
	var g, f int
	for range 100 {
		g, f = runtime.NumGoroutine()-goroutines, openFiles()-files
		if g <= 0 && f <= 0 {
			break
		}
		time.Sleep(50 * time.Millisecond) // no event reports this
	}
	stacks := ""
	if g > 0 {
		b := make([]byte, 64<<10)
		stacks = string(b[:runtime.Stack(b, true)])
	}
	c.event(chaosEvent{What: chaosGoroutines, Count: g, Text: stacks})
	c.event(chaosEvent{What: chaosFiles, Count: f})
}

func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(names)
}

// line adds an operation to the history.
func (c *chaosClient) line(o chaos.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.lines.Encode(o); err != nil {
		panic(err)
	}
}

// releasing is recorded before Unlock is called. The release itself is recorded when Unlock has
// returned, and the process may be killed in between.
const releasing chaos.Kind = "releasing"

// unlock ends a claim of this many locks.
func (c *chaosClient) unlock(claim *chaos.Claim, locks int) error {
	for i := range locks {
		c.line(chaos.Op{Kind: releasing, Claim: claim.ID() + i, Call: monotonic()})
	}
	return claim.Unlock()
}

func (c *chaosClient) event(e chaosEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.At == 0 {
		e.At = monotonic()
	}
	if err := c.events.Encode(e); err != nil {
		panic(err)
	}
}

func (c *chaosClient) dial(ctx context.Context) error {
	present := new(atomic.Int64)
	z, err := zk.Dial(ctx, zk.Config{
		Servers: c.Servers, SessionTimeout: c.Timeout, TickTime: c.Tick,
		Trace: &zk.Trace{
			SessionCreated: func(session int64, _ time.Duration) { present.Store(session) },
			Disconnected: func(session int64, cause error) {
				c.event(chaosEvent{What: chaosDisconnected, Session: session, Text: fmt.Sprint(cause)})
			},
			SessionOver: func(session int64, cause error) {
				if !errors.Is(cause, zk.ErrClosed) {
					c.event(chaosEvent{What: chaosOver, Session: session, Text: fmt.Sprint(cause)})
				}
			},
		},
	})
	if err != nil {
		return err
	}
	c.clients, c.sessions = append(c.clients, z), append(c.sessions, present)
	return nil
}

// stallNoted is the shortest pause of the process that is recorded. It is less than the guard of every
// deadline.
const stallNoted = 100 * time.Millisecond

// watchScheduler records when the process was not run.
func (c *chaosClient) watchScheduler(ctx context.Context) {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for last := monotonic(); ; {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		now := monotonic()
		if d := now - last; d > stallNoted {
			c.event(chaosEvent{At: last, What: chaosStalled, For: d})
		}
		last = now
	}
}

// work takes one lock after the other.
func (c *chaosClient) work(ctx context.Context, worker int, rng *rand.Rand) {
	for ctx.Err() == nil {
		if err := c.turn(ctx, worker, rng); err != nil {
			// Refused or not connected: leave the processor to others.
			pause(ctx, time.Duration(1+rng.IntN(5))*time.Millisecond)
		}
	}
}

// chaosLocks is how many locks of a type there are.
const chaosLocks = 3

// chaosPath returns the path of a lock in the current generation.
func chaosPath(typ string, i int) string {
	return fmt.Sprintf("/chaos/%d/%s-%d", monotonic()/generation, typ, i)
}

// chaosPrivate names the locks that only one worker takes. They show that the recipes survive
// the faults, and nothing about mutual exclusion.
const chaosPrivate = "private"

func isPrivate(lock string) bool { return strings.Contains(lock, "/"+chaosPrivate+"-") }

// permitLimit is the limit of every semaphore.
const permitLimit = 3

// keepsFor is how long clients keep a mutex, or the write side of a lock, after Unlock.
var keepsFor = [chaosLocks]time.Duration{0, 50 * time.Millisecond, 2 * time.Second}

// turn takes one lock of some kind, holds it for a moment and releases it.
func (c *chaosClient) turn(ctx context.Context, worker int, rng *rand.Rand) error {
	z, client := c.clients[worker%len(c.clients)], c.Process*1000+worker
	a := chaos.Attempt{Client: client, Try: rng.IntN(6) == 0, Session: c.sessions[worker%len(c.clients)].Load}
	one := func(path string, typ chaos.LockType) { a.Locks = []chaos.Op{{Lock: path, Type: typ}} }
	i := rng.IntN(chaosLocks)
	var l holdfast.Locker
	switch rng.IntN(13) {
	case 0:
		path := chaosPath("mutex", i)
		one(path, chaos.Mutex)
		a.Locks[0].Keep = keepsFor[i]
		l = holdfast.NewMutex(z, path, holdfast.WithKeep(keepsFor[i]))
	case 1:
		path := chaosPath("rw", i)
		one(path, chaos.ReadWrite)
		m := holdfast.NewRWMutex(z, path, holdfast.WithKeep(keepsFor[i]))
		l = m
		a.Locks[0].Keep = keepsFor[i]
		if rng.IntN(3) > 0 {
			a.Locks[0].Keep = 0
			a.Locks[0].Shared = true
			l = m.RLocker()
		}
	case 2:
		path := chaosPath("semaphore", i)
		one(path, chaos.Semaphore)
		n := 1 + rng.IntN(2)
		a.Locks[0].Permits, a.Locks[0].Limit = n, permitLimit
		s := holdfast.NewSemaphore(z, path, permitLimit)
		l = lockFuncs{func(ctx context.Context) (*holdfast.Hold, error) { return s.Acquire(ctx, n) },
			func(ctx context.Context) (*holdfast.Hold, error) { return s.TryAcquire(ctx, n) }}
	case 3:
		path := chaosPath("election", i)
		one(path, chaos.Election)
		e := holdfast.NewElection(z, path)
		if rng.IntN(3) == 0 {
			return c.observe(ctx, client, e, path)
		}
		a.Try = false
		l = lockFuncs{lock: func(ctx context.Context) (*holdfast.Hold, error) { return e.Campaign(ctx, []byte(fmt.Sprint(client))) }}
	case 4:
		path := chaosPath("node", i)
		one(path, chaos.Mutex)
		l = holdfast.NewNodeLock(z, path)
	case 5:
		var parts []holdfast.Locker
		for j := range 2 {
			path := chaosPath("mutex", j) // other workers take this one alone
			a.Locks = append(a.Locks, chaos.Op{Lock: path, Type: chaos.Mutex})
			parts = append(parts, holdfast.NewMutex(z, path))
		}
		l = holdfast.NewMultiLock(parts...)
	case 6:
		path := chaosPath("slots", i)
		one(path, chaos.Semaphore)
		a.Locks[0].Limit, a.Locks[0].Permits = slotCount, 1+rng.IntN(slotCount)
		wish := rng.IntN(slotCount+2) - 1 // sometimes none, and sometimes one that does not exist
		l = holdfast.NewSlots(z, path, slotCount).Locker(a.Locks[0].Permits, wish)
	case 7, 8:
		path, below := chaosPath("tree", i), treePaths[rng.IntN(len(treePaths))]
		a.Tree, a.Locks = true, chaos.TreeLocks(path, below)
		l = holdfast.NewTree(z, path).Path(below)
	case 9:
		return c.once(ctx, z, client, []string{"once", "most"}[rng.IntN(2)], rng)
	default: // a lock that no other worker wants
		path := chaosPath(chaosPrivate, client)
		one(path, chaos.Mutex)
		l = holdfast.NewMutex(z, path)
	}
	lock := l.Lock
	if a.Try {
		lock = l.TryLock
	}
	// Some waiters give up early.
	patience := 10 * time.Second
	if rng.IntN(10) == 0 {
		patience = time.Duration(rng.Int64N(int64(100 * time.Millisecond)))
	}
	waitCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	claim, err := c.log.Acquire(waitCtx, a, lock)
	if err != nil {
		return err
	}
	if numbers := claim.Slots(); numbers != nil && (len(numbers) != a.Locks[0].Permits || slices.Max(numbers) >= slotCount) {
		c.odd(fmt.Errorf("%s: slots %v; want %d of %d", a.Locks[0].Lock, numbers, a.Locks[0].Permits, slotCount))
	}
	held := time.Duration(rng.Int64N(int64(3 * time.Millisecond)))
	if rng.IntN(80) == 0 {
		held = time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
	}
	pause(claim.Context(), held)
	return c.unlock(claim, len(a.Locks))
}

// sit holds a lock for as long as a fault lasts, while another process waits for it. Only such claims can
// outlive their sessions.
func (c *chaosClient) sit(ctx context.Context, i int, rng *rand.Rand) {
	z, session := c.clients[i%len(c.clients)], c.sessions[i%len(c.clients)]
	for ctx.Err() == nil {
		path := chaosPath("seat", i)
		a := chaos.Attempt{
			Client: c.Process*1000 + 900 + i, Session: session.Load,
			Locks: []chaos.Op{{Lock: path, Type: chaos.Mutex}},
		}
		lock := holdfast.NewMutex(z, path).Lock
		if i == 0 {
			lock = holdfast.NewNodeLock(z, path).Lock
		}
		claim, err := c.log.Acquire(ctx, a, lock)
		if err != nil {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		held, cancel := context.WithCancel(claim.Context())
		stop := context.AfterFunc(ctx, cancel)
		pause(held, time.Second+time.Duration(rng.Int64N(int64(6*time.Second))))
		stop()
		cancel()
		c.unlock(claim, 1)
	}
}

// observe asks for the leader.
func (c *chaosClient) observe(ctx context.Context, client int, e *holdfast.Election, path string) error {
	o := chaos.Op{Client: client, Kind: chaos.Observe, Lock: path, Type: chaos.Election, Call: c.log.Now(), Outcome: chaos.OK}
	l, err := e.Leader(ctx)
	if err != nil {
		return err
	}
	o.Return, o.Token = c.log.Now(), l.Term
	c.log.Add(o)
	return nil
}

// lockFuncs is a Locker made of two functions.
type lockFuncs struct {
	lock, try func(context.Context) (*holdfast.Hold, error)
}

func (l lockFuncs) Lock(ctx context.Context) (*holdfast.Hold, error)    { return l.lock(ctx) }
func (l lockFuncs) TryLock(ctx context.Context) (*holdfast.Hold, error) { return l.try(ctx) }

func init() { moreCommands["chaos"] = runChaosClient }
