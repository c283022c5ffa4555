package tree

import (
	"slices"

	"holdfast/zkproto"
)

// Multi does all of ops, or none of them. It returns the results that the protocol defines. If one
// operation fails, all results are of type OpError: those before it with CodeOK and those after it
// with CodeRuntimeInconsistency.
//
// The returned code is for the whole answer, and is CodeOK in both cases. It is
// CodeMarshallingError, without results, if an operation cannot be in a transaction, and
// CodeBadArguments, without results, if the transaction exceeds Bounds.Work. The results are valid
// until the next call.
func (t *Tree) Multi(tx Txn, ops []zkproto.MultiOp) ([]zkproto.MultiResult, zkproto.Code) {
	t.nested = true
	clear(t.results)
	t.results = slices.Grow(t.results[:0], len(ops))[:len(ops)]
	results := t.results
	failed, code := -1, zkproto.CodeOK
	work, steps := 0, t.steps
	for i := range ops {
		if work += workOf(ops[i].Op); t.bounds.Work > 0 && work+t.steps-steps+t.foreseen > t.bounds.Work {
			t.nested = false
			t.finish(zkproto.CodeBadArguments)
			t.bounds.exceeded(BoundWork)
			return nil, zkproto.CodeBadArguments
		}
		if results[i], code = t.one(tx, &ops[i]); code != zkproto.CodeOK {
			failed = i
			break
		}
	}
	t.nested = false
	t.finish(code)
	switch {
	case failed < 0:
		return results, zkproto.CodeOK
	case code == zkproto.CodeMarshallingError:
		return nil, code
	}
	for i := range results {
		results[i] = zkproto.MultiResult{Op: zkproto.OpError}
		if i > failed {
			results[i].Err = zkproto.CodeRuntimeInconsistency
		}
	}
	results[failed].Err = code
	return results, zkproto.CodeOK
}

// workOf returns how many steps an operation of a transaction takes besides those in Tree.steps. They
// count the look-ups in tables that do not fit into caches.
func workOf(op zkproto.Op) int {
	switch op {
	case zkproto.OpCheck:
		return 64
	case zkproto.OpDelete, zkproto.OpSetData:
		return 340
	}
	return 500
}

func (t *Tree) one(tx Txn, o *zkproto.MultiOp) (r zkproto.MultiResult, code zkproto.Code) {
	r.Op = o.Op
	switch o.Op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		// This is as in Apache's server (3.8.0, measured). Inside a transaction the flags alone
		// decide which kind of node a create makes. The answer has no Stat, not even for create2,
		// unless the node is a container or has a time to live. A client that is tested here must
		// not rely on more, because it would fail there.
		req := *o
		req.Op, r.Op = zkproto.OpCreate, zkproto.OpCreate
		switch o.Flags {
		case zkproto.FlagContainer:
			req.Op, r.Op = zkproto.OpCreateContainer, zkproto.OpCreate2
		case zkproto.FlagTTL, zkproto.FlagSequentialTTL:
			req.Op, r.Op = zkproto.OpCreateTTL, zkproto.OpCreate2
		}
		if req.Op == zkproto.OpCreateTTL && o.Op != zkproto.OpCreateTTL {
			return r, zkproto.CodeMarshallingError // its record has no TTL
		}
		r.Path, r.Stat, code = t.create(tx, &req)
	case zkproto.OpDelete:
		code = t.delete(tx, o.Path, o.Version)
	case zkproto.OpSetData:
		r.Stat, code = t.set(tx, o.Path, o.Data, o.Version)
	case zkproto.OpCheck:
		code = t.check(tx, o.Path, o.Version)
	default:
		code = zkproto.CodeUnimplemented
	}
	return r, code
}

// onUndo records how to undo the next step. Outside a transaction a write checks everything before
// its only step, so there is nothing to undo.
func (t *Tree) onUndo(f func()) {
	if t.nested {
		t.undo = append(t.undo, f)
	}
}

// A touch is a change of some parts of a node.
type touch struct {
	node  *node
	some  parts
	bytes int // see written
}

// touch records that the current write has changed some parts of n.
func (t *Tree) touch(n *node, some parts) {
	t.touched = append(t.touched, touch{n, some, n.written(some)})
	t.lasts = t.lasts || n.owner == 0
}

// touchQuietly is touch for a change that ends with the sessions that have caused it, see TakeChanges.
func (t *Tree) touchQuietly(n *node, p Part) {
	t.touched = append(t.touched, touch{n, setOf(p), n.written(setOf(p))})
}

// finish ends a write. On success its watches fire and its changes count. On failure it is undone
// step by step from the end. Watches fire only here, because those of a failed transaction must
// stay set.
func (t *Tree) finish(code zkproto.Code) {
	if code != zkproto.CodeOK {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
	} else {
		t.notify()
		for _, c := range t.touched {
			n := c.node
			if n.dirty == 0 {
				t.changed = append(t.changed, n)
			}
			if n.dirty&setOf(PartChildren) == 0 || c.some != setOf(PartChildren) {
				t.unsaved += c.bytes
			}
			n.dirty |= c.some
		}
		t.lasting = t.lasting || t.lasts
	}
	t.lasts = false
	clear(t.undo)
	clear(t.triggers) // they refer to nodes
	clear(t.touched)
	t.grown, t.foreseen = 0, 0
	t.undo, t.triggers, t.touched = t.undo[:0], t.triggers[:0], t.touched[:0]
}
