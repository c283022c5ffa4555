package zkserver

import "sync"

// What is staged is put together in buffers that are used again: small ones when they have
// been copied for the writer, large ones when it has written them. New ones for large
// answers would have to be collected soon after, and a collection of garbage costs everybody.
const (
	maxStage   = 1 << 16 // of a small buffer
	keptStages = 2 << 20 // no buffer is kept that is larger
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

// stageLarge makes room for an answer of n bytes and a little more, if that is much.
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

// recycleStage is called by the last who has b in hand.
func recycleStage(b []byte) {
	switch {
	case cap(b) <= maxStage:
		stagePool.Put(&b)
	case cap(b) <= keptStages:
		largeStagePool.Put(&b)
	}
}
