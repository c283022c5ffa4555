package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// Revoke asks the holder, or a waiter, with the given token to release the lock at path: its [Hold.Revoked] is
// closed, and it decides whether it does. List shows the tokens. The error is ErrNotHeld if nobody has that token.
//
// The request is written into the node, and can reach a successor's (see Names that come back). Data that holdfast
// has written there stay (the owner, the reason, the value of a candidate in some layouts). Other data are replaced
// by the text __REVOKE__. Curator's locks understand it if they were made revocable, and a Hold replaces it with its
// own data again.
func Revoke(ctx context.Context, c *zk.Client, path string, token int64) error {
	err := onToken(ctx, c, path, token, func(node string) error {
		for {
			var data []byte
			var stat zk.Stat
			err := zk.Retry(ctx, func() (err error) {
				data, stat, err = c.Get(ctx, node)
				return err
			})
			switch {
			case err != nil:
				return err
			case !hasToken(data, stat, token):
				return zk.ErrNoNode // it is gone, and another node has its name
			}
			if data, err = queue.WithRequest(data); err != nil {
				return err
			}
			err = zk.Retry(ctx, func() error {
				_, err := c.Set(ctx, node, data, stat.Version)
				return err
			})
			// Somebody has written meanwhile; perhaps we have. Asking twice does no harm.
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

// Break takes the lock at path, or the place in its queue, away from the tenure with the given token, and from nobody
// else (but see Names that come back). The holder is told that it has lost the lock. But the next in line acquires it
// at the same moment and does not wait for the holder to stop. So use Break where the holder is known to be stuck,
// and let the guarded resource check tokens. The error is ErrNotHeld if nobody has that token.
func Break(ctx context.Context, c *zk.Client, path string, token int64) error {
	err := onToken(ctx, c, path, token, func(node string) error {
		for version := int32(zk.AnyVersion); ; {
			err := zk.Retry(ctx, func() error { return c.Delete(ctx, node, version) })
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

// standing reports whether a node still belongs to the tenure with the token, and its version. A write
// comes first. Then the server that we reach now shows everything that the previous one may have done for
// us (see barrier in internal/queue).
func standing(ctx context.Context, c *zk.Client, node string, token int64) (version int32, stands bool, err error) {
	err = zk.Repeat(ctx, func() error {
		_, err := c.Multi(ctx, zk.CheckOp(node, zk.AnyVersion))
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) { // a transaction all the same
		return 0, false, err
	}
	var data []byte
	var stat zk.Stat
	err = zk.Retry(ctx, func() (err error) {
		data, stat, err = c.Get(ctx, node)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return 0, false, nil
	}
	return stat.Version, err == nil && hasToken(data, stat, token), err
}

// onToken calls f with every node of one tenure. A writer that has taken the read side has two, and
// several permits have one zxid. Names are unique, so f hits no later node, except where names can come
// back (see Place.Remove).
func onToken(ctx context.Context, c *zk.Client, path string, token int64, f func(node string) error) error {
	if err := queue.ValidatePath(path); err != nil {
		return err
	}
	if token <= 0 { // notes without a token have zero there
		return fmt.Errorf("%w: nobody has the token %d", ErrNotHeld, token)
	}
	session, err := c.Session(ctx)
	if err == nil {
		err = queue.Barrier(ctx, session, path)
	}
	if err == nil {
		if err = onTokenNow(ctx, c, path, token, f); errors.Is(err, errNobody) { // or a new session has reached a server that is behind
			err = queue.BehindWrite(ctx, c, path, func() error { return onTokenNow(ctx, c, path, token, f) })
		}
	}
	if errors.Is(err, errNobody) {
		err = fmt.Errorf("%w: nobody has the token %d", ErrNotHeld, token)
	}
	return err
}

// errNobody is the error of onTokenNow if no node has the token.
var errNobody = errors.New("nobody has the token")

// onTokenNow is onToken for the nodes that the server shows.
func onTokenNow(ctx context.Context, c *zk.Client, path string, token int64, f func(node string) error) error {
	found := false
	var stat zk.Stat
	err := zk.Retry(ctx, func() (err error) {
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
	slots := &names.Slots.Semaphore
	dirs := []string{""}
	for _, g := range names.Semaphores() {
		if g.Semaphore.Leases != "" { // else the permits are in the first
			dirs = append(dirs, g.Semaphore.Leases)
		}
		dirs = append(dirs, g.Semaphore.Turnstile)
	} // and those of slots, if the first list has them
	for i := 0; i < len(dirs); i++ {
		listed, n, err := onTokenIn(ctx, c, path+dirs[i], token, f)
		if err != nil {
			return err
		}
		found = found || n > 0
		for _, dir := range []string{slots.Leases, slots.Turnstile} {
			if i == 0 && slices.Contains(listed, dir[1:]) {
				dirs = append(dirs, dir)
			}
		}
	}
	if !found {
		return errNobody
	}
	return nil
}

// hasToken reports whether a node belongs to the tenure with the token, which is above zero.
func hasToken(data []byte, stat zk.Stat, token int64) bool {
	return stat.Czxid == token || queue.ReadNote(data).Token == token
}

// onTokenIn calls f with every such node of one directory, and counts them. It also returns the list.
func onTokenIn(ctx context.Context, c *zk.Client, dir string, token int64, f func(node string) error) (listed []string, found int, err error) {
	listed, err = queue.Children(ctx, c, dir)
	if err != nil {
		return nil, 0, err
	}
	results, err := queue.Read(ctx, c, dir, listed) // of whatever layout: the token says enough
	if err != nil {
		return nil, 0, err
	}
	for i, r := range results {
		if r.Err != nil || r.Stat.EphemeralOwner == 0 && !names.IsDetached(listed[i]) || !hasToken(r.Data, r.Stat, token) {
			continue
		}
		err := f(dir + "/" + listed[i])
		switch {
		case errors.Is(err, zk.ErrNoNode): // it went by itself
		case err != nil:
			return nil, found, err
		default:
			found++
		}
	}
	return listed, found, nil
}
