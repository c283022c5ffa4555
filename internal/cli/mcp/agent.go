package mcp

import (
	"context"
	"fmt"
	"os"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
)

// An agent is the owner of what one client of mcp holds. Its tools are in files with their names.
type agent struct {
	*settings
	say      *term.Sayer
	link     *link
	news     *news
	holds    *holds
	endpoint *endpoint
}

func newAgent(g *conn.Flags, who *who.Flags, tree string) (*agent, error) {
	s, err := readSettings(g, who, tree)
	if err != nil {
		return nil, err
	}
	say := g.Log.NewSayer(os.Stderr)
	n := &news{say: say}
	return &agent{
		settings: s, say: say, link: newLink(s, say), news: n,
		holds: newHolds(n), endpoint: newEndpoint(os.Stdin, os.Stdout, n),
	}, nil
}

// serve answers the client until it has gone, and releases what it held.
func (a *agent) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- a.endpoint.converse(ctx) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done(): // a client that reads nothing holds the session up, but no release; the session ends with the process
	}
	a.holds.end()
	a.link.close() // the end of the session releases everything at once
	a.say.Flush()
	if err != nil {
		return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("mcp: standard input: %w", err)}
	}
	return nil
}
