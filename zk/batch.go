package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/zkproto"
)

// An Op is an operation for Multi, MultiRead or Pipeline. The functions whose names end in Op
// make one.
type Op struct {
	kind    zkproto.Op
	path    string
	data    []byte
	acl     []ACL
	mode    Mode
	version int32
	ttl     time.Duration
	watch   bool
}

// CreateOp is Create, with the same arguments.
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

// CheckOp fails the transaction unless the node exists and has the given version. It is for
// Multi only.
func CheckOp(path string, version int32) Op {
	return Op{kind: zkproto.OpCheck, path: path, version: version}
}

// GetOp is Get, for Pipeline and MultiRead only.
func GetOp(path string) Op { return Op{kind: zkproto.OpGetData, path: path} }

// GetWOp is GetW, for Pipeline only.
func GetWOp(path string) Op { return Op{kind: zkproto.OpGetData, path: path, watch: true} }

// ExistsOp is Exists, for Pipeline only. Unlike Exists, it reports a missing node as the error
// ErrNoNode.
func ExistsOp(path string) Op { return Op{kind: zkproto.OpExists, path: path} }

// ExistsWOp is ExistsW, for Pipeline only. A missing node is the error ErrNoNode, and the Result has the watch all the
// same.
func ExistsWOp(path string) Op { return Op{kind: zkproto.OpExists, path: path, watch: true} }

// ChildrenOp is Children, for Pipeline and MultiRead only.
func ChildrenOp(path string) Op { return Op{kind: zkproto.OpGetChildren2, path: path} }

// ChildrenWOp is ChildrenW, for Pipeline only. The watch also fires when the node itself is
// deleted, but not when its data change.
func ChildrenWOp(path string) Op { return Op{kind: zkproto.OpGetChildren2, path: path, watch: true} }

// A Result is the outcome of one Op. Which fields are set depends on the operation.
type Result struct {
	Path     string // of the node created
	Data     []byte
	Stat     Stat
	Children []string
	Watch    *Watch // of a GetWOp, ExistsWOp or ChildrenWOp that succeeded
	Err      error
}

// check returns an error if o is invalid.
func (o Op) check() error {
	if o.kind == zkproto.OpCreate2 || o.kind == zkproto.OpCreateTTL {
		return validateNew(o.path, o.mode)
	}
	return zkproto.ValidatePath(o.path)
}

func (o Op) fail(err error) error {
	return &Error{Op: o.kind.String(), Path: o.path, Err: err}
}

// Multi executes ops as one transaction: all or none. If the server refuses it, the error is
// that of the failed operation, and every Result has its own outcome (ErrNotTried for the
// operations after the failed one). An invalid operation is refused before anything is sent. In
// that case, and if no answer came, there are no results.
func (c *Calls) Multi(ctx context.Context, ops ...Op) ([]Result, error) {
	r, err := c.transaction(ops)
	if err != nil {
		return nil, err
	}
	return c.outcome(ops, r, c.exchange(ctx, r))
}

// transaction returns the request for Multi.
func (c *Calls) transaction(ops []Op) (*request, error) {
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
	return newRequest(zkproto.OpMulti, "", m, &multiReply{want: len(ops)}), nil
}

// outcome returns the results of Multi from the answered request r, which err has ended.
func (c *Calls) outcome(ops []Op, r *request, err error) ([]Result, error) {
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(ops))
	var first error
	for i, r := range r.reply.(*multiReply).Results {
		results[i] = Result{Path: strings.TrimPrefix(r.Path, c.chroot), Stat: r.Stat}
		if r.Op != zkproto.OpError {
			continue
		}
		results[i] = Result{}
		if r.Err == zkproto.CodeOK { // rolled back because of another operation
			continue
		}
		results[i].Err = ops[i].fail(r.Err)
		if first == nil {
			first = results[i].Err
		}
	}
	return results, first
}

// StartMulti is Multi that does not wait: it queues the request and returns. Requests that the session
// makes later are sent after it. The function that it returns waits for the answer, or for the end of
// the session, and returns what Multi returns. Call it once.
func (s *Session) StartMulti(ops ...Op) (wait func() ([]Result, error)) {
	r, err := s.transaction(ops)
	if err == nil {
		if err = r.check(); err != nil {
			err = r.fail(err, false)
		}
	}
	if err != nil {
		return func() ([]Result, error) { return nil, err }
	}
	began := s.trace.tick()
	if err := s.enqueue(r.self[:]); err != nil {
		r.complete(r.fail(err, false))
	}
	return func() ([]Result, error) {
		<-r.done // completed at the end of the session at the latest
		r.answered = true
		s.trace.requestDone(context.Background(), r, s.trace.tick()-began, r.err)
		return s.outcome(ops, r, r.err)
	}
}

