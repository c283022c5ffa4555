package mcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/version"
	"holdfast/internal/cli/who"
)

// An agent is the owner of what one client of mcp holds.
type agent struct {
	*conn.Flags
	target conn.Target
	owner  string            // of its holds
	labels map[string]string // of its holds
	tree   string
	root   string // paths of --tree count from here; "" without --tree
	say    *term.Sayer
	server *sdk.Server
	stream *stream

	dialing chan struct{} // is full while a call connects
	ended   chan struct{} // is closed when the agent is gone

	mu    sync.Mutex       // guards the fields below
	link  *conn.Connection // nil until the first call
	holds []*agentHold
	last  int      // the newest id
	news  []string // what the next answer begins with
}

func newAgent(g *conn.Flags, who *who.Flags, tree string) (*agent, error) {
	t, err := g.Target()
	if err != nil {
		return nil, err
	}
	t.ZK.CreateChroot = true
	a := &agent{Flags: g, target: t, tree: cmp.Or(tree, leaseTree), dialing: make(chan struct{}, 1), ended: make(chan struct{})}
	if a.owner, a.labels, err = who.Read(); err != nil {
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
	a.listen(os.Stdin, os.Stdout)
	return a, nil
}

// listen makes the server and the stream of the agent. The server has no tools yet.
func (a *agent) listen(in io.Reader, out io.Writer) {
	a.stream = newStream(in, out)
	a.server = sdk.NewServer(&sdk.Implementation{Name: "holdfast", Title: "holdfast: locks", Version: version.Info().Version}, &sdk.ServerOptions{
		Instructions: instructions,
		//lint:ignore SA1019 clients of the versions before 2026-07-28 show what is logged
		Capabilities: &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}, Tools: &sdk.ToolCapabilities{}},
	})
}

// converse answers the client until its stream ends, and returns when all calls have returned. The error is that of the
// stream, unless it has ended; it is nil if no more answers can be written: then the client has gone.
func (a *agent) converse(ctx context.Context) error {
	// The client gets everything that is logged, until it asks for another level.
	session, err := a.server.Connect(ctx, a.stream, &sdk.ServerSessionOptions{State: &sdk.ServerSessionState{LogLevel: "debug"}})
	if err != nil {
		return err
	}
	_ = session.Wait() // the error of an answer, too
	return a.stream.failed()
}

// serve answers the client until it has gone, and releases what it held.
func (a *agent) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- a.converse(ctx) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done(): // a client that reads nothing holds the session up, but no release; the session ends with the process
	}
	close(a.ended)
	a.mu.Lock()
	c := a.link
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
	c := a.link
	a.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := a.Connect(ctx, a.target, a.Timeout, a.say)
	if err != nil {
		return nil, err
	}
	// The client works under the locks. If it has ended, nobody does.
	_ = c.Guard(ctx)(os.Getppid())
	a.mu.Lock()
	a.link = c
	a.mu.Unlock()
	return c, nil
}
