package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/zk"
	"holdfast/zk/admin"
)

// LeastTimeout is the session timeout with which a server is asked for its minimum.
const LeastTimeout = 100 * time.Millisecond

// LeastGranted returns the shortest session timeout that the server grants, or 0 if it cannot be found out. It makes a
// session and closes it.
func LeastGranted(ctx context.Context, cfg zk.Config) time.Duration {
	cfg.SessionTimeout = LeastTimeout
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		return 0
	}
	defer c.Close()
	s, err := c.Session(ctx)
	if err != nil {
		return 0
	}
	return s.Timeout()
}

// LongTick compares the tickTime that the proofs of a session are measured in with that of an ensemble, which its minimum
// gives away. It returns "" if that is no longer, and otherwise what to say, and what to do.
func LongTick(assumed, least time.Duration) (text, hint string) {
	tick := least / 2
	if assumed = cmp.Or(assumed, zk.DefaultTickTime); least <= LeastTimeout || tick <= assumed {
		return "", ""
	}
	return fmt.Sprintf("a minimum of %s suggests a tickTime of %s, and holdfast assumes %s", duration.Text(least), duration.Text(tick), duration.Text(assumed)),
		fmt.Sprintf("if tickTime in the servers' zoo.cfg is %[1]s, add ?tick=%[1]s to the address; otherwise a holder could be told too late that its lock is lost", duration.Text(tick))
}

const (
	// tickAfter is how long a lock is held before the ensemble is asked for its minimum: a short hold pays nothing.
	tickAfter    = 5 * time.Second
	tickPatience = 5 * time.Second
)

// WarnOfTick says if an ensemble seems to have a longer tickTime than the client assumes. It asks once, when a lock has
// been held for some time: ctx is that of the Hold.
func WarnOfTick(ctx context.Context, c *zk.Client, cfg zk.Config, say *term.Sayer) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(tickAfter):
	}
	ctx, cancel := context.WithTimeout(ctx, tickPatience)
	defer cancel()
	// Each answer of a server alone proves the session. If the list is unreadable, we assume an ensemble.
	if e, _, err := admin.Config(ctx, c); err == nil && len(e.Members) == 0 || err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return
	}
	if text, hint := LongTick(cfg.TickTime, LeastGranted(ctx, cfg)); text != "" {
		say.Line("the session timeouts of the server: %s. %s", text, hint)
	}
}
