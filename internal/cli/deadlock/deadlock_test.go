package deadlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A planted is a deadlock on a server: member i holds lock i and waits for the next one.
type planted struct {
	t     *testing.T
	srv   *zktest.Server
	rng   *rand.Rand
	kinds []holdfast.Layout // of the locks
	waits []func()          // of the members: each joins the queue of the next lock

	mu   sync.Mutex // guards told
	told map[string]time.Time
	text map[string]Deadlock
	ours int
}

func lockAt(i int) string { return fmt.Sprintf("/holdfast/locks/lock%d", i) }

// foreign makes a node as the library of the layout does.
func (p *planted) foreign(c *zk.Client, lock int) {
	prefix := fmt.Sprintf("_c_%08x-6d0c-4ee4-a6d1-a4b2e1b0c6f5-lock-", p.rng.Uint32())
	if p.kinds[lock].Name == "kazoo" {
		prefix = fmt.Sprintf("%032x__lock__", p.rng.Uint64())
	}
	_, _, err := c.Create(p.t.Context(), lockAt(lock)+"/"+prefix, nil, zk.EphemeralSequential)
	must(p.t, err)
}

// watched lets a client wait for a lock, and watches its wait.
func (p *planted) watched(ctx context.Context, name string, lock int, within int64) {
	c := p.srv.Client()
	w := &Watch{
		Client: c, Prefixes: []string{"/holdfast/locks/"}, LockName: func(path string) string { return path[len("/holdfast/locks/"):] },
		Called: "this command", End: "kill 42",
	}
	m := holdfast.NewMutex(c, lockAt(lock), holdfast.WithLayout(p.kinds[lock]), holdfast.WithOwner(name), lend.WithinSession(within).(holdfast.Option))
	go func() {
		if _, err := m.Lock(ctx); err == nil {
			p.t.Errorf("%s has acquired lock %d", name, lock)
		}
	}()
	go w.Run(ctx, func(d *Deadlock) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d == nil {
			p.t.Errorf("%s: the deadlock is gone", name)
			return
		}
		p.told[name], p.text[name] = time.Now(), *d
	})
}

// plant makes a deadlock of n members, of whom some are of other libraries.
func plant(ctx context.Context, t *testing.T, srv *zktest.Server, rng *rand.Rand, n int) *planted {
	p := &planted{t: t, srv: srv, rng: rng, told: make(map[string]time.Time), text: make(map[string]Deadlock)}
	for i := range n {
		p.kinds = append(p.kinds, []holdfast.Layout{layout.Curator, layout.Kazoo}[rng.IntN(2)])
		must(t, srv.Client().CreateAll(ctx, lockAt(i)))
	}
	for i := range n {
		next := (i + 1) % n
		c := srv.Client()
		if i > 0 && rng.IntN(2) == 0 {
			p.foreign(c, i)
			p.waits = append(p.waits, func() { p.foreign(c, next) })
			continue
		}
		name := fmt.Sprintf("member%d", i)
		h, err := holdfast.NewMutex(c, lockAt(i), holdfast.WithLayout(p.kinds[i]), holdfast.WithOwner(name)).Lock(ctx)
		must(t, err)
		p.ours++
		p.waits = append(p.waits, func() { p.watched(ctx, name, next, h.SessionID()) })
	}
	return p
}

// Every waiter of ours in a deadlock is told within two seconds after the last wait began, however late that was. A waiter
// that is not in it is not told.
func TestPlantedDeadlocksAreTold(t *testing.T) {
	for seed := range uint64(24) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			srv := zktest.NewServer()
			defer srv.Close()
			ctx, cancel := context.WithCancel(t.Context())
			n := 2 + int(seed%4)
			p := plant(ctx, t, srv, rng, n)
			other := srv.Client()
			holder, err := holdfast.NewMutex(other, "/holdfast/locks/other", holdfast.WithOwner("outside")).Lock(ctx)
			must(t, err)
			p.watched(ctx, "outside", 0, holder.SessionID()) // it waits for a member, and nobody for it
			order := rng.Perm(n)
			for _, i := range order {
				p.waits[i]()
				synctest.Wait()
				p.mu.Lock()
				if len(p.told) > 0 && i != order[n-1] {
					t.Errorf("seed %d: told before there is a deadlock: %v", seed, p.told)
				}
				p.mu.Unlock()
				if i != order[n-1] {
					time.Sleep([]time.Duration{0, 700 * time.Millisecond, 3 * time.Second, 5 * time.Minute}[rng.IntN(4)])
				}
			}
			closed := time.Now()
			time.Sleep(3 * time.Second)
			p.mu.Lock()
			if len(p.told) != p.ours || p.told["outside"] != (time.Time{}) {
				t.Errorf("seed %d: told %v, want %d members of %d", seed, p.told, p.ours, n)
			}
			for name, at := range p.told {
				if took := at.Sub(closed); took > 2*time.Second {
					t.Errorf("seed %d: %s is told after %v", seed, name, took)
				}
				d := p.text[name]
				if strings.Count(d.Cycle, " waits for lock") != n || !strings.HasPrefix(d.Cycle, "this command waits for lock") || !strings.HasSuffix(d.Cycle, " this command") {
					t.Errorf("seed %d: %s is told %q", seed, name, d.Cycle)
				}
				if !strings.HasPrefix(d.End, "to end it: holdfast break --token ") && !strings.HasPrefix(d.End, "to end it: kill 42 (stops this command") {
					t.Errorf("seed %d: %s is told %q", seed, name, d.End)
				}
			}
			p.mu.Unlock()
			cancel()
		})
	}
}
