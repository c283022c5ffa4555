package zk

import (
	"context"
	"crypto/sha1"
	"encoding/base64"

	"holdfast/zkproto"
)

// DigestACL is the entry for clients that authenticate with [DigestAuth] of user and password.
// It has a hash of the password, not the password. To give this client access under its own
// identities, use the scheme "auth" with no ID.
func DigestACL(perms int32, user, password string) ACL {
	hash := sha1.Sum([]byte(user + ":" + password))
	return ACL{Perms: perms, Scheme: schemeDigest, ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// GetACL reads a node's ACL. To clients without permission to change it, servers show the
// hashes of digest entries as "x". Errors: ErrNoNode, ErrNoAuth.
func (c *Calls) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	var reply zkproto.GetACLResponse
	m := &zkproto.GetACLRequest{Path: c.node(path)}
	if err := c.do(ctx, zkproto.OpGetACL, path, m, &reply, nil); err != nil {
		return nil, Stat{}, err
	}
	return reply.ACL, reply.Stat, nil
}

// SetACL replaces a node's ACL if the ACL's version is the given one (Stat.Aversion;
// AnyVersion: any). The ACL applies to this node only, not to those below, and no watch fires.
// Errors: ErrNoNode, ErrBadVersion, ErrNoAuth, ErrInvalidACL (also for an empty one).
func (c *Calls) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	var reply zkproto.StatResponse
	m := &zkproto.SetACLRequest{Path: c.node(path), ACL: acl, Version: version}
	if err := c.do(ctx, zkproto.OpSetACL, path, m, &reply, nil); err != nil {
		return Stat{}, err
	}
	return reply.Stat, nil
}
