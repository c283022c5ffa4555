package holdfast

import (
	"context"
	"errors"
	"fmt"

	"holdfast/zk"
)

// revokeRequest is what Curator's Revoker writes into the node of a lock to ask its
// holder to let go. It takes the place of the owner and the reason.
const revokeRequest = "__REVOKE__"

// Revoke asks the holder, or a waiter, with the token given to let the lock at path go;
// its Hold's Revoked is closed. Whether it does is its own decision. Curator's locks
// understand it if they were made revocable. List tells the tokens. ErrNotHeld: nobody
// has that token, any more.
func Revoke(ctx context.Context, c *zk.Client, path string, token int64) error {
	err := onToken(ctx, c, path, token, func(node string) error {
		return repeat(ctx, func() error { // asking twice harms nobody
			_, err := c.Set(ctx, node, []byte(revokeRequest), zk.AnyVersion)
			return err
		})
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
		for doubt := false; ; doubt = true {
			err := retry(ctx, func() error { return c.Delete(ctx, node, zk.AnyVersion) })
			switch {
			case errors.Is(err, zk.ErrConnectionLoss):
			case doubt && errors.Is(err, zk.ErrNoNode):
				return nil
			default:
				return err
			}
		}
	})
	if err != nil {
		return &Error{Op: "break", Path: path, Err: err}
	}
	return nil
}

// onToken calls f with every node of one tenure: a writer that has taken the read side
// has two, and several permits have one zxid. The names are unique, so f hits no other
// that comes later, except where names can come back (see place.remove).
func onToken(ctx context.Context, c *zk.Client, path string, token int64, f func(node string) error) error {
	if err := validatePath(path); err != nil {
		return err
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
		return f(path)
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
		if r.Err != nil || r.Stat.EphemeralOwner == 0 || r.Stat.Czxid != token && readNote(r.Data).Token != token {
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
