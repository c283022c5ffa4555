package holdfast

import (
	"context"
	"errors"
	"fmt"

	"holdfast/zk"
)

// Revoke asks the holder, or a waiter, with the token given to let the lock at path go;
// its Hold's Revoked is closed. Whether it does is its own decision. List tells the
// tokens. ErrNotHeld: nobody has that token, any more.
//
// The request is written into the node. What holdfast has written there stays (the owner,
// the reason, the value of a candidate in some layouts). Other data make place for the
// text __REVOKE__, which Curator's locks understand if they were made revocable, and which
// a Hold replaces with its own data again. The node of a NodeLock has a name that its
// successor's will have too. If the successor comes within the round trip of the write, its
// node gets the request, and the data of its predecessor. Its maker then does not know it again
// if the answer to its creation was lost, and the lock is taken until that session ends, or
// until Break.
func Revoke(ctx context.Context, c *zk.Client, path string, token int64) error {
	err := onToken(ctx, c, path, token, func(node string) error {
		for {
			var data []byte
			var stat zk.Stat
			err := retry(ctx, func() (err error) {
				data, stat, err = c.Get(ctx, node)
				return err
			})
			switch {
			case err != nil:
				return err
			case !hasToken(data, stat, token):
				return zk.ErrNoNode // it has gone, and another has come to its name
			}
			if data, err = withRequest(data); err != nil {
				return err
			}
			err = retry(ctx, func() error {
				_, err := c.Set(ctx, node, data, stat.Version)
				return err
			})
			// Somebody else has written meanwhile, or perhaps we have: asking twice harms nobody.
			if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrConnectionLoss) {
				return err
			}
		}
	})
	if err != nil {
		return &Error{Op: "revoke", Path: path, Err: err}
	}
	return nil
}

// Break takes the lock at path, or the place in its queue, away from the tenure with the
// token given, and from nobody else. The holder is told that it has lost the lock, but
// the next in line has it at that same moment and does not wait for it to stop: use it
// where the holder is known to be stuck, and let what the lock guards check tokens.
// ErrNotHeld: nobody has that token, any more. (The node of a NodeLock has a name that its
// successor's will have too; if that comes within the round trip of the delete, it is hit.)
func Break(ctx context.Context, c *zk.Client, path string, token int64) error {
	err := onToken(ctx, c, path, token, func(node string) error {
		for version := int32(zk.AnyVersion); ; {
			err := retry(ctx, func() error { return c.Delete(ctx, node, version) })
			doubt := version != zk.AnyVersion // an earlier delete may have happened
			switch {
			case errors.Is(err, zk.ErrConnectionLoss), doubt && errors.Is(err, zk.ErrBadVersion):
			case doubt && errors.Is(err, zk.ErrNoNode):
				return nil
			default:
				return err
			}
			var stands bool
			if version, stands, err = standing(ctx, c, node, token); err != nil || !stands {
				return err
			}
		}
	})
	if err != nil {
		return &Error{Op: "break", Path: path, Err: err}
	}
	return nil
}

// standing reports whether a node is still that of the tenure with the token, and its version.
// A write comes first: the server that we reach now then shows what the one before may have
// done for us (see settled in place.go).
func standing(ctx context.Context, c *zk.Client, node string, token int64) (version int32, stands bool, err error) {
	err = repeat(ctx, func() error {
		_, err := c.Multi(ctx, zk.CheckOp(node, zk.AnyVersion))
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) { // a transaction all the same
		return 0, false, err
	}
	var data []byte
	var stat zk.Stat
	err = retry(ctx, func() (err error) {
		data, stat, err = c.Get(ctx, node)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return 0, false, nil
	}
	return stat.Version, err == nil && hasToken(data, stat, token), err
}

// onToken calls f with every node of one tenure: a writer that has taken the read side
// has two, and several permits have one zxid. The names are unique, so f hits no other
// that comes later, except where names can come back (see place.remove).
func onToken(ctx context.Context, c *zk.Client, path string, token int64, f func(node string) error) error {
	if err := validatePath(path); err != nil {
		return err
	}
	if token <= 0 { // which notes that have none could be taken to have
		return fmt.Errorf("%w: nobody has the token %d", ErrNotHeld, token)
	}
	if err := retry(ctx, func() error { return c.Sync(ctx, path) }); err != nil {
		return err
	}
	found := false
	var stat zk.Stat
	err := retry(ctx, func() (err error) {
		_, stat, err = c.Get(ctx, path) // a NodeLock is the node itself
		return err
	})
	switch {
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return err
	case err == nil && stat.EphemeralOwner != 0 && stat.Czxid == token:
		if err := f(path); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return fmt.Errorf("%w: nobody has the token %d any more", ErrNotHeld, token)
	}
	for _, dir := range []string{path, path + curator.semaphore.leases, path + curator.semaphore.turnstile} {
		n, err := onTokenIn(ctx, c, dir, token, f)
		if err != nil {
			return err
		}
		found = found || n > 0
	}
	if !found {
		return fmt.Errorf("%w: nobody has the token %d", ErrNotHeld, token)
	}
	return nil
}

// hasToken reports whether a node is that of the tenure with the token, which is above zero.
func hasToken(data []byte, stat zk.Stat, token int64) bool {
	return stat.Czxid == token || readNote(data).Token == token
}

// onTokenIn does so in one directory.
func onTokenIn(ctx context.Context, c *zk.Client, dir string, token int64, f func(node string) error) (found int, err error) {
	names, err := children(ctx, c, dir)
	if err != nil {
		return 0, err
	}
	var all []contender // of whatever layout: the token says enough
	for _, n := range names {
		all = append(all, contender{name: n})
	}
	results, err := read(ctx, c, dir, all)
	if err != nil {
		return 0, err
	}
	for i, r := range results {
		if r.Err != nil || r.Stat.EphemeralOwner == 0 || !hasToken(r.Data, r.Stat, token) {
			continue
		}
		err := f(dir + "/" + all[i].name)
		switch {
		case errors.Is(err, zk.ErrNoNode): // it went by itself
		case err != nil:
			return found, err
		default:
			found++
		}
	}
	return found, nil
}
