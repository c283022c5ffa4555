package tree

import "holdfast/zkproto"

// Multi does all of ops, or none of them. The results are those of the wire: if one
// fails, all are of type OpError, those before it with CodeOK and those behind it
// with CodeRuntimeInconsistency.
func (t *Tree) Multi(tx Txn, ops []zkproto.MultiOp) []zkproto.MultiResult {
	t.nested = true
	results := make([]zkproto.MultiResult, len(ops))
	failed, code := -1, zkproto.CodeOK
	for i := range ops {
		if results[i], code = t.one(tx, &ops[i]); code != zkproto.CodeOK {
			failed = i
			break
		}
	}
	t.nested = false
	t.finish(code)
	if failed < 0 {
		return results
	}
	for i := range results {
		results[i] = zkproto.MultiResult{Op: zkproto.OpError}
		if i > failed {
			results[i].Err = zkproto.CodeRuntimeInconsistency
		}
	}
	results[failed].Err = code
	return results
}

func (t *Tree) one(tx Txn, o *zkproto.MultiOp) (r zkproto.MultiResult, code zkproto.Code) {
	r.Op = o.Op
	switch o.Op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer:
		// As Apache's server has it (3.8.0, measured): create2 is answered like create,
		// without a Stat, and a container like create2. A client that was tested here and
		// counts on more would fail there.
		r.Op = zkproto.OpCreate
		if o.Op == zkproto.OpCreateContainer {
			r.Op = zkproto.OpCreate2
		}
		r.Path, r.Stat, code = t.create(tx, o.Op, &zkproto.CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags})
	case zkproto.OpDelete:
		code = t.delete(tx, o.Path, o.Version)
	case zkproto.OpSetData:
		r.Stat, code = t.set(tx, o.Path, o.Data, o.Version)
	case zkproto.OpCheck:
		code = t.check(o.Path, o.Version)
	default:
		code = zkproto.CodeUnimplemented
	}
	return r, code
}

// onUndo remembers how to take back the next step. Outside a transaction a write
// checks everything before its only step, so there is nothing to take back.
func (t *Tree) onUndo(f func()) {
	if t.nested {
		t.undo = append(t.undo, f)
	}
}

// finish ends a write: on success its watches fire and its changes count, on failure
// it is taken back step by step from the end. Watches wait until here, because those
// of a failed transaction must stay armed.
func (t *Tree) finish(code zkproto.Code) {
	if code != zkproto.CodeOK {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
	} else {
		for _, tr := range t.triggers {
			t.fire(tr)
		}
		for _, path := range t.touched {
			t.changed[path] = struct{}{}
		}
	}
	clear(t.undo)
	t.undo, t.triggers, t.touched = t.undo[:0], t.triggers[:0], t.touched[:0]
}
