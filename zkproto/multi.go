package zkproto

// A MultiOp is one operation of a transaction. Op decides which fields count: OpCreate, OpCreate2
// and OpCreateContainer use Path, Data, ACL and Flags; OpCreateTTL also uses TTL; OpDelete and
// OpCheck use Path and Version; OpSetData uses Path, Data and Version.
type MultiOp struct {
	Op      Op
	Path    string
	Data    []byte
	ACL     []ACL
	Flags   int32
	Version int32
	TTL     int64
}

// A MultiRequest is the body of OpMulti: all of its operations happen, or none.
type MultiRequest struct{ Ops []MultiOp }

// appendMultiHeader appends {op, done, err}, 9 bytes, which precede each operation. One more
// header, with done set, follows the last operation.
func appendMultiHeader(b []byte, op Op, done bool, code Code) []byte {
	return AppendInt32(AppendBool(AppendInt32(b, int32(op)), done), int32(code))
}

func decodeMultiHeader(r *Reader) (op Op, done bool, code Code) {
	return Op(r.Int32()), r.Bool(), Code(r.Int32())
}

// Append appends m. It omits an operation that multi does not know; callers check before.
func (m *MultiRequest) Append(b []byte) []byte {
	for i := range m.Ops {
		o := &m.Ops[i]
		head := appendMultiHeader(b, o.Op, false, -1)
		switch o.Op {
		case OpCreate, OpCreate2, OpCreateContainer:
			b = (&CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags}).Append(head)
		case OpCreateTTL:
			b = (&CreateTTLRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags, TTL: o.TTL}).Append(head)
		case OpDelete:
			b = (&DeleteRequest{Path: o.Path, Version: o.Version}).Append(head)
		case OpSetData:
			b = (&SetDataRequest{Path: o.Path, Data: o.Data, Version: o.Version}).Append(head)
		case OpCheck:
			b = (&CheckVersionRequest{Path: o.Path, Version: o.Version}).Append(head)
		}
	}
	return appendMultiHeader(b, OpError, true, -1)
}

// Decode reads m from r. It reuses the slice that m has if that is large enough.
func (m *MultiRequest) Decode(r *Reader) {
	m.Ops = m.Ops[:0]
	for {
		op, done, _ := decodeMultiHeader(r)
		if done || r.Err() != nil {
			return
		}
		o := MultiOp{Op: op}
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer:
			var c CreateRequest
			c.Decode(r)
			o.Path, o.Data, o.ACL, o.Flags = c.Path, c.Data, c.ACL, c.Flags
		case OpCreateTTL:
			var c CreateTTLRequest
			c.Decode(r)
			o.Path, o.Data, o.ACL, o.Flags, o.TTL = c.Path, c.Data, c.ACL, c.Flags, c.TTL
		case OpDelete, OpCheck:
			var d DeleteRequest
			d.Decode(r)
			o.Path, o.Version = d.Path, d.Version
		case OpSetData:
			var s SetDataRequest
			s.Decode(r)
			o.Path, o.Data, o.Version = s.Path, s.Data, s.Version
		default:
			r.Fail("operation %d inside multi", int32(op))
			return
		}
		m.Ops = append(m.Ops, o)
	}
}

// A MultiResult is the outcome of one operation. Op is that of the request, or
// OpError if the transaction failed. Then Err says why. It is CodeOK for the operations before the
// failed one, and CodeRuntimeInconsistency for the operations after it.
type MultiResult struct {
	Op   Op
	Err  Code
	Path string // of a create
	Stat Stat   // of OpCreate2, OpCreateContainer, OpCreateTTL and OpSetData
}

// A MultiResponse answers OpMulti. The reply header's error is CodeOK even if the
// transaction failed.
type MultiResponse struct{ Results []MultiResult }

// Append appends m.
func (m *MultiResponse) Append(b []byte) []byte {
	for i := range m.Results {
		o := &m.Results[i]
		b = appendMultiHeader(b, o.Op, false, o.Err)
		switch o.Op {
		case OpCreate:
			b = AppendString(b, o.Path)
		case OpCreate2, OpCreateContainer, OpCreateTTL:
			b = o.Stat.Append(AppendString(b, o.Path))
		case OpSetData:
			b = o.Stat.Append(b)
		case OpError:
			b = AppendInt32(b, int32(o.Err))
		}
	}
	return appendMultiHeader(b, OpError, true, -1)
}

// Decode reads m from r.
func (m *MultiResponse) Decode(r *Reader) {
	m.Results = nil
	for {
		op, done, code := decodeMultiHeader(r)
		if done || r.Err() != nil {
			return
		}
		o := MultiResult{Op: op, Err: code}
		switch op {
		case OpCreate:
			o.Path = r.String()
		case OpCreate2, OpCreateContainer, OpCreateTTL:
			o.Path = r.String()
			o.Stat.Decode(r)
		case OpSetData:
			o.Stat.Decode(r)
		case OpDelete, OpCheck:
		case OpError:
			o.Err = Code(r.Int32())
		default:
			r.Fail("result of operation %d inside multi", int32(op))
			return
		}
		m.Results = append(m.Results, o)
	}
}
