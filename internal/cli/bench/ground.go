package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// A ground is where a benchmark puts its nodes: a directory of its own.
type ground struct {
	server     string
	path       string
	connection *conn.Connection // for making and removing nodes
	config     func() zk.Config
	patience   time.Duration
	made       []string // nodes that did not exist before, the deepest last
}

// onGround connects, makes the ground, runs f on it, and removes all of it. The context of f ends with the
// first signal that would end the process. The second one does.
func onGround(ctx context.Context, g *conn.Flags, f func(context.Context, *ground) error) (err error) {
	if err := g.CheckNamespace(); err != nil {
		return err
	}
	t, err := g.Target()
	if err != nil {
		return err
	}
	// The chroot goes into the paths, since connect would make its nodes and leave them.
	dir := strings.TrimSuffix(strings.TrimSuffix(t.ZK.Chroot, "/")+g.Namespace, "/")
	t.ZK.Chroot = ""
	at := &ground{server: t.URL, patience: g.Patience(), path: fmt.Sprintf("%s/holdfast-bench-%08x", dir, rand.Uint32())}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	context.AfterFunc(ctx, supervise.Notify(signals, supervise.StopSignals...))
	go func() {
		select {
		case sig := <-signals:
			cancel(term.EndedBy(sig))
		case <-ctx.Done():
		}
	}()
	say := g.Log.NewSayer(os.Stderr)
	defer say.Flush()
	if at.connection, err = g.Connect(ctx, t, g.Patience(), say); err != nil {
		return interrupted(ctx, err)
	}
	defer at.connection.Close()
	at.config = func() zk.Config {
		cfg := t.ZK
		if at.connection.Store != nil {
			cfg = at.connection.Store.Config()
		}
		cfg.SessionTimeout = g.Timeout
		return cfg
	}
	defer func() {
		left := at.remove()
		switch {
		case left == nil:
		case err == nil:
			err = &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("bench: cannot remove %s: %w", at.path, left), Hint: removedLater}
		default:
			say.Line("cannot remove %s: %s; %s", at.path, term.Escape(term.Cut(left.Error(), 200)), removedLater)
		}
	}()
	go at.connection.Watch(ctx, g.Patience(), cancel)
	if err := at.make(ctx); err != nil {
		return interrupted(ctx, t.Explain(err))
	}
	return t.Explain(f(ctx, at))
}

// interrupted returns the error of the signal that ended ctx, see term.EndedBy, or else err.
func interrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if _, ok := errors.AsType[term.ExitCode](cause); ok {
		return cause
	}
	return err
}

const removedLater = "the server removes it some time after the sessions have timed out"

// make makes the directory, and those above it that are missing. All are containers, so the server removes
// them if bench is killed.
func (at *ground) make(ctx context.Context) error {
	c := at.connection.Client
	above, err := conn.NearestNode(ctx, c, at.path)
	if err != nil {
		return err
	}
	path := strings.TrimSuffix(above, "/")
	for name := range strings.SplitSeq(at.path[len(path)+1:], "/") {
		path += "/" + name
		_, _, err := c.Create(ctx, path, nil, zk.Container)
		switch {
		case err == nil, zk.MayHaveHappened(err):
			at.made = append(at.made, path)
		case errors.Is(err, zk.ErrNodeExists): // somebody else was quicker
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes all nodes of the benchmark, and those above that it has made, unless others use them. It gives up
// when it has removed no node for the session timeout.
func (at *ground) remove() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	giveUp := time.AfterFunc(at.patience, func() { cancel(fmt.Errorf("no node could be removed for %v", at.patience)) })
	defer giveUp.Stop()
	c := at.connection.Client
	for i, path := range slices.Backward(at.made) {
		var err error
		if i == len(at.made)-1 && path == at.path {
			err = removeTree(ctx, c, path, func() { giveUp.Reset(at.patience) })
		} else if err = c.Delete(ctx, path, zk.AnyVersion); errors.Is(err, zk.ErrNotEmpty) {
			err = nil
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// removeParallel is how many nodes removeTree removes at a time.
const removeParallel = 32

// removeTree removes a node and everything below it, and calls removed after each node. Nodes may still come and go
// meanwhile: those of sessions that end.
func removeTree(ctx context.Context, c *zk.Client, path string, removed func()) error {
	for {
		children, _, err := c.Children(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		group, within := errgroup.WithContext(ctx)
		group.SetLimit(removeParallel)
		for _, child := range children {
			// Below a lock there are places, and one level of directories of a semaphore.
			group.Go(func() error { return removeTree(within, c, path+"/"+child, removed) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if err = c.Delete(ctx, path, zk.AnyVersion); err == nil {
			removed()
		}
		if !errors.Is(err, zk.ErrNotEmpty) {
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			return err
		}
	}
}

// dialsAtATime bounds the sessions that are opened or closed at the same time.
const dialsAtATime = 32

// dial opens n sessions.
func (at *ground) dial(ctx context.Context, n int) ([]*zk.Client, error) {
	clients := make([]*zk.Client, n)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtATime)
	var done atomic.Int64
	for i := range clients {
		group.Go(func() (err error) {
			cfg := at.config()
			within, cancel := context.WithTimeout(within, cfg.SessionTimeout)
			defer cancel()
			if clients[i], err = zk.Dial(within, cfg); err == nil {
				done.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		closeAll(clients)
		return nil, interrupted(ctx, &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("bench: %d of %d sessions were opened: %w", done.Load(), n, err), Hint: "try fewer, or raise the server's limits, such as maxClientCnxns"})
	}
	return clients, nil
}

func closeAll(clients []*zk.Client) {
	var group errgroup.Group
	group.SetLimit(dialsAtATime)
	for _, c := range clients {
		if c != nil {
			group.Go(c.Close)
		}
	}
	_ = group.Wait() // always nil
}
