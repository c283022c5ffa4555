package zk

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/zkproto"
)

// calls are the operations that a Client and a Session share. Every one of them
// waits for the answer, for a connection first if there is none, and at most until
// ctx ends; what the error then says of the request, MayHaveHappened tells.
type calls struct {
	chroot string
	pool   *sync.Pool // of requests
	trace  *Trace

	// send sends reqs together and returns when each has a result.
	send func(ctx context.Context, reqs []*request)
}

// node is the path as the server knows it.
func (c calls) node(path string) string {
	switch {
	case c.chroot == "":
		return path
	case path == "/":
		return c.chroot
	}
	return c.chroot + path
}

// do checks path, sends one request and waits for its answer.
func (c calls) do(ctx context.Context, op zkproto.Op, path string, body encoder, reply decoder, watch *Watch) error {
	if err := zkproto.ValidatePath(path); err != nil {
		return &Error{Op: op.String(), Path: path, Err: err}
	}
	return c.roundTrip(ctx, op, path, body, reply, watch)
}

func (c calls) roundTrip(ctx context.Context, op zkproto.Op, path string, body encoder, reply decoder, watch *Watch) error {
	r := newRequest(op, path, body, reply)
	r.watch = watch
	return c.exchange(ctx, r)
}

// exchange sends r and waits for its answer.
func (c calls) exchange(ctx context.Context, r *request) error {
	if err := r.check(); err != nil {
		return r.fail(err, false)
	}
	if ctx.Err() != nil {
		return r.fail(context.Cause(ctx), false)
	}
	if c.trace == nil || c.trace.RequestDone == nil {
		c.send(ctx, r.self[:])
		return r.result()
	}
	began := time.Now()
	c.send(ctx, r.self[:])
	err := r.result()
	c.trace.RequestDone(r.op.String(), r.path, time.Since(began), err)
	return err
}

// read sends one of the reads, with reply inside r or nil, from the pool.
func (c calls) read(ctx context.Context, op zkproto.Op, path string, watch *Watch) (*request, error) {
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

func (c calls) newWatch(path string, kind watchKind) *Watch {
	ch := make(chan Event, 1)
	return &Watch{C: ch, c: ch, path: path, node: c.node(path), kind: kind}
}

// Create makes a node and returns its path, which is longer than the one given if
// mode is sequential. Nil data is stored as ZooKeeper's null. Without acl, everybody
// may do everything. Errors: ErrNodeExists, ErrNoNode (of the parent),
// ErrNoChildrenForEphemerals, ErrNoAuth, ErrInvalidACL.
func (c calls) Create(ctx context.Context, path string, data []byte, mode Mode, acl ...ACL) (string, Stat, error) {
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

func (c calls) create(path string, data []byte, mode Mode, acl []ACL) (zkproto.Op, zkproto.CreateRequest) {
	if len(acl) == 0 {
		acl = openACL
	}
	op := zkproto.OpCreate2
	if mode == Container {
		op = zkproto.OpCreateContainer
	}
	return op, zkproto.CreateRequest{Path: c.node(path), Data: data, ACL: acl, Flags: int32(mode)}
}

// validateNew checks the path of a node to be made: of a sequential one, what the
// server will make of it.
func validateNew(path string, mode Mode) error {
	switch mode {
	case PersistentSequential, EphemeralSequential:
		return zkproto.ValidatePath(path + "0")
	case Persistent, Ephemeral, Container:
		return zkproto.ValidatePath(path)
	}
	return fmt.Errorf("%w: unknown mode %d", ErrBadArguments, mode)
}

// Get reads a node's data. Null data is nil.
func (c calls) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	r, err := c.read(ctx, zkproto.OpGetData, path, nil)
	return r.takeData(err)
}

// GetW is Get, and a watch for the next change or the deletion of the node. If the
// node does not exist there is no watch.
func (c calls) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	w := c.newWatch(path, watchData)
	r, err := c.read(ctx, zkproto.OpGetData, path, w)
	data, stat, err := r.takeData(err)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return data, stat, w, nil
}

// takeData is the answer to a Get that ended with err; r is nil if it was not sent.
func (r *request) takeData(err error) ([]byte, Stat, error) {
	if r != nil {
		defer r.put()
	}
	if err != nil {
		return nil, Stat{}, err
	}
	return r.data.Data, r.data.Stat, nil
}

// dataReply keeps the data beyond the life of the connection's buffer.
type dataReply struct{ zkproto.GetDataResponse }

func (d *dataReply) Decode(r *zkproto.Reader) {
	d.GetDataResponse.Decode(r)
	d.Data = bytes.Clone(d.Data)
}

// Exists reports whether a node exists, and its Stat if it does. That it does not is
// no error.
func (c calls) Exists(ctx context.Context, path string) (Stat, bool, error) {
	r, err := c.read(ctx, zkproto.OpExists, path, nil)
	return r.takeExists(err)
}

// ExistsW is Exists, and a watch for the node's creation, next change or deletion.
func (c calls) ExistsW(ctx context.Context, path string) (Stat, bool, *Watch, error) {
	w := c.newWatch(path, watchData)
	r, err := c.read(ctx, zkproto.OpExists, path, w)
	stat, ok, err := r.takeExists(err)
	if err != nil {
		return Stat{}, false, nil, err
	}
	return stat, ok, w, nil
}

