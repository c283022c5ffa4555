// Package certmagicholdfast keeps the certificates of certmagic in ZooKeeper, with locks that are fenced: a
// program that has lost the lock of a certificate cannot write the certificate. It is a module of its own, so
// programs without it do not get certmagic.
//
//	storage, err := certmagicholdfast.New(certmagicholdfast.Config{Client: c, Path: "/certmagic"})
//	…
//	certmagic.Default.Storage = storage
//
// WithLocks is for certificates that are stored elsewhere. At the end of each tenure of a lock, the package
// starts a goroutine. It reports a loss, if there was one, and ends.
package certmagicholdfast

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/caddyserver/certmagic"

	"holdfast"
	"holdfast/zk"
)

// A Config says where the locks and values are. Client and Path are required.
type Config struct {
	Client *zk.Client
	Path   string // of a node that belongs to this storage; all programs that share the storage need the same

	// ACL is the access control list of new nodes. By default everybody may do everything. A Storage
	// contains private keys, so set it; New warns if everybody may read them. WithLocks stores no keys.
	ACL []zk.ACL

	// Owner names this program for those who list the locks. The default is no name.
	Owner string

	// Logger gets the warning of New, and an error as soon as a lock is lost, unless the program has closed the client. Nil
	// logs only the warning, with slog.Default.
	Logger *slog.Logger
}

// A Storage is a certmagic.Storage in ZooKeeper, with certmagic.TryLocker and certmagic.LockLeaseRenewer. Its
// methods are safe for concurrent use, and wait until the server answers or the context ends.
//
// Store and Delete are fenced. Between Lock and Unlock of the lock of a certificate, an ACME account or the
// cleaning, they change its keys in one transaction with a check that the lock is held. After the loss of the
// lock they fail with holdfast.ErrLost, and change nothing. Keys that certmagic writes without a lock, such as
// OCSP staples and challenge tokens, are not fenced. Neither is the cleaning of certificates, nor the renewal
// information that certmagic writes under the lock of its query.
//
// Values can have about 1 MB.
type Storage struct {
	*locks
	cfg Config
}

var _ interface {
	certmagic.Storage
	certmagic.TryLocker
	certmagic.LockLeaseRenewer
} = (*Storage)(nil)

// New makes a Storage. It sends nothing. The error is zk.ErrInvalidPath if the path is wrong, or is the root, and
// zk.ErrBadArguments without a client. It logs a warning if everybody may read the private keys that it will store.
func New(cfg Config) (*Storage, error) {
	l, err := newLocks(cfg)
	if err != nil {
		return nil, err
	}
	if open(cfg.ACL) {
		log := cfg.Logger
		if log == nil {
			log = slog.Default()
		}
		log.Warn("everybody who can connect to ZooKeeper can read the private keys of this storage: give it an ACL (in Caddy: user and password_file)", "path", cfg.Path)
	}
	return &Storage{locks: l, cfg: cfg}, nil
}

// open reports whether everybody may read nodes with this ACL.
func open(acl []zk.ACL) bool {
	anyone := func(a zk.ACL) bool { return a.Scheme == "world" && a.Perms&zk.PermRead != 0 }
	return len(acl) == 0 || slices.ContainsFunc(acl, anyone)
}

// Store sets the value of key. If the connection is lost, Store sends the value again while ctx lives. The error is
// zk.ErrTooLarge for a value that is too large, and holdfast.ErrLost if the lock of the key was lost.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	key = clean(key)
	if key == "" {
		return fmt.Errorf("store: the key is empty: %w", fs.ErrInvalid)
	}
	if value == nil {
		value = []byte{} // null data are those of a directory
	}
	node := s.node(key)
	for {
		err := s.change(ctx, key, zk.SetOp(node, value, zk.AnyVersion))
		if errors.Is(err, zk.ErrNoNode) && !errors.Is(err, holdfast.ErrLost) {
			// The Set makes version 1. Directories keep version 0, so a file is never removed as an empty directory.
			err = s.change(ctx, key, zk.CreateOp(node, []byte{}, zk.Persistent, s.cfg.ACL...), zk.SetOp(node, value, 0))
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, holdfast.ErrLost):
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
			continue // another program, or an attempt whose answer was lost
		case errors.Is(err, zk.ErrNoNode):
			if err = s.cfg.Client.CreateAll(ctx, path.Dir(node), s.cfg.ACL...); err == nil {
				continue
			}
		case errors.Is(err, zk.ErrTooLarge):
			err = fmt.Errorf("the value has %d bytes, and ZooKeeper's limit is about 1 MB: %w", len(value), err)
		}
		return fmt.Errorf("store %q: %w", key, err)
	}
}

// change executes ops as a transaction, under the lock of key if this program has acquired it. It tries again
// after a lost connection, so an earlier attempt may have succeeded.
func (s *Storage) change(ctx context.Context, key string, ops ...zk.Op) error {
	h := s.guard(key)
	return again(ctx, func() (err error) {
		if h != nil {
			_, err = h.Commit(ctx, ops...)
		} else {
			_, err = s.cfg.Client.Multi(ctx, ops...)
		}
		return err
	})
}

