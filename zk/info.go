package zk

import (
	"context"
	"strings"

	"holdfast/zkproto"
)

// Ephemerals lists the ephemeral nodes of the session whose paths start with prefix, in no
// order. The prefix starts with a slash and is compared byte by byte: "/a" also finds "/ab".
// "/" finds all ephemeral nodes under the chroot.
//
// Needs ZooKeeper 3.6. Older servers answer ErrUnimplemented and close the connection.
func (c *Calls) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	op := zkproto.OpGetEphemerals
	if err := zkproto.ValidatePath(prefix + "0"); err != nil {
		return nil, &Error{Op: op.String(), Path: prefix, Err: err}
	}
	// Not c.node: it would turn "/" into "/chroot", which also finds "/chroot2/a".
	m := &zkproto.GetEphemeralsRequest{Prefix: c.chroot + prefix}
	var reply zkproto.GetEphemeralsResponse
	if err := c.roundTrip(ctx, op, prefix, m, &reply, nil); err != nil {
		return nil, err
	}
	for i := range reply.Paths {
		reply.Paths[i] = strings.TrimPrefix(reply.Paths[i], c.chroot)
	}
	return reply.Paths, nil
}