// takeExists is the answer to an Exists that ended with err; r is nil if it was not sent.
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
func (c calls) Children(ctx context.Context, path string) ([]string, Stat, error) {
	var reply zkproto.Children2Response
	err := c.do(ctx, zkproto.OpGetChildren2, path, &zkproto.ReadRequest{Path: c.node(path)}, &reply, nil)
	if err != nil {
		return nil, Stat{}, err
	}
	return reply.Children, reply.Stat, nil
}

// ChildrenW is Children, and a watch for the next child that comes or goes, and for
// the node's deletion.
func (c calls) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	var reply zkproto.Children2Response
	w := c.newWatch(path, watchChild)
	err := c.do(ctx, zkproto.OpGetChildren2, path, &zkproto.ReadRequest{Path: w.node, Watch: true}, &reply, w)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return reply.Children, reply.Stat, w, nil
}

// Set replaces a node's data if its version is the one given (AnyVersion: any).
// Errors: ErrNoNode, ErrBadVersion, ErrNoAuth.
func (c calls) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
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

// Delete removes a node if its version is the one given (AnyVersion: any).
// Errors: ErrNoNode, ErrBadVersion, ErrNotEmpty, ErrNoAuth.
func (c calls) Delete(ctx context.Context, path string, version int32) error {
	if err := zkproto.ValidatePath(path); err != nil {
		return &Error{Op: zkproto.OpDelete.String(), Path: path, Err: err}
	}
	r := c.request(zkproto.OpDelete, path)
	r.frame = (&zkproto.DeleteRequest{Path: c.node(path), Version: version}).Append(r.frame)
	r.seal()
	defer r.put()
	return c.exchange(ctx, r)
}

// Sync waits until the server that we talk to has caught up with what its leader
// had committed when the request arrived there. The path need not exist.
func (c calls) Sync(ctx context.Context, path string) error {
	m := &zkproto.SyncRequest{Path: c.node(path)}
	return c.do(ctx, zkproto.OpSync, path, m, &zkproto.SyncRequest{}, nil)
}

// An Op is an operation for Multi or Pipeline. The functions whose names end in Op
// make them.
type Op struct {
	kind    zkproto.Op
	path    string
	data    []byte
	acl     []ACL
	mode    Mode
	version int32
	ttl     time.Duration
}

// CreateOp is Create. See there for what the arguments mean.
func CreateOp(path string, data []byte, mode Mode, acl ...ACL) Op {
	return Op{kind: zkproto.OpCreate2, path: path, data: data, mode: mode, acl: slices.Clone(acl)}
}

// SetOp is Set.
func SetOp(path string, data []byte, version int32) Op {
	return Op{kind: zkproto.OpSetData, path: path, data: data, version: version}
}

// DeleteOp is Delete.
func DeleteOp(path string, version int32) Op {
	return Op{kind: zkproto.OpDelete, path: path, version: version}
}

// CheckOp fails the transaction unless the node exists and has the version given.
// It is for Multi only.
func CheckOp(path string, version int32) Op {
	return Op{kind: zkproto.OpCheck, path: path, version: version}
}

// GetOp is Get, for Pipeline and MultiRead only.
func GetOp(path string) Op { return Op{kind: zkproto.OpGetData, path: path} }

// ExistsOp is Exists, for Pipeline only. That the node does not exist is, unlike
// there, the error ErrNoNode.
func ExistsOp(path string) Op { return Op{kind: zkproto.OpExists, path: path} }

// ChildrenOp is Children, for Pipeline and MultiRead only.
func ChildrenOp(path string) Op { return Op{kind: zkproto.OpGetChildren2, path: path} }

// A Result is the outcome of one Op. Which fields are set depends on the operation.
type Result struct {
	Path     string // of the node created
	Data     []byte
	Stat     Stat
	Children []string
	Err      error
}

// check says what is wrong with o before it is sent.
func (o Op) check() error {
	if o.kind == zkproto.OpCreate2 || o.kind == zkproto.OpCreateTTL {
		return validateNew(o.path, o.mode)
	}
	return zkproto.ValidatePath(o.path)
}

func (o Op) fail(err error) error {
	return &Error{Op: o.kind.String(), Path: o.path, Err: err}
}

