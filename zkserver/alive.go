package zkserver

import (
	"context"
	"fmt"
)

// Alive waits until the server has handled all earlier requests and then this question. It does
// not wait for the disk, because a restart does not help a slow disk. It returns nil, or why there
// was no answer: the cause of ctx, ErrServerClosed, or the error that stopped the server.
func (s *Server) Alive(ctx context.Context) error {
	return s.inTurn(ctx, func(answered chan<- struct{}) { close(answered) })
}

// Flush waits until all earlier requests are done and durable. It returns nil, or the same errors
// as Alive.
func (s *Server) Flush(ctx context.Context) error {
	return s.inTurn(ctx, func(answered chan<- struct{}) {
		s.owner.batch.released = append(s.owner.batch.released, func() { close(answered) })
	})
}

// Ready is Flush for monitoring. It also returns an error while the store cannot make its next file, a snapshot
// or a journal, although it answers. Such a store grows with every write.
func (s *Server) Ready(ctx context.Context) error {
	if err := s.Flush(ctx); err != nil {
		return err
	}
	if err := s.trouble.Load(); err != nil {
		return fmt.Errorf("zkserver: the store cannot make its next file, and tries again: %w", *err)
	}
	return nil
}

// inTurn lets the owner run f, and waits until f closes the channel, at once or later.
func (s *Server) inTurn(ctx context.Context, f func(answered chan<- struct{})) error {
	answered := make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() { f(answered) }})
	select {
	case <-answered:
		return nil
	case <-s.done:
		return s.stopError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
