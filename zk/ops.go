package zk

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"holdfast/zk/internal/raw"
	"holdfast/zkproto"
)

// Calls are the operations of a [Client], which makes them in its current session, and of a
// [Session]. Each waits for a connection if there is none, and then for the answer, until ctx
// ends. [MayHaveHappened] reports whether the request of a failed call may have been executed.
// Calls are part of a Client or a Session, and of no use alone.
type Calls struct {
	chroot string
	pool   *sync.Pool // of requests
	trace  *Trace

	// send sends reqs together and returns when each has a result.
	send func(ctx context.Context, reqs []*request)
}

// Chroot returns the prefix of every path that is sent to the server, "" if there is none. Two
// clients of one ensemble mean the same node if chroot and path together are the same.
func (c *Calls) Chroot() string { return c.chroot }

// node returns the path as the server knows it.
func (c *Calls) node(path string) string {
	switch {
	case c.chroot == "":
		return path
	case path == "/":
		return c.chroot
	}
	return c.chroot + path
}

// do checks path, sends one request and waits for its answer.
func (c *Calls) do(ctx context.Context, op zkproto.Op, path string, body encoder, reply decoder, watch *Watch) error {
	if err := zkproto.ValidatePath(path); err != nil {
		return &Error{Op: op.String(), Path: path, Err: err}
	}
	return c.roundTrip(ctx, op, path, body, reply, watch)
}

func (c *Calls) roundTrip(ctx context.Context, op zkproto.Op, path string, body encoder, reply decoder, watch *Watch) error {
	r := newRequest(op, path, body, reply)
	r.watch = watch
	return c.exchange(ctx, r)
}

// exchange sends r and waits for its answer.
func (c *Calls) exchange(ctx context.Context, r *request) error {
	if err := r.check(); err != nil {
		return r.fail(err, false)
	}
	if ctx.Err() != nil {
		return r.fail(ended(ctx), false)
	}
	began := c.trace.tick()
	c.send(ctx, r.self[:])
	err := r.result()
	c.trace.requestDone(ctx, r, c.trace.tick()-began, err)
	return err
}

// read sends a read from the pool. The reply is inside the returned request, which is nil if
// the path is invalid.
func (c *Calls) read(ctx context.Context, op zkproto.Op, path string, watch *Watch) (*request, error) {
	if err := zkproto.ValidatePath(path); err != nil {
		return nil, &Error{Op: op.String(), Path: path, Err: err}
	}
	r := c.request(op, path)
	r.frame = (&zkproto.ReadRequest{Path: c.node(path), Watch: watch != nil}).Append(r.frame)
	r.seal()
	r.watch = watch
	if op == zkproto.OpGetData {
		r.reply = &r.data
	} else {
		r.reply = &r.stat
	}
	return r, c.exchange(ctx, r)
}

func (c *Calls) newWatch(path string, kind watchKind) *Watch {
	ch := make(chan Event, 1)
	return &Watch{C: ch, c: ch, node: c.node(path), chroot: uint32(len(c.chroot)), kind: kind}
}

// Create creates a node and returns its path; a sequential mode appends a number to the given
// path. Nil data is stored as ZooKeeper's null. Without acl, everyone has all permissions.
// Errors: ErrNodeExists, ErrNoNode (of the parent), ErrNoChildrenForEphemerals, ErrNoAuth,
// ErrInvalidACL, ErrTooLarge (data above 1 MiB), ErrQuotaExceeded.
func (c *Calls) Create(ctx context.Context, path string, data []byte, mode Mode, acl ...ACL) (string, Stat, error) {
	if err := validateNew(path, mode); err != nil {
		return "", Stat{}, &Error{Op: zkproto.OpCreate.String(), Path: path, Err: err}
	}
	op, m := c.create(path, data, mode, acl)
	r := c.request(op, path)
	r.frame = m.Append(r.frame)
	r.seal()
	r.reply = &r.created
	defer r.put()
	if err := c.exchange(ctx, r); err != nil {
		return "", Stat{}, err
	}
	return strings.TrimPrefix(r.created.Path, c.chroot), r.created.Stat, nil
}

func (c *Calls) create(path string, data []byte, mode Mode, acl []ACL) (zkproto.Op, zkproto.CreateRequest) {
	if len(acl) == 0 {
		acl = openACL
	}
	op := zkproto.OpCreate2
	if mode == Container {
		op = zkproto.OpCreateContainer
	}
	return op, zkproto.CreateRequest{Path: c.node(path), Data: data, ACL: acl, Flags: int32(mode)}
}

// validateNew checks the path of a new node. For a sequential node, it checks the path with a
// number appended.
func validateNew(path string, mode Mode) error {
	switch mode {
	case PersistentSequential, EphemeralSequential:
		return zkproto.ValidatePath(path + "0")
	case Persistent, Ephemeral, Container:
		return zkproto.ValidatePath(path)
	}
	return fmt.Errorf("%w: unknown mode %d", ErrBadArguments, mode)
}

// Get reads a node's data. The caller owns it and may change it. Null data is nil, empty data
// is not. Errors: ErrNoNode, ErrNoAuth.
func (c *Calls) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	r, err := c.read(ctx, zkproto.OpGetData, path, nil)
	return r.takeData(err)
}

// GetW is Get with a watch for the next change or the deletion of the node. If the node does
// not exist, there is no watch.
func (c *Calls) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	w := c.newWatch(path, watchData)
	r, err := c.read(ctx, zkproto.OpGetData, path, w)
	data, stat, err := r.takeData(err)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return data, stat, w, nil
}

