package zkserver

import "context"

// Alive waits until the server has come round to this question, behind what clients have
// asked before. It does not wait for the disk: to end a server because its disk is slow
// makes nothing better. It returns nil, or why there was no answer: the cause of ctx,
// ErrServerClosed, or what stopped the server.
func (s *Server) Alive(ctx context.Context) error {
	return s.inTurn(ctx, func(answered chan<- struct{}) { close(answered) })
}

// Flush waits until all that clients have asked before is done, and durable. It returns
// nil, or why that was not so: see Alive.
func (s *Server) Flush(ctx context.Context) error {
	return s.inTurn(ctx, func(answered chan<- struct{}) {
		s.owner.batch.released = append(s.owner.batch.released, func() { close(answered) })
	})
}

// inTurn lets the owner run f, and waits until f has closed the channel, now or later.
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
