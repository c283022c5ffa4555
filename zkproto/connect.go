package zkproto

// A ConnectRequest is the first frame of a connection; it has no header.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    int64
	Timeout         int32 // milliseconds
	SessionID       int64 // 0 asks for a new session
	Passwd          []byte
	ReadOnly        bool
	HasReadOnly     bool // clients older than 3.4 omit the last byte

	// Processes, if not nil, says which processes the session belongs to. Only servers of holdfast read it, and only on
	// Unix sockets and over memory. Others ignore bytes behind ReadOnly.
	Processes []byte
}

// Append appends the body of the frame.
func (m *ConnectRequest) Append(b []byte) []byte {
	b = AppendInt32(b, m.ProtocolVersion)
	b = AppendInt64(b, m.LastZxidSeen)
	b = AppendInt32(b, m.Timeout)
	b = AppendInt64(b, m.SessionID)
	b = AppendBytes(b, m.Passwd)
	if m.HasReadOnly {
		b = AppendBool(b, m.ReadOnly)
		if m.Processes != nil {
			b = AppendBytes(b, m.Processes)
		}
	}
	return b
}

// Decode reads m from r; the last byte may be missing.
func (m *ConnectRequest) Decode(r *Reader) {
	*m = ConnectRequest{
		ProtocolVersion: r.Int32(), LastZxidSeen: r.Int64(), Timeout: r.Int32(),
		SessionID: r.Int64(), Passwd: r.Bytes(),
	}
	if r.Err() == nil && r.Remaining() > 0 {
		m.HasReadOnly, m.ReadOnly = true, r.Bool()
		if r.Err() == nil && r.Remaining() > 0 {
			m.Processes = r.Bytes()
		}
	}
}

// A ConnectResponse answers a ConnectRequest. Only a timeout of zero or less says that the
// requested session has expired.
type ConnectResponse struct {
	ProtocolVersion int32
	Timeout         int32 // milliseconds, as the server negotiated it
	SessionID       int64
	Passwd          []byte
	ReadOnly        bool
	HasReadOnly     bool // present exactly if the request had it

	// Bound says that the session belongs to the Processes of the request. The byte is there only if it is set. Decode does
	// not read it.
	Bound bool
}

// Append appends the body of the frame.
func (m *ConnectResponse) Append(b []byte) []byte {
	b = AppendInt32(b, m.ProtocolVersion)
	b = AppendInt32(b, m.Timeout)
	b = AppendInt64(b, m.SessionID)
	b = AppendBytes(b, m.Passwd)
	if m.HasReadOnly {
		b = AppendBool(b, m.ReadOnly)
		if m.Bound {
			b = AppendBool(b, true)
		}
	}
	return b
}

// Decode reads m from r; the last byte may be missing.
func (m *ConnectResponse) Decode(r *Reader) {
	*m = ConnectResponse{
		ProtocolVersion: r.Int32(), Timeout: r.Int32(), SessionID: r.Int64(), Passwd: r.Bytes(),
	}
	if r.Err() == nil && r.Remaining() > 0 {
		m.HasReadOnly, m.ReadOnly = true, r.Bool()
	}
}

// A RequestHeader precedes the body of every other request.
type RequestHeader struct {
	Xid int32
	Op  Op
}

// Append appends the 8 bytes of m.
func (m *RequestHeader) Append(b []byte) []byte {
	return AppendInt32(AppendInt32(b, m.Xid), int32(m.Op))
}

// Decode reads m from r.
func (m *RequestHeader) Decode(r *Reader) { *m = RequestHeader{Xid: r.Int32(), Op: Op(r.Int32())} }

// A ReplyHeader precedes every reply and notification. If Err is not CodeOK, nothing follows
// (except for multi, whose results carry their own errors).
type ReplyHeader struct {
	Xid  int32
	Zxid int64 // the last transaction that the server has applied
	Err  Code
}

// Append appends the 16 bytes of m.
func (m *ReplyHeader) Append(b []byte) []byte {
	return AppendInt32(AppendInt64(AppendInt32(b, m.Xid), m.Zxid), int32(m.Err))
}

// Decode reads m from r.
func (m *ReplyHeader) Decode(r *Reader) {
	*m = ReplyHeader{Xid: r.Int32(), Zxid: r.Int64(), Err: Code(r.Int32())}
}