// multiReply is an answer with one result per operation.
type multiReply struct {
	zkproto.MultiResponse
	want int
}

func (m *multiReply) Decode(r *zkproto.Reader) {
	m.MultiResponse.Decode(r)
	wantResults(r, len(m.Results), m.want)
}

// wantResults refuses an answer with a wrong number of results, because they cannot be matched
// with the operations.
func wantResults(r *zkproto.Reader, got, want int) {
	if got != want {
		r.Fail("%d results for %d operations", got, want)
	}
}

// Pipeline sends ops together, without waiting for answers in between. The server executes them
// in order, each for itself. Each operation has its own Result; the error is the first one in
// the Results. If the connection is lost in the middle, the rest may be executed on the next one. It is ErrTooLarge if long answers of this client that have not been taken yet exceed 128 MiB
// together.
func (c *Calls) Pipeline(ctx context.Context, ops ...Op) ([]Result, error) {
	reqs := make([]*request, len(ops))
	for i, o := range ops {
		var err error
		if reqs[i], err = c.pipelined(o); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, &Error{Op: "pipeline", Err: ended(ctx)}
	}
	began := c.trace.tick()
	c.send(ctx, reqs)
	took := c.trace.tick() - began // the answers come together
	results := make([]Result, len(ops))
	var first error
	for i, r := range reqs {
		err := r.result()
		c.trace.requestDone(ctx, r, took, err)
		if results[i].Err = err; err == nil {
			results[i] = c.take(r)
		} else if first == nil {
			first = err
		}
		if o := ops[i]; o.watch && o.kind == zkproto.OpExists && errors.Is(err, ErrNoNode) {
			results[i].Watch = r.watch
		}
		r.put()
	}
	return results, first
}

// pipelined returns the request for o.
func (c *Calls) pipelined(o Op) (*request, error) {
	if err := o.check(); err != nil {
		return nil, o.fail(err)
	}
	r := c.request(o.kind, o.path)
	read := zkproto.ReadRequest{Path: c.node(o.path)}
	switch o.kind {
	case zkproto.OpCreate2:
		op, m := c.create(o.path, o.data, o.mode, o.acl)
		r.begin(op)
		r.frame = m.Append(r.frame)
		r.reply = &r.created
	case zkproto.OpCreateTTL:
		m, err := c.createTTL(o.path, o.data, o.mode, o.ttl, o.acl)
		if err != nil {
			return nil, o.fail(err)
		}
		r.frame = m.Append(r.frame)
		r.reply = &r.created
	case zkproto.OpSetData:
		r.frame = (&zkproto.SetDataRequest{Path: read.Path, Data: o.data, Version: o.version}).Append(r.frame)
		r.reply = &r.stat
	case zkproto.OpDelete:
		r.frame = (&zkproto.DeleteRequest{Path: read.Path, Version: o.version}).Append(r.frame)
	case zkproto.OpGetData:
		if read.Watch = o.watch; o.watch {
			r.watch = c.newWatch(o.path, watchData)
		}
		r.frame = read.Append(r.frame)
		r.reply = &r.data
	case zkproto.OpExists:
		if read.Watch = o.watch; o.watch {
			r.watch = c.newWatch(o.path, watchData)
		}
		r.frame = read.Append(r.frame)
		r.reply = &r.stat
	case zkproto.OpGetChildren2:
		if read.Watch = o.watch; o.watch {
			r.watch = c.newWatch(o.path, watchChild)
		}
		r.frame = read.Append(r.frame)
		r.reply = new(zkproto.Children2Response)
	default:
		return nil, o.fail(fmt.Errorf("%w: a check is part of a transaction only", ErrBadArguments))
	}
	r.seal()
	if err := r.check(); err != nil {
		return nil, r.fail(err, false)
	}
	return r, nil
}

// take returns the answer to a pipelined request that has succeeded.
func (c *Calls) take(r *request) Result {
	switch reply := r.reply.(type) {
	case *zkproto.Create2Response:
		return Result{Path: strings.TrimPrefix(reply.Path, c.chroot), Stat: reply.Stat}
	case *zkproto.StatResponse:
		return Result{Stat: reply.Stat, Watch: r.watch}
	case *dataReply:
		return Result{Data: reply.Data, Stat: reply.Stat, Watch: r.watch}
	case *zkproto.Children2Response:
		return Result{Children: reply.Children, Stat: reply.Stat, Watch: r.watch}
	}
	return Result{} // of a delete
}
