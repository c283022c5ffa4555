package zk

import (
	"context"
	"crypto/sha1"
	"encoding/base64"

	"holdfast/zkproto"
)

// DigestACL is the entry for whoever identifies as [DigestAuth] of user and password. The
// password is not in it, only a hash. For oneself there is the scheme "auth", with no ID:
// whatever this client has identified itself as.
func DigestACL(perms int32, user, password string) ACL {
	hash := sha1.Sum([]byte(user + ":" + password))
	return ACL{Perms: perms, Scheme: schemeDigest, ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// GetACL reads who may do what with a node. Without the permission to change it,
// servers show the hashes of digest entries as "x". Errors: ErrNoNode,
// ErrNoAuth.
func (c calls) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	var reply zkproto.GetACLResponse
	m := &zkproto.GetACLRequest{Path: c.node(path)}
	if err := c.do(ctx, zkproto.OpGetACL, path, m, &reply, nil); err != nil {
		return nil, Stat{}, err
	}
	return reply.ACL, reply.Stat, nil
}

// SetACL replaces a node's ACL if that has the version given (Stat.Aversion;
// AnyVersion: any). The ACL counts for this node only, not for those below, and no
// watch fires. Errors: ErrNoNode, ErrBadVersion, ErrNoAuth, ErrInvalidACL (an empty
// one, too).
func (c calls) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	var reply zkproto.StatResponse
	m := &zkproto.SetACLRequest{Path: c.node(path), ACL: acl, Version: version}
	if err := c.do(ctx, zkproto.OpSetACL, path, m, &reply, nil); err != nil {
		return Stat{}, err
	}
	return reply.Stat, nil
}
