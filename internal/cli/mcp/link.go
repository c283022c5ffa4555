package mcp

import (
	"context"
	"os"
	"sync"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// A link is the connection with the server of the locks. The first call of a tool makes it.
type link struct {
	settings *settings
	say      *term.Sayer
	dialing  chan struct{} // is full while a call connects

	mu   sync.Mutex       // guards the field below
	made *conn.Connection // nil until the first call
}

func newLink(s *settings, say *term.Sayer) *link {
	return &link{settings: s, say: say, dialing: make(chan struct{}, 1)}
}

func (l *link) connected(ctx context.Context) (*conn.Connection, error) {
	select {
	case l.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.dialing }()
	if c := l.connection(); c != nil {
		return c, nil
	}
	c, err := l.settings.Connect(ctx, l.settings.target, l.settings.Patience(), l.say)
	if err != nil {
		return nil, err
	}
	// The client works under the locks. If it has ended, nobody does.
	_ = c.Guard(ctx)(os.Getppid())
	l.mu.Lock()
	l.made = c
	l.mu.Unlock()
	return c, nil
}

func (l *link) connection() *conn.Connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// close ends the session of the connection, if there is one.
func (l *link) close() {
	if c := l.connection(); c != nil {
		c.Close()
	}
}
