package terraform

import (
	"context"
	"errors"
	"strings"

	"holdfast/zk"
)

// The requests here can be executed twice, so they are sent again after a lost connection until ctx ends.

func repeat(ctx context.Context, send func() error) error {
	return zk.RetryIf(ctx, func(err error) bool {
		return zk.SafeToRetry(err) || errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrSessionExpired)
	}, send)
}

// behindWrite calls read with a session whose server shows all that was written before. A server may be behind the one
// that executed the last write. A sync is not enough at the server that leads, see [zk.Calls.Sync].
func (b *Backend) behindWrite(ctx context.Context, path string, read func(*zk.Session) error) error {
	return repeat(ctx, func() error {
		session, err := b.cfg.Client.Session(ctx)
		if err != nil {
			return err
		}
		_, err = session.Multi(ctx, zk.CheckOp(path, zk.AnyVersion))
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) { // a transaction all the same
			return err
		}
		return read(session)
	})
}

// get reads a node as it is now.
func (b *Backend) get(ctx context.Context, path string) (data []byte, stat zk.Stat, err error) {
	err = b.behindWrite(ctx, path, func(s *zk.Session) (err error) {
		data, stat, err = s.Get(ctx, path)
		return err
	})
	return data, stat, err
}

// children lists a node that need not exist.
func (b *Backend) children(ctx context.Context, path string) (names []string, err error) {
	err = b.behindWrite(ctx, path, func(s *zk.Session) (err error) {
		names, _, err = s.Children(ctx, path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// make creates a node and those above it, unless they exist.
func (b *Backend) make(ctx context.Context, path string, data []byte) error {
	for {
		err := repeat(ctx, func() error {
			_, _, err := b.cfg.Client.Create(ctx, path, data, zk.Persistent, b.cfg.ACL...)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := b.cfg.Client.CreateAll(ctx, path[:strings.LastIndexByte(path, '/')], b.cfg.ACL...); err != nil {
			return err
		}
	}
}

// put gives a node its data, whether or not it exists.
func (b *Backend) put(ctx context.Context, path string, data []byte) error {
	for {
		err := repeat(ctx, func() error {
			_, err := b.cfg.Client.Set(ctx, path, data, zk.AnyVersion)
			return err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := b.make(ctx, path, data); err != nil {
			return err
		}
	}
}

// remove removes a node without children, unless it is gone.
func (b *Backend) remove(ctx context.Context, path string) error {
	err := repeat(ctx, func() error { return b.cfg.Client.Delete(ctx, path, zk.AnyVersion) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

func (b *Backend) removeChildren(ctx context.Context, path string) error {
	names, err := b.children(ctx, path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := b.remove(ctx, path+"/"+name); err != nil {
			return err
		}
	}
	return nil
}
