package holdfast

import (
	"context"
	"errors"
	"testing"

	"holdfast/zk"
)

// The context ends, and in the same moment the session does or the node goes: whoever gave
// up is told so, and no attempt is made after that.
func TestWhoGivesUpIsToldThatItDid(t *testing.T) {
	enough := errors.New("enough")
	for _, ended := range []error{zk.ErrSessionExpired, errPlaceGone} {
		ctx, cancel := context.WithCancelCause(t.Context())
		attempts := 0
		_, err := outlive(ctx, func() (*Hold, error) {
			if attempts++; attempts == 2 {
				cancel(enough)
			}
			return nil, ended
		})
		if err != enough || attempts != 2 {
			t.Errorf("%v: got %v after %d attempts; want %v after two", ended, err, attempts, enough)
		}
	}
}
