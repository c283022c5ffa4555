package once

import (
	"context"
	"errors"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A holder is a Hold of one lock, with its place in the queue.
type holder struct {
	*holdfast.Hold
	place *queue.Place
}

func holderOf(h *holdfast.Hold) *holder { return &holder{h, lend.Places(h)[0]} }

// commit is Hold.Commit. Its error does not name the lock, since the caller names the job.
func (h *holder) commit(ctx context.Context, ops []zk.Op) error {
	_, err := h.Commit(ctx, ops...)
	return errors.Unwrap(err)
}
