package zk

import (
	"fmt"

	"holdfast/zkproto"
)

// Many reads can be sent together, and their callers take the answers when the last one is there. So a server, or nodes
// with much data, could fill the memory. A session keeps at most maxHeld bytes of long answers that no caller has taken.
// Tests lower it.
var maxHeld int64 = 128 << 20

// longAnswer is the length from which an answer counts.
const longAnswer = 64 << 10

// keepsAnswer counts an answer of n bytes, and returns an error if there is no room for it. A single answer always has room.
func (s *Session) keepsAnswer(r *request, n int) error {
	switch {
	case n < longAnswer, r.asksMode, r.watch != nil:
		return nil
	case r.op != zkproto.OpGetData && r.op != zkproto.OpGetChildren2 && r.op != zkproto.OpMultiRead && r.op != zkproto.OpGetEphemerals:
		return nil
	}
	if all := s.held.Add(int64(n)); all > maxHeld && all > int64(n) {
		s.held.Add(-int64(n))
		return fmt.Errorf("%w: with the other answers that are awaited, it is longer than %d MiB", ErrTooLarge, maxHeld>>20)
	}
	r.held.Store(int64(n))
	return nil
}

// takeAnswer ends the count of r's answer, if there is one.
func (s *Session) takeAnswer(r *request) {
	if r.held.Load() > 0 {
		s.held.Add(-r.held.Swap(0))
	}
}
