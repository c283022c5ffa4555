package interop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/deadlock"
	"holdfast/once"
	"holdfast/shards"
	"holdfast/zk"
)

// Kinds of lock whose holders are not given a Hold of one node: slots, trees, keys that run once, shards.

// slotCount is how many slots every Slots has.
const slotCount = 3

func isSlots(lock string) bool { return strings.Contains(lock, "/slots-") }

// treePaths are the paths that are locked in each Tree.
var treePaths = []string{"", "a", "a/b", "a/c"}

// onceTypes are the directories of the two ways of a Once in a generation.
var onceTypes = map[string]chaos.LockType{"once": chaos.Once, "most": chaos.AtMostOnce}

// onceEvery is how often there is a new key.
const onceEvery = time.Second

// onceKey returns a key that others want now.
func onceKey() string {
	return strconv.FormatInt(int64((monotonic()-rand.N(onceEvery/2))/onceEvery), 10)
}

// onceLock is the directory of a key, whose queue is that of a Mutex.
func onceLock(once, key string) string {
	return fmt.Sprintf("%s/once-%x/%s", once, sha256.Sum256([]byte(key))[0]>>4, key)
}

var errOnceFails = errors.New("the function fails")

// A onceCall is a call of Job.Do.
type onceCall struct {
	client int
	path   string // of the Once
	typ    chaos.LockType
	key    string
	lasts  time.Duration
	fails  bool
}

// do makes the call and records its run and its answer. odd says what is wrong with the call itself.
func (o onceCall) do(ctx context.Context, log *chaos.Log, z *zk.Client) (answer chaos.Op, odd error) {
	answer = chaos.Op{Client: o.client, Kind: chaos.Answer, Lock: onceLock(o.path, o.key), Type: o.typ, Call: log.Now(), Outcome: chaos.Unknown}
	calls := 0
	f := func(held context.Context) ([]byte, error) {
		calls++
		h, ok := holdfast.FromContext(held)
		if !ok || h.Tokens()[0].Path != answer.Lock {
			odd = fmt.Errorf("the function runs without the lock %s", answer.Lock)
			return nil, odd
		}
		claim := log.Begin(chaos.Op{Client: o.client, Lock: answer.Lock, Type: o.typ, Call: answer.Call}, h)
		defer claim.Leave()
		pause(held, o.lasts)
		if o.fails {
			return nil, errOnceFails
		}
		return []byte(strconv.Itoa(claim.ID())), nil
	}
	var opts []once.Option
	if o.typ == chaos.AtMostOnce {
		opts = append(opts, once.AtMostOnce())
	}
	r, err := once.New(z, o.path, opts...).Key(o.key).Do(ctx, f)
	answer.Return = log.Now()
	unknown := r.Ran || o.typ == chaos.AtMostOnce && ctx.Err() != nil
	switch {
	case odd != nil:
	case calls > 1 || r.Ran != (calls == 1):
		odd = fmt.Errorf("%d calls of the function, and Ran is %t", calls, r.Ran)
	case err == nil:
		answer.Outcome, answer.Token = chaos.OK, r.Token
		answer.Inside, odd = strconv.Atoi(string(r.Value))
	case errors.Is(err, once.ErrBegun) && !r.Ran:
		answer.Outcome, answer.Token = chaos.Failed, r.Token
	case o.fails && r.Ran && errors.Is(err, errOnceFails):
	case r.Ran && errors.Is(err, holdfast.ErrLost):
	case unknown && errors.Is(err, holdfast.ErrUncertain):
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
	default:
		odd = err
	}
	if odd != nil {
		odd = fmt.Errorf("once: %s: %w", answer.Lock, odd)
	}
	if answer.Outcome != chaos.Unknown {
		log.Add(answer)
	}
	return answer, odd
}

// once calls a Once for a key that others want, too.
func (c *chaosClient) once(ctx context.Context, z *zk.Client, client int, way string, rng *rand.Rand) error {
	o := onceCall{client: client, path: chaosPath(way, 0), typ: onceTypes[way], key: onceKey(), fails: rng.IntN(6) == 0}
	switch rng.IntN(12) {
	case 0, 4: // longer than most faults
		o.lasts = time.Duration(rng.Int64N(int64(2 * chaosTimeout)))
	case 1, 2, 3:
		o.lasts = time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
	}
	_, odd := o.do(ctx, c.log, z)
	c.odd(odd)
	return odd
}

