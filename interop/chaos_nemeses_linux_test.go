package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A chaosFault is a fault that was made, and its visible effect.
type chaosFault struct {
	Kind   string        `json:"kind"`
	At     time.Duration `json:"at"`
	Took   time.Duration `json:"took"` // until the fault was healed
	Effect string        `json:"effect,omitempty"`
	Error  string        `json:"error,omitempty"` // set if no effect was visible
}

// A nemesis makes one kind of fault. It returns the visible effect once the fault is healed, or
// an error if there was none. It returns errNothingToHurt if it did nothing.
type nemesis struct {
	kind string
	do   func(c *chaosRun, ctx context.Context) (effect string, err error)
}

var errNothingToHurt = errors.New("nothing to hurt")

// ensembleNemeses hurt servers, one at a time; each leaves all three serving.
var ensembleNemeses = []nemesis{
	{"leader killed", func(c *chaosRun, ctx context.Context) (string, error) { return c.killServer(ctx, true) }},
	{"follower killed", func(c *chaosRun, ctx context.Context) (string, error) { return c.killServer(ctx, false) }},
	{"all servers killed", (*chaosRun).killAll},
	{"rolling restart", (*chaosRun).roll},
	{"leader stopped", func(c *chaosRun, ctx context.Context) (string, error) { return c.stopServer(ctx, true) }},
	{"follower stopped", func(c *chaosRun, ctx context.Context) (string, error) { return c.stopServer(ctx, false) }},
	{"all servers stopped", (*chaosRun).stopAll},
	{"leader cut off", func(c *chaosRun, ctx context.Context) (string, error) {
		return c.partServer(ctx, true, c.z.Cut)
	}},
	{"leader muted", func(c *chaosRun, ctx context.Context) (string, error) { return c.partServer(ctx, true, c.z.Mute) }},
	{"leader deafened", func(c *chaosRun, ctx context.Context) (string, error) {
		return c.partServer(ctx, true, c.z.Deafen)
	}},
	{"follower cut off, serving on", (*chaosRun).cutServing},
	{"follower muted", func(c *chaosRun, ctx context.Context) (string, error) { return c.partServer(ctx, false, c.z.Mute) }},
	{"follower deafened", func(c *chaosRun, ctx context.Context) (string, error) {
		return c.partServer(ctx, false, c.z.Deafen)
	}},
}

// processNemeses hurt the locking processes, and their connections to the servers.
var processNemeses = []nemesis{
	{"client killed", (*chaosRun).killProcess},
	{"client paused", (*chaosRun).pauseProcess},
	{"client cut off", func(c *chaosRun, ctx context.Context) (string, error) { return c.cutProcess(ctx, true, true) }},
	{"client unheard", func(c *chaosRun, ctx context.Context) (string, error) { return c.cutProcess(ctx, true, false) }},
	{"client deaf", func(c *chaosRun, ctx context.Context) (string, error) { return c.cutProcess(ctx, false, true) }},
}

// stingNemeses are faults of a moment.
var stingNemeses = []nemesis{
	{"connections broken", (*chaosRun).sever},
	{"reply lost after commit", (*chaosRun).loseWrite},
	{"session expired", (*chaosRun).expire},
	{"holder's node deleted", func(c *chaosRun, ctx context.Context) (string, error) { return c.deletePlace(ctx, true) }},
	{"waiter's node deleted", func(c *chaosRun, ctx context.Context) (string, error) { return c.deletePlace(ctx, false) }},
	{"lock's parent deleted", (*chaosRun).deleteParent},
}

// torment makes one fault after the other, every kind in turn, with a rest in between.
func (c *chaosRun) torment(ctx context.Context, of []nemesis, rng *rand.Rand, rest time.Duration) {
	for ctx.Err() == nil {
		for _, i := range rng.Perm(len(of)) {
			pause(ctx, rest/2+time.Duration(rng.Int64N(int64(rest))))
			if ctx.Err() != nil {
				return
			}
			c.make(of[i])
		}
	}
}

// make makes one fault. It does not use the context of the faults, so a fault that was begun is healed.
func (c *chaosRun) make(n nemesis) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), stepTime)
	defer cancel()
	f := chaosFault{Kind: n.kind, At: monotonic()}
	effect, err := n.do(c, ctx)
	if errors.Is(err, errNothingToHurt) {
		return
	}
	f.Took, f.Effect = monotonic()-f.At, effect
	if err != nil {
		f.Error = err.Error()
		c.t.Errorf("%s: no visible effect: %v", n.kind, err)
	}
	c.t.Logf("%v: %s: %s %s (%v)", (f.At - c.began).Round(time.Millisecond), f.Kind, f.Effect, f.Error, f.Took.Round(time.Millisecond))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, f)
}

// victim returns the leading server, or one that does not lead.
func (c *chaosRun) victim(ctx context.Context, leader bool) (int, error) {
	i, err := c.z.AwaitLeader(ctx)
	if err == nil && !leader {
		i = (i + 1 + rand.IntN(2)) % 3
	}
	return i, err
}

// until polls, since servers do not report their state.
func until(ctx context.Context, what string, good func() bool) error {
	for !good() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not seen: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// otherLeader waits for a leader other than server i.
func (c *chaosRun) otherLeader(ctx context.Context, i int) (string, error) {
	next := -1
	err := until(ctx, "another leader", func() bool {
		for j := range 3 {
			if m, err := c.z.Mode(ctx, j); j != i && err == nil && m == "leader" {
				next = j
				return true
			}
		}
		return false
	})
	return fmt.Sprintf("server %d leads instead of %d", next, i), err
}

// whole waits until all servers serve, one of them as leader.
func (c *chaosRun) whole(ctx context.Context) error {
	_, err := c.z.AwaitLeader(ctx)
	return err
}