// takeData returns the answer to a Get that ended with err. r is nil if it was not sent.
func (r *request) takeData(err error) ([]byte, Stat, error) {
	if r != nil {
		defer r.put()
	}
	if err != nil {
		return nil, Stat{}, err
	}
	return r.data.Data, r.data.Stat, nil
}

// dataReply copies the data, because the connection reuses its buffer.
type dataReply struct{ zkproto.GetDataResponse }

func (d *dataReply) Decode(r *zkproto.Reader) {
	d.GetDataResponse.Decode(r)
	d.Data = bytes.Clone(d.Data)
}

// Exists reports whether a node exists, and its Stat if it does. A missing node is no error.
// Errors: ErrNoAuth, from servers since 3.8.4 and 3.9.2.
func (c *Calls) Exists(ctx context.Context, path string) (Stat, bool, error) {
	r, err := c.read(ctx, zkproto.OpExists, path, nil)
	return r.takeExists(err)
}

// ExistsW is Exists with a watch for the node's creation, next change or deletion. Servers
// since 3.8.4 and 3.9.2 send no event for a node that the client may not read.
func (c *Calls) ExistsW(ctx context.Context, path string) (Stat, bool, *Watch, error) {
	w := c.newWatch(path, watchData)
	r, err := c.read(ctx, zkproto.OpExists, path, w)
	stat, ok, err := r.takeExists(err)
	if err != nil {
		return Stat{}, false, nil, err
	}
	return stat, ok, w, nil
}

// takeExists returns the answer to an Exists that ended with err. r is nil if it was not sent.
func (r *request) takeExists(err error) (Stat, bool, error) {
	if r != nil {
		defer r.put()
	}
	switch e, _ := err.(*Error); {
	case err == nil:
		return r.stat.Stat, true, nil
	case e != nil && e.Err == ErrNoNode:
		return Stat{}, false, nil
	}
	return Stat{}, false, err
}

// Children lists the names of a node's children, in no order, and the node's Stat.
// Errors: ErrNoNode, ErrNoAuth, ErrTooLarge if the answer is longer than 33 MiB.
func (c *Calls) Children(ctx context.Context, path string) ([]string, Stat, error) {
	var reply zkproto.Children2Response
	err := c.do(ctx, zkproto.OpGetChildren2, path, &zkproto.ReadRequest{Path: c.node(path)}, &reply, nil)
	if err != nil {
		return nil, Stat{}, err
	}
	return reply.Children, reply.Stat, nil
}

// ChildrenW is Children with a watch for the next creation or deletion of a child, and for the
// node's deletion.
func (c *Calls) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	var reply zkproto.Children2Response
	w := c.newWatch(path, watchChild)
	err := c.do(ctx, zkproto.OpGetChildren2, path, &zkproto.ReadRequest{Path: w.node, Watch: true}, &reply, w)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return reply.Children, reply.Stat, w, nil
}

// Set replaces a node's data if its version is the given one (AnyVersion: any). Errors:
// ErrNoNode, ErrBadVersion, ErrNoAuth, ErrTooLarge (data above 1 MiB), ErrQuotaExceeded.
func (c *Calls) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	if err := zkproto.ValidatePath(path); err != nil {
		return Stat{}, &Error{Op: zkproto.OpSetData.String(), Path: path, Err: err}
	}
	r := c.request(zkproto.OpSetData, path)
	r.frame = (&zkproto.SetDataRequest{Path: c.node(path), Data: data, Version: version}).Append(r.frame)
	r.seal()
	r.reply = &r.stat
	defer r.put()
	if err := c.exchange(ctx, r); err != nil {
		return Stat{}, err
	}
	return r.stat.Stat, nil
}

// Delete removes a node if its version is the given one (AnyVersion: any). Errors: ErrNoNode,
// ErrBadVersion, ErrNotEmpty, ErrNoAuth.
func (c *Calls) Delete(ctx context.Context, path string, version int32) error {
	if err := zkproto.ValidatePath(path); err != nil {
		return &Error{Op: zkproto.OpDelete.String(), Path: path, Err: err}
	}
	r := c.request(zkproto.OpDelete, path)
	r.frame = (&zkproto.DeleteRequest{Path: c.node(path), Version: version}).Append(r.frame)
	r.seal()
	defer r.put()
	return c.exchange(ctx, r)
}

// Raw is for package holdfast/zk/admin: it sends a request and waits for its answer.
func (c *Calls) Raw(ctx context.Context, r raw.Request) (*Watch, error) {
	var w *Watch
	if r.Watch {
		w = (&Calls{}).newWatch(r.Path, watchData)
	}
	if err := c.roundTrip(ctx, r.Op, r.Path, r.Body, r.Reply, w); err != nil {
		return nil, err
	}
	return w, nil
}

// Sync waits until the connected server has applied everything that its leader had committed
// when the request arrived there. The path need not exist. If the server is the leader itself,
// ZooKeeper 3.8 answers at once, though it may have applied less than a follower has shown.
// After a Multi with a CheckOp, the leader shows all of it.
func (c *Calls) Sync(ctx context.Context, path string) error {
	m := &zkproto.SyncRequest{Path: c.node(path)}
	return c.do(ctx, zkproto.OpSync, path, m, &zkproto.SyncRequest{}, nil)
}