// again calls request until it has an answer, in whatever session.
func again(ctx context.Context, request func() error) error {
	return zk.RetryIf(ctx, func(err error) bool {
		lost := errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrThrottled)
		return lost && !errors.Is(err, holdfast.ErrLost)
	}, request)
}

// read calls f with a session whose server has applied everything that was stored before.
func (s *Storage) read(ctx context.Context, f func(*zk.Session) error) error {
	return again(ctx, func() error {
		session, err := s.cfg.Client.Session(ctx)
		if err != nil {
			return err
		}
		// A sync is not enough at the server that leads, see zk.Calls.Sync.
		_, err = session.Multi(ctx, zk.CheckOp(s.cfg.Path, zk.AnyVersion))
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) { // a transaction all the same
			return err
		}
		return f(session)
	})
}

// Load returns the value of key. It is the value of the latest Store that has returned, in whatever program. The error
// is fs.ErrNotExist if there is none, also if key is a directory.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := s.read(ctx, func(session *zk.Session) (err error) {
		value, _, err = session.Get(ctx, s.node(clean(key)))
		return err
	})
	if err == nil && value == nil {
		err = fmt.Errorf("it is a directory: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("load %q: %w", key, err)
	}
	return value, nil
}

// Stat describes key. Size and Modified of a directory are zero. The error is fs.ErrNotExist if there is no such key.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	info := certmagic.KeyInfo{Key: key}
	err := s.read(ctx, func(session *zk.Session) error {
		value, stat, err := session.Get(ctx, s.node(clean(key)))
		if info.IsTerminal = value != nil; info.IsTerminal {
			info.Size, info.Modified = int64(len(value)), time.UnixMilli(stat.Mtime)
		}
		return err
	})
	if err != nil {
		return certmagic.KeyInfo{}, fmt.Errorf("stat %q: %w", key, err)
	}
	return info, nil
}

// Exists reports whether key is a value or a directory. It is false if that cannot be found out.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// List returns the keys in a directory, sorted, or with recursive all keys below it, directories included. There are
// none if prefix is a value. The error is fs.ErrNotExist if there is no such key. The list is no snapshot: it can have some of
// the changes that are made meanwhile.
func (s *Storage) List(ctx context.Context, prefix string, recursive bool) ([]string, error) {
	var keys []string
	err := s.read(ctx, func(session *zk.Session) (err error) {
		keys, err = s.list(ctx, session, clean(prefix), recursive)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	return keys, nil
}

// batch is how many directories are read at a time.
const batch = 256

func (s *Storage) list(ctx context.Context, session *zk.Session, prefix string, recursive bool) ([]string, error) {
	var keys []string
	for todo := []string{prefix}; len(todo) > 0; {
		now := todo[:min(batch, len(todo))]
		todo = todo[len(now):]
		var ops []zk.Op
		for _, dir := range now {
			ops = append(ops, zk.ChildrenOp(s.node(dir)))
		}
		results, err := session.Pipeline(ctx, ops...)
		if len(results) < len(ops) {
			return nil, err
		}
		for i, r := range results {
			switch {
			case errors.Is(r.Err, zk.ErrNoNode) && (now[i] != prefix || prefix == ""):
				continue // removed meanwhile, or nothing was ever stored
			case r.Err != nil:
				return nil, r.Err
			}
			for _, name := range r.Children {
				key := path.Join(now[i], unescape(name))
				keys = append(keys, key)
				if recursive {
					todo = append(todo, key)
				}
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Delete removes key and all keys below it. It is no error if there are none. The error is holdfast.ErrLost if the lock of
// a key was lost; then that key stays.
func (s *Storage) Delete(ctx context.Context, key string) error {
	key = clean(key)
	for {
		var below []string
		err := s.read(ctx, func(session *zk.Session) (err error) {
			below, err = s.list(ctx, session, key, true)
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err == nil {
			err = s.remove(ctx, key, below)
		}
		switch {
		case errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, holdfast.ErrLost):
			continue // stored meanwhile
		case err != nil:
			return fmt.Errorf("delete %q: %w", key, err)
		}
		return nil
	}
}

// remove removes the sorted keys below key, key itself, and the directories above it that are empty now.
func (s *Storage) remove(ctx context.Context, key string, below []string) error {
	for _, k := range slices.Backward(append([]string{key}, below...)) {
		if k == "" {
			return nil
		}
		err := s.change(ctx, k, zk.DeleteOp(s.node(k), zk.AnyVersion))
		if err != nil && (errors.Is(err, holdfast.ErrLost) || !errors.Is(err, zk.ErrNoNode)) {
			return err
		}
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		err := again(ctx, func() error { return s.cfg.Client.Delete(ctx, s.node(dir), 0) })
		if err != nil {
			break // it is not empty, or a value, or another program has removed it
		}
	}
	return nil
}

// node returns the path of a key's node. The key is clean.
func (s *Storage) node(key string) string {
	node := s.cfg.Path + "/values"
	for _, name := range elements(key) {
		node += "/" + zk.EscapeName(name)
	}
	return node
}
