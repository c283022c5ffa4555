package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/version"
	"holdfast/internal/mcp"
)

// An agent is the owner of what one client of mcp holds.
type agent struct {
	*conn.Flags
	target conn.Target
	who    whoFlags
	tree   string
	root   string // paths of --tree count from here; "" without --tree
	say    *term.Sayer
	server *mcp.Server

	dialing chan struct{} // is full while a call connects
	ended   chan struct{} // is closed when the agent is gone

	mu    sync.Mutex       // guards the fields below
	conn  *conn.Connection // nil until the first call
	holds []*agentHold
	last  int      // the newest id
	news  []string // what the next answer begins with
}

func newAgent(g *conn.Flags, who whoFlags, tree string) (*agent, error) {
	t, err := g.Target()
	if err != nil {
		return nil, err
	}
	t.ZK.CreateChroot = true
	a := &agent{Flags: g, target: t, who: who, tree: cmp.Or(tree, leaseTree), dialing: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := who.apply(new(taker)); err != nil {
		return nil, err
	}
	if strings.Contains(tree, "/") {
		return nil, term.Usage("give one word, such as the name of the repository", "--tree %q: a tree of leases has no / in its name", term.Cut(tree, 100))
	}
	if _, err := g.LockPath(a.tree); err != nil {
		return nil, err
	}
	if tree != "" {
		if a.root, err = repository(); err != nil {
			return nil, err
		}
	}
	a.say = g.Log.NewSayer(os.Stderr)
	a.server = &mcp.Server{Name: "holdfast", Title: "holdfast: locks", Version: version.Info().Version, Instructions: instructions, Tools: a.tools()}
	return a, nil
}

// serve answers the client until it has gone, and releases what it held.
func (a *agent) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(ctx, os.Stdin, os.Stdout) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done(): // a client that reads nothing holds Serve up, but no release; Serve ends with the process
	}
	close(a.ended)
	a.mu.Lock()
	c := a.conn
	a.mu.Unlock()
	if c != nil {
		c.Close() // the end of the session releases everything at once
	}
	a.say.Flush()
	if err != nil {
		return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("mcp: standard input: %w", err)}
	}
	return nil
}

// connected returns the connection, which the first call makes.
func (a *agent) connected(ctx context.Context) (*conn.Connection, error) {
	select {
	case a.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.dialing }()
	a.mu.Lock()
	c := a.conn
	a.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := a.Connect(ctx, a.target, a.Timeout, a.say)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.conn = c
	a.mu.Unlock()
	return c, nil
}
