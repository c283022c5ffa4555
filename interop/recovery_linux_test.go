package interop

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var (
	recoveries    = flag.Int("recoveries", 5, "how often the recovery tests kill the leader, the server, and the host of a directory")
	recoveryNodes = flag.Int("recovery-nodes", 10_000, "nodes that the server has to read when it starts again")
)

// newcomer returns a lock of a client that loses its first connection here. After repeated
// losses a client would take longer to reconnect.
func newcomer(t *testing.T, url string) (holdfast.Locker, func()) {
	t.Helper()
	c := dialURL(t, url)
	return holdfast.NewMutex(c, "/other"), func() { c.Close() }
}

// The leader of an ensemble is killed, and restarted once that was noticed. A client keeps its
// lock throughout. The measured time runs from the kill until the client has taken and released
// another lock.
func TestRecoveryOfAnEnsembleFromTheEndOfItsLeader(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*recoveries)*20*time.Second)
	defer cancel()
	z := startEnsemble(t)
	c := dialURL(t, z.URL())
	held, err := holdfast.NewMutex(c, "/held").Lock(ctx)
	must(t, err)
	var took []time.Duration
	for range *recoveries {
		other, done := newcomer(t, z.URL())
		leader, err := z.AwaitLeader(ctx)
		must(t, err)
		must(t, holdfast.Do(ctx, other, func(context.Context) error { return nil }))
		killed := time.Now()
		must(t, z.Kill(leader))
		must(t, holdfast.Do(ctx, other, func(context.Context) error { return nil }))
		took = append(took, time.Since(killed))
		if held.Context().Err() != nil {
			t.Fatalf("the client lost the lock that it held: %v", context.Cause(held.Context()))
		}
		done()
		must(t, z.Restart(ctx, leader))
	}
	must(t, held.Unlock())
	measured(t, "leader killed → another lock taken and released: %s", percentiles(took))
}

// holdfast serve is killed and restarted on its directory, while a client keeps its lock. The
// measured time runs from the kill until a connected client has taken and released another lock.
func TestRecoveryOfHoldfastServe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*recoveries)*5*time.Second)
	defer cancel()
	h, err := peers.StartHoldfast(ctx, holdfastBin(t), t.TempDir())
	closing(t, h, err)
	c := dialURL(t, h.URL())
	var nodes []zk.Op
	_, _, err = c.Create(ctx, "/full", nil, zk.Persistent)
	must(t, err)
	for i := range *recoveryNodes {
		nodes = append(nodes, zk.CreateOp(fmt.Sprintf("/full/%07d", i), []byte("something"), zk.Persistent))
		if len(nodes) == 1000 || i == *recoveryNodes-1 {
			_, err := c.Multi(ctx, nodes...)
			must(t, err)
			nodes = nil
		}
	}
	held, err := holdfast.NewMutex(c, "/held").Lock(ctx)
	must(t, err)
	var took []time.Duration
	for range *recoveries {
		other, done := newcomer(t, h.URL())
		must(t, holdfast.Do(ctx, other, func(context.Context) error { return nil }))
		killed := time.Now()
		must(t, h.Kill())
		must(t, h.Restart(ctx))
		must(t, holdfast.Do(ctx, other, func(context.Context) error { return nil }))
		took = append(took, time.Since(killed))
		if held.Context().Err() != nil {
			t.Fatalf("the client lost the lock that it held: %v", context.Cause(held.Context()))
		}
		done()
	}
	must(t, held.Unlock())
	measured(t, "holdfast serve with %d nodes killed → another lock taken and released: %s", *recoveryNodes, percentiles(took))
}

// The host process of a directory is killed while a command holds a lock in it. The command
// continues. The measured time runs from the kill until `holdfast run` of another lock has
// started, run its command and ended.
func TestRecoveryOfADirectory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*recoveries)*10*time.Second)
	defer cancel()
	bin, dir := holdfastBin(t), newDirectory(t)
	url := "file://" + dir
	holder := startHolder(ctx, t, url)
	must(t, holder.line(ctx))
	run := func() error {
		out, err := exec.CommandContext(ctx, bin, "run", "--server", url, "other", "--", "true").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	must(t, run())
	var took, usual []time.Duration
	for range *recoveries {
		began := time.Now()
		must(t, run())
		usual = append(usual, time.Since(began))
		killed := time.Now()
		_, err := killHost(bin, dir)
		must(t, err)
		must(t, run())
		took = append(took, time.Since(killed))
		select {
		case line, alive := <-holder.lines:
			t.Fatalf("the command lost its lock: %q, %v\n%s", line, alive, holder.stderr(t))
		default:
		}
	}
	measured(t, "host of a directory killed → another holdfast run done: %s; without a kill: %s", percentiles(took), percentiles(usual))
}
