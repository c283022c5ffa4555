package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast/zkproto"
)

// CreateAll creates a node and the missing nodes above it, unless they exist. The new nodes are
// persistent and have null data. Without acl, everyone has all permissions. CreateAll sends its
// requests again after a lost connection, and while the server throttles. It needs no permission
// on the nodes above the first one that exists. It does not create the chroot (see
// Config.CreateChroot). Errors: ErrNoNode (of the chroot), ErrNoChildrenForEphemerals, ErrNoAuth,
// ErrInvalidACL, ErrQuotaExceeded.
func (c *Calls) CreateAll(ctx context.Context, path string, acl ...ACL) error {
	// The second attempt at a session that is over has no effect, so it is the last.
	again := func(err error) bool {
		return SafeToRetry(err) || errors.Is(err, ErrConnectionLoss) || errors.Is(err, ErrSessionExpired) && MayHaveHappened(err)
	}
	// We begin at the node itself, because that may be the only one that the client has access
	// to. The client may be allowed neither to create the nodes above it nor, since 3.8.4, to ask
	// whether they exist (ZOOKEEPER-2590). If a server refuses a read, the node exists.
	ensure := func() error {
		_, _, err := c.Get(ctx, path)
		switch {
		case errors.Is(err, ErrNoAuth):
			return nil
		case !errors.Is(err, ErrNoNode):
			return err
		case path == "/":
			return &Error{Op: zkproto.OpCreate.String(), Path: path, Err: fmt.Errorf("%w: create the chroot, for example with Config.CreateChroot", ErrNoNode)}
		}
		if _, _, err = c.Create(ctx, path, nil, Persistent, acl...); errors.Is(err, ErrNodeExists) {
			return nil
		}
		return err
	}
	for {
		err := RetryIf(ctx, again, ensure)
		if !errors.Is(err, ErrNoNode) || path == "/" {
			return err
		}
		if err := c.CreateAll(ctx, path[:max(strings.LastIndexByte(path, '/'), 1)], acl...); err != nil {
			return err
		}
	}
}
