package zkproto

// A GetACLRequest is the body of OpGetACL.
type GetACLRequest struct{ Path string }

// Append appends m.
func (m *GetACLRequest) Append(b []byte) []byte { return AppendString(b, m.Path) }

// Decode reads m from r.
func (m *GetACLRequest) Decode(r *Reader) { m.Path = r.String() }

// A GetACLResponse answers OpGetACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

// Append appends m.
func (m *GetACLResponse) Append(b []byte) []byte { return m.Stat.Append(AppendACLs(b, m.ACL)) }

// Decode reads m from r.
func (m *GetACLResponse) Decode(r *Reader) {
	m.ACL = DecodeACLs(r)
	m.Stat.Decode(r)
}

// A SetACLRequest is the body of OpSetACL; a StatResponse answers it.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32 // of the ACL (Stat.Aversion), -1 for any
}

// Append appends m.
func (m *SetACLRequest) Append(b []byte) []byte {
	return AppendInt32(AppendACLs(AppendString(b, m.Path), m.ACL), m.Version)
}

// Decode reads m from r.
func (m *SetACLRequest) Decode(r *Reader) {
	*m = SetACLRequest{Path: r.String(), ACL: DecodeACLs(r), Version: r.Int32()}
}
