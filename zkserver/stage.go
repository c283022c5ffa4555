package zkserver

import "sync"

// Staged bytes are collected in buffers that are reused: a small buffer once it has been
// copied for the writer, a large one once the writer has written it. New buffers for large
// answers would soon be garbage, and collecting garbage slows all clients.
const (
	maxStage   = 1 << 16 // of a small buffer
	keptStages = 2 << 20 // larger buffers are not kept
)

var (
	stagePool      = sync.Pool{New: func() any { return new([]byte) }}
	largeStagePool sync.Pool // *[]byte
)

// stage makes c part of the batch and returns what is staged for it so far.
func (s *Server) stage(c *conn) []byte {
	if !c.owned.inBatch {
		c.owned.inBatch = true
		c.owned.staged = (*stagePool.Get().(*[]byte))[:0]
		s.owner.batch.conns = append(s.owner.batch.conns, c)
	}
	return c.owned.staged
}

// stageLarge makes room for an answer of n bytes and a little more, if n is large.
func (s *Server) stageLarge(c *conn, n int) {
	small := s.stage(c)
	if n += len(small) + 1024; n <= maxStage || cap(small) > maxStage {
		return // append grows it
	}
	large, _ := largeStagePool.Get().(*[]byte)
	if large == nil || cap(*large) < n {
		b := make([]byte, 0, n)
		large = &b
	}
	c.owned.staged = append((*large)[:0], small...)
	recycleStage(small)
}

// recycleStage returns b to its pool. The last user of b calls it.
func recycleStage(b []byte) {
	switch {
	case cap(b) <= maxStage:
		stagePool.Put(&b)
	case cap(b) <= keptStages:
		largeStagePool.Put(&b)
	}
}