// The shards, which stay as long as the run.
const (
	shardsPath  = "/chaos/shards"
	shardCount  = 8
	shardSettle = 300 * time.Millisecond
)

func chaosShards(z *zk.Client) *shards.Shards {
	return shards.New(z, shardsPath, shardCount, shards.WithSettle(shardSettle))
}

// shardFile names a file that exists while the claim works on a shard. For the claim "*", it is a pattern.
func shardFile(shard int, claim string) string { return fmt.Sprintf("shard-%d-%s", shard, claim) }

// share is a worker of the shards. The one with number 0 stays. The others come and go.
func (c *chaosClient) share(ctx context.Context, i int, rng *rand.Rand) {
	set := chaosShards(c.clients[i%len(c.clients)])
	for ctx.Err() == nil {
		stay, leave := context.WithCancel(ctx)
		if i > 0 {
			stay, leave = context.WithTimeout(ctx, time.Second+time.Duration(rng.Int64N(int64(6*time.Second))))
		}
		call := c.log.Now()
		err := set.Run(stay, func(held context.Context, s shards.Shard) error {
			claim := c.log.Begin(chaos.Op{Client: c.Process*1000 + 800 + i, Lock: set.Path(s.Number), Type: chaos.Mutex, Call: call}, s.Hold)
			defer claim.Leave()
			working := filepath.Join(c.Dir, shardFile(s.Number, strconv.Itoa(claim.ID())))
			defer os.Remove(working)
			if err := os.WriteFile(working, nil, 0o600); err != nil {
				return err
			}
			<-held.Done()
			select { // it takes a while to stop
			case <-time.After(rand.N(100 * time.Millisecond)):
			case <-s.Hold.Lost():
			}
			return nil
		})
		if stay.Err() == nil || !errors.Is(err, context.Cause(stay)) {
			c.odd(fmt.Errorf("shards: %w", err))
		}
		leave()
		pause(ctx, time.Duration(rng.Int64N(int64(2*time.Second))))
	}
}

// dine takes two locks in a random order, one inside the other, as one worker of each other process does. If a deadlock of
// theirs does not end, they claim nothing more.
func (c *chaosClient) dine(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		dir, order := chaosPath("dine", 0), rng.Perm(chaosLocks)
		if err := c.course(ctx, dir, order[:2], rng); err != nil && !errors.Is(err, holdfast.ErrDeadlock) {
			pause(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond))))
		}
	}
}

// course acquires the locks one after the other, and releases them.
func (c *chaosClient) course(ctx context.Context, dir string, order []int, rng *rand.Rand) error {
	if len(order) == 0 {
		return nil
	}
	path := fmt.Sprintf("%s/%d", dir, order[0])
	a := chaos.Attempt{Client: c.Process*1000 + 700, Session: c.sessions[0].Load, Locks: []chaos.Op{{Lock: path, Type: chaos.Mutex}}}
	claim, err := c.log.Acquire(ctx, a, holdfast.NewMutex(c.clients[0], path, deadlock.Detect()).Lock)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancel(claim.Context())
	stop := context.AfterFunc(ctx, cancel)
	pause(held, time.Duration(rng.Int64N(int64(50*time.Millisecond))))
	err = c.course(held, dir, order[1:], rng)
	stop()
	cancel()
	return cmp.Or(c.unlock(claim, 1), err)
}

// lead is a candidate with a preference. It comes and goes, and hands over to those that are preferred.
func (c *chaosClient) lead(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		e := holdfast.NewElection(c.clients[0], chaosPath("lead", 0), holdfast.WithPreference(rng.IntN(4), 200*time.Millisecond))
		stay, leave := context.WithTimeout(ctx, time.Second+time.Duration(rng.Int64N(int64(5*time.Second))))
		call := c.log.Now()
		err := e.Lead(stay, []byte(strconv.Itoa(c.Process)), func(held context.Context) error {
			h, _ := holdfast.FromContext(held)
			claim := c.log.Begin(chaos.Op{Client: c.Process*1000 + 600, Lock: e.Path(), Type: chaos.Mutex, Call: call}, h)
			defer claim.Leave()
			pause(held, time.Duration(rng.Int64N(int64(2*time.Second))))
			call = c.log.Now() // of the next term, if this one was lost or handed over
			return nil
		})
		if err != nil && stay.Err() == nil && !errors.Is(err, holdfast.ErrLost) {
			c.odd(fmt.Errorf("lead: %w", err))
		}
		leave()
		pause(ctx, time.Duration(rng.Int64N(int64(500*time.Millisecond))))
	}
}