// Multi executes ops as one transaction: all or none. When the server refuses it,
// the error is that of the operation at fault, and every Result says what became of
// it (ErrNotTried for those behind). An invalid operation is refused before anything
// is sent; then, and when no answer came, there are no results.
func (c calls) Multi(ctx context.Context, ops ...Op) ([]Result, error) {
	m := &zkproto.MultiRequest{Ops: make([]zkproto.MultiOp, len(ops))}
	for i, o := range ops {
		if err := o.check(); err != nil {
			return nil, o.fail(err)
		}
		w := zkproto.MultiOp{Op: o.kind, Path: c.node(o.path), Data: o.data, Version: o.version}
		switch o.kind {
		case zkproto.OpCreate2:
			op, create := c.create(o.path, o.data, o.mode, o.acl)
			w.Op, w.ACL, w.Flags = op, create.ACL, create.Flags
		case zkproto.OpCreateTTL:
			create, err := c.createTTL(o.path, o.data, o.mode, o.ttl, o.acl)
			if err != nil {
				return nil, o.fail(err)
			}
			w.ACL, w.Flags, w.TTL = create.ACL, create.Flags, create.TTL
		case zkproto.OpSetData, zkproto.OpDelete, zkproto.OpCheck:
		default:
			return nil, o.fail(fmt.Errorf("%w: reads cannot be part of a transaction", ErrBadArguments))
		}
		m.Ops[i] = w
	}
	var reply zkproto.MultiResponse
	if err := c.roundTrip(ctx, zkproto.OpMulti, "", m, &reply, nil); err != nil {
		return nil, err
	}
	if len(reply.Results) != len(ops) {
		return nil, &Error{Op: zkproto.OpMulti.String(), Err: fmt.Errorf("%d operations, %d results", len(ops), len(reply.Results))}
	}
	results := make([]Result, len(ops))
	var first error
	for i, r := range reply.Results {
		results[i] = Result{Path: strings.TrimPrefix(r.Path, c.chroot), Stat: r.Stat}
		if r.Op != zkproto.OpError {
			continue
		}
		results[i] = Result{}
		if r.Err == zkproto.CodeOK { // undone, through no fault of its own
			continue
		}
		results[i].Err = ops[i].fail(r.Err)
		if first == nil {
			first = results[i].Err
		}
	}
	return results, first
}

// Pipeline sends ops in one go, without waiting for an answer in between; the server
// executes them in order, each for itself. Every operation has a Result; the error is
// the first that a Result has.
func (c calls) Pipeline(ctx context.Context, ops ...Op) ([]Result, error) {
	results := make([]Result, len(ops))
	reqs := make([]*request, len(ops))
	take := make([]func(*Result), len(ops))
	for i, o := range ops {
		var err error
		if reqs[i], take[i], err = c.pipelined(o); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, &Error{Op: "pipeline", Err: context.Cause(ctx)}
	}
	began := time.Now()
	c.send(ctx, reqs)
	var first error
	for i, r := range reqs {
		results[i].Err = r.result()
		if c.trace != nil && c.trace.RequestDone != nil {
			c.trace.RequestDone(r.op.String(), r.path, time.Since(began), results[i].Err)
		}
		if results[i].Err == nil {
			take[i](&results[i])
		} else if first == nil {
			first = results[i].Err
		}
	}
	return results, first
}

// pipelined makes o a request of its own, and a function that takes the answer.
func (c calls) pipelined(o Op) (*request, func(*Result), error) {
	if err := o.check(); err != nil {
		return nil, nil, o.fail(err)
	}
	var r *request
	var take func(*Result)
	read := &zkproto.ReadRequest{Path: c.node(o.path)}
	switch o.kind {
	case zkproto.OpCreate2:
		op, m := c.create(o.path, o.data, o.mode, o.acl)
		var reply zkproto.Create2Response
		r = newRequest(op, o.path, &m, &reply)
		take = func(res *Result) {
			res.Path, res.Stat = strings.TrimPrefix(reply.Path, c.chroot), reply.Stat
		}
	case zkproto.OpCreateTTL:
		m, err := c.createTTL(o.path, o.data, o.mode, o.ttl, o.acl)
		if err != nil {
			return nil, nil, o.fail(err)
		}
		var reply zkproto.Create2Response
		r = newRequest(o.kind, o.path, m, &reply)
		take = func(res *Result) {
			res.Path, res.Stat = strings.TrimPrefix(reply.Path, c.chroot), reply.Stat
		}
	case zkproto.OpSetData:
		var reply zkproto.StatResponse
		r = newRequest(o.kind, o.path, &zkproto.SetDataRequest{Path: read.Path, Data: o.data, Version: o.version}, &reply)
		take = func(res *Result) { res.Stat = reply.Stat }
	case zkproto.OpDelete:
		r = newRequest(o.kind, o.path, &zkproto.DeleteRequest{Path: read.Path, Version: o.version}, nil)
		take = func(*Result) {}
	case zkproto.OpGetData:
		var reply dataReply
		r = newRequest(o.kind, o.path, read, &reply)
		take = func(res *Result) { res.Data, res.Stat = reply.Data, reply.Stat }
	case zkproto.OpExists:
		var reply zkproto.StatResponse
		r = newRequest(o.kind, o.path, read, &reply)
		take = func(res *Result) { res.Stat = reply.Stat }
	case zkproto.OpGetChildren2:
		var reply zkproto.Children2Response
		r = newRequest(o.kind, o.path, read, &reply)
		take = func(res *Result) { res.Children, res.Stat = reply.Children, reply.Stat }
	default:
		return nil, nil, o.fail(fmt.Errorf("%w: a check is part of a transaction only", ErrBadArguments))
	}
	if err := r.check(); err != nil {
		return nil, nil, r.fail(err, false)
	}
	return r, take, nil
}
