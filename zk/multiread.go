package zk

import (
	"bytes"
	"context"
	"fmt"

	"holdfast/zkproto"
)

// MultiRead executes several GetOp and ChildrenOp in one request. Each operation has its own
// Result; the error is the first one in the Results. The result of a ChildrenOp has no Stat. An
// invalid operation is refused before anything is sent. In that case, and if no answer came,
// there are no results. Pipeline does the same on any server, with a few more bytes.
//
// Needs ZooKeeper 3.6. Older servers answer ErrUnimplemented and close the connection.
func (c *Calls) MultiRead(ctx context.Context, ops ...Op) ([]Result, error) {
	m := &zkproto.MultiReadRequest{Ops: make([]zkproto.MultiReadOp, len(ops))}
	for i, o := range ops {
		if err := o.check(); err != nil {
			return nil, o.fail(err)
		}
		kind := o.kind
		switch {
		case kind == zkproto.OpGetData && !o.watch:
		case kind == zkproto.OpGetChildren2 && !o.watch:
			kind = zkproto.OpGetChildren
		default:
			return nil, o.fail(fmt.Errorf("%w: only GetOp and ChildrenOp can be part of a multi-read", ErrBadArguments))
		}
		m.Ops[i] = zkproto.MultiReadOp{Op: kind, Path: c.node(o.path)}
	}
	reply := multiReadReply{want: len(ops)}
	if err := c.roundTrip(ctx, zkproto.OpMultiRead, "", m, &reply, nil); err != nil {
		return nil, err
	}
	results := make([]Result, len(ops))
	var first error
	for i, r := range reply.Results {
		if r.Op != zkproto.OpError {
			results[i] = Result{Data: r.Data, Stat: r.Stat, Children: r.Children}
			continue
		}
		results[i].Err = ops[i].fail(r.Err)
		if first == nil {
			first = results[i].Err
		}
	}
	return results, first
}

// multiReadReply is an answer with one result per operation. It copies the data, because the
// connection reuses its buffer.
type multiReadReply struct {
	zkproto.MultiReadResponse
	want int
}

func (m *multiReadReply) Decode(r *zkproto.Reader) {
	m.MultiReadResponse.Decode(r)
	wantResults(r, len(m.Results), m.want)
	for i := range m.Results {
		m.Results[i].Data = bytes.Clone(m.Results[i].Data)
	}
}
