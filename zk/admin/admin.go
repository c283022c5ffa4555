// Package admin has the operations of ZooKeeper that only operators use: the members of an ensemble and their change, the identities of a client, the size of a
// tree.
package admin

import (
	"context"

	"holdfast/zk"
	"holdfast/zk/internal/raw"
	"holdfast/zkproto"
)

// A Caller is a [*zk.Client] or a [*zk.Session].
type Caller interface {
	Chroot() string
	Raw(ctx context.Context, r raw.Request) (*zk.Watch, error)
}

// A ClientInfo is an identity of a client.
type ClientInfo = zkproto.ClientInfo

// WhoAmI returns the identities that the server knows this client by, in no order: its address,
// scheme "ip", and its authenticated identities. For a digest identity, the server returns the
// user's name only.
//
// Needs ZooKeeper 3.7. Older servers answer zk.ErrUnimplemented and close the connection.
func WhoAmI(ctx context.Context, c Caller) ([]ClientInfo, error) {
	var reply zkproto.WhoAmIResponse
	if _, err := c.Raw(ctx, raw.Request{Op: zkproto.OpWhoAmI, Reply: &reply}); err != nil {
		return nil, err
	}
	return reply.Infos, nil
}

// AllChildrenNumber counts the nodes below a node, at any depth. Errors: zk.ErrNoNode,
// zk.ErrNoAuth.
//
// Needs ZooKeeper 3.6. Older servers answer zk.ErrUnimplemented and close the connection.
func AllChildrenNumber(ctx context.Context, c Caller, path string) (int, error) {
	op := zkproto.OpGetAllChildrenNumber
	if err := zk.ValidatePath(path); err != nil {
		return 0, &zk.Error{Op: op.String(), Path: path, Err: err}
	}
	node := c.Chroot() + path
	if path == "/" && c.Chroot() != "" {
		node = c.Chroot()
	}
	var reply zkproto.GetAllChildrenNumberResponse
	m := &zkproto.GetAllChildrenNumberRequest{Path: node}
	if _, err := c.Raw(ctx, raw.Request{Op: op, Path: path, Body: m, Reply: &reply}); err != nil {
		return 0, err
	}
	return int(reply.Total), nil
}
