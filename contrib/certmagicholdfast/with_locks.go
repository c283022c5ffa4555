package certmagicholdfast

import (
	"context"
	"fmt"

	"github.com/caddyserver/certmagic"
)

// A LockedStorage is another storage with locks in ZooKeeper. It is safe for concurrent use if that storage is.
type LockedStorage struct {
	values
	*locks
}

// values are the methods of a certmagic.Storage without its locks.
type values interface {
	Store(ctx context.Context, key string, value []byte) error
	Load(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
	Exists(ctx context.Context, key string) bool
	List(ctx context.Context, path string, recursive bool) ([]string, error)
	Stat(ctx context.Context, key string) (certmagic.KeyInfo, error)
}

var _ interface {
	certmagic.Storage
	certmagic.TryLocker
	certmagic.LockLeaseRenewer
} = (*LockedStorage)(nil)

// WithLocks returns inner with locks in ZooKeeper in place of its own. All programs that share the storage need
// these locks. It sends nothing. Errors are those of New.
//
// Store and Delete look whether the lock of their key is lost before they begin. That is the client's view, and
// no transaction: a change that has begun is not stopped. A Storage has no such gap.
func WithLocks(inner certmagic.Storage, cfg Config) (*LockedStorage, error) {
	l, err := newLocks(cfg)
	if err != nil {
		return nil, err
	}
	return &LockedStorage{values: inner, locks: l}, nil
}

// Store sets the value of key, unless the lock of key was lost. Then the error is holdfast.ErrLost.
func (s *LockedStorage) Store(ctx context.Context, key string, value []byte) error {
	if err := s.lost(key); err != nil {
		return fmt.Errorf("store %q: %w", key, err)
	}
	return s.values.Store(ctx, key, value)
}

// Delete removes key and all keys below it, unless the lock of key was lost. Then the error is holdfast.ErrLost.
func (s *LockedStorage) Delete(ctx context.Context, key string) error {
	if err := s.lost(key); err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return s.values.Delete(ctx, key)
}

func (s *LockedStorage) lost(key string) error {
	if h := s.guard(clean(key)); h != nil {
		return h.Err()
	}
	return nil
}
