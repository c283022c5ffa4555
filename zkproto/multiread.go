package zkproto

// A MultiReadOp is one read of an OpMultiRead: OpGetData or OpGetChildren.
type MultiReadOp struct {
	Op    Op
	Path  string
	Watch bool
}

// A MultiReadRequest is the body of OpMultiRead. Each read has a result of its own.
type MultiReadRequest struct{ Ops []MultiReadOp }

// Append appends m.
func (m *MultiReadRequest) Append(b []byte) []byte {
	for i := range m.Ops {
		o := &m.Ops[i]
		b = appendMultiHeader(b, o.Op, false, -1)
		b = (&ReadRequest{Path: o.Path, Watch: o.Watch}).Append(b)
	}
	return appendMultiHeader(b, OpError, true, -1)
}

// Decode reads m from r.
func (m *MultiReadRequest) Decode(r *Reader) {
	m.Ops = nil
	for {
		op, done, _ := decodeMultiHeader(r)
		if done || r.Err() != nil {
			return
		}
		if op != OpGetData && op != OpGetChildren {
			r.Fail("operation %d inside multi read", int32(op))
			return
		}
		var read ReadRequest
		read.Decode(r)
		m.Ops = append(m.Ops, MultiReadOp{Op: op, Path: read.Path, Watch: read.Watch})
	}
}

// A MultiReadResult is the outcome of one read. Op is that of the request, or OpError if the read
// failed; then Err says why.
type MultiReadResult struct {
	Op       Op
	Err      Code
	Data     []byte   // of OpGetData
	Stat     Stat     // of OpGetData
	Children []string // of OpGetChildren
}

// A MultiReadResponse answers OpMultiRead.
type MultiReadResponse struct{ Results []MultiReadResult }

// Append appends m.
func (m *MultiReadResponse) Append(b []byte) []byte {
	for i := range m.Results {
		o := &m.Results[i]
		b = appendMultiHeader(b, o.Op, false, o.Err)
		switch o.Op {
		case OpGetData:
			b = o.Stat.Append(AppendBytes(b, o.Data))
		case OpGetChildren:
			b = AppendStrings(b, o.Children)
		case OpError:
			b = AppendInt32(b, int32(o.Err))
		}
	}
	return appendMultiHeader(b, OpError, true, -1)
}

// Decode reads m from r.
func (m *MultiReadResponse) Decode(r *Reader) {
	m.Results = nil
	for {
		op, done, code := decodeMultiHeader(r)
		if done || r.Err() != nil {
			return
		}
		o := MultiReadResult{Op: op, Err: code}
		switch op {
		case OpGetData:
			o.Data = r.Bytes()
			o.Stat.Decode(r)
		case OpGetChildren:
			o.Children = r.Strings()
		case OpError:
			o.Err = Code(r.Int32())
		default:
			r.Fail("result of operation %d inside multi read", int32(op))
			return
		}
		m.Results = append(m.Results, o)
	}
}
