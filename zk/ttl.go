package zk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/zkproto"
)

// CreateTTL is Create of a node that the server removes when it has had no children and no
// changes of its data for ttl. The ttl is 1 ms to about 34 years, in whole milliseconds. The
// server checks once a minute by default. The mode is Persistent or PersistentSequential.
//
// Needs ZooKeeper 3.5.3, started with -Dzookeeper.extendedTypesEnabled=true. Without that
// option, the server answers ErrUnimplemented, and keeps the connection.
func (c *Calls) CreateTTL(ctx context.Context, path string, data []byte, mode Mode, ttl time.Duration, acl ...ACL) (string, Stat, error) {
	op := zkproto.OpCreateTTL
	m, err := c.createTTL(path, data, mode, ttl, acl)
	if err != nil {
		return "", Stat{}, &Error{Op: op.String(), Path: path, Err: err}
	}
	var reply zkproto.Create2Response
	if err := c.roundTrip(ctx, op, path, m, &reply, nil); err != nil {
		return "", Stat{}, err
	}
	return strings.TrimPrefix(reply.Path, c.chroot), reply.Stat, nil
}

// CreateTTLOp is CreateTTL.
func CreateTTLOp(path string, data []byte, mode Mode, ttl time.Duration, acl ...ACL) Op {
	return Op{kind: zkproto.OpCreateTTL, path: path, data: data, mode: mode, ttl: ttl, acl: slices.Clone(acl)}
}

func (c *Calls) createTTL(path string, data []byte, mode Mode, ttl time.Duration, acl []ACL) (*zkproto.CreateTTLRequest, error) {
	flags := zkproto.FlagTTL
	switch mode {
	case Persistent:
	case PersistentSequential:
		flags = zkproto.FlagSequentialTTL
	default:
		return nil, fmt.Errorf("%w: a node with a time to live is Persistent or PersistentSequential", ErrBadArguments)
	}
	if err := validateNew(path, mode); err != nil {
		return nil, err
	}
	ms := ttl.Milliseconds()
	if ms < 1 || ms > zkproto.MaxTTL {
		return nil, fmt.Errorf("%w: time to live %v, want 1 ms to %v", ErrBadArguments, ttl, zkproto.MaxTTL*time.Millisecond)
	}
	_, m := c.create(path, data, mode, acl)
	return &zkproto.CreateTTLRequest{Path: m.Path, Data: m.Data, ACL: m.ACL, Flags: flags, TTL: ms}, nil
}
