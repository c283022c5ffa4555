//go:build unix

package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/zk"
)

// wants fails the test unless err is the wanted one.
func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v; want %v", what, err, want)
	}
}

// catchUp returns when c's server shows everything that any client was told is done. A sync is
// not enough on the leading server: it answers at once, though it may have applied less than a
// follower. An answer that follows a transaction is certain.
func catchUp(ctx context.Context, c operations, path string) error {
	_, err := c.Multi(ctx, zk.CheckOp(path, zk.AnyVersion))
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return nil // this proves it, too
	}
	return err
}

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