// chaosOdd is an event: a call has returned something that it must not return, whatever happens.
const chaosOdd = "odd"

func (c *chaosClient) odd(err error) {
	if err != nil {
		c.event(chaosEvent{What: chaosOdd, Text: err.Error()})
	}
}

// forgotten waits until every shard has a worker at one moment, and returns those that have none. All works
// by now. Sessions of processes that were killed last still have to end, and the workers to be planned for.
func (c *chaosRun) forgotten() []string {
	ctx, cancel := context.WithTimeout(c.ctx, 2*chaosTimeout+4*chaosTick+2*shardSettle+5*time.Second)
	defer cancel()
	var idle []string
	until(ctx, "", func() bool {
		c.mu.Lock()
		processes := slices.Clone(c.processes)
		c.mu.Unlock()
		idle = nil
		for shard := range shardCount {
			if !slices.ContainsFunc(processes, func(p *chaosProcess) bool {
				files, err := filepath.Glob(filepath.Join(p.dir, shardFile(shard, "*")))
				return err == nil && len(files) > 0
			}) {
				idle = append(idle, fmt.Sprintf("shards: nobody works on shard %d when all is quiet", shard))
			}
		}
		return len(idle) == 0
	})
	return idle
}

// askAgain asks for every key of the history when all processes have ended. A key that was done has its
// result still. A key that runs at least once is done then.
func (c *chaosRun) askAgain(ops []chaos.Op) (more []chaos.Op, odd []string) {
	ctx, cancel := context.WithTimeout(c.ctx, stepTime)
	defer cancel()
	if err := c.whole(ctx); err != nil {
		return nil, []string{err.Error()}
	}
	keys := make(map[string]chaos.LockType)
	for _, o := range ops {
		if o.Type == chaos.Once || o.Type == chaos.AtMostOnce {
			keys[o.Lock] = o.Type
		}
	}
	var (
		log  = chaos.NewLog(monotonic, 1, nil)
		todo = make(chan string)
		mu   sync.Mutex // guards odd
		all  sync.WaitGroup
	)
	for range 8 {
		all.Go(func() {
			for lock := range todo {
				dir, key := filepath.Split(lock)
				a, err := onceCall{path: filepath.Dir(filepath.Clean(dir)), typ: keys[lock], key: key}.do(ctx, log, c.admin)
				if a.Outcome != chaos.OK && keys[lock] == chaos.Once || a.Outcome == chaos.Unknown {
					err = cmp.Or(err, fmt.Errorf("once: %s is not done when all is quiet", lock))
				}
				if err != nil {
					mu.Lock()
					odd = append(odd, err.Error())
					mu.Unlock()
				}
			}
		})
	}
	for _, lock := range slices.Sorted(maps.Keys(keys)) {
		todo <- lock
	}
	close(todo)
	all.Wait()
	return log.Ops(), odd
}

// chaosKinds are the kinds of lock, as chaosKind names them.
var chaosKinds = []string{"mutex", "rw", "semaphore", "election", "node", "slots", "tree", "once", "most", "shards", "dine", "newest", "lead"}

// chaosKind returns the kind of a lock of the history.
func chaosKind(lock string) string {
	parts := strings.Split(lock, "/") // "", "chaos", generation, lock
	switch {
	case len(parts) < 3:
		return ""
	case strings.HasPrefix(lock, shardsPath+"/") || len(parts) < 4:
		return parts[2]
	}
	kind, _, _ := strings.Cut(parts[3], "-")
	return kind
}

// chaosPlace returns the path of a lock of any kind but the one whose nodes nobody may remove.
func chaosPlace() string {
	typ, i := chaosKinds[rand.IntN(len(chaosKinds))], rand.IntN(chaosLocks)
	switch typ {
	case "newest":
		return chaosPlace()
	case "tree":
		locks := chaos.TreeLocks(chaosPath(typ, i), treePaths[rand.IntN(len(treePaths))])
		return locks[len(locks)-1].Lock
	case "once", "most":
		return onceLock(chaosPath(typ, 0), onceKey())
	case "dine":
		return fmt.Sprintf("%s/%d", chaosPath(typ, 0), i)
	case "shards":
		if n := rand.IntN(shardCount + 1); n < shardCount {
			return chaosShards(nil).Path(n)
		}
		return shardsPath + "/workers"
	}
	return chaosPath(typ, i)
}
