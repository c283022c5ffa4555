package zkproto

// A GetEphemeralsRequest is the body of OpGetEphemerals.
type GetEphemeralsRequest struct{ Prefix string } // compared byte by byte; "" and "/" match all

// Append appends m.
func (m *GetEphemeralsRequest) Append(b []byte) []byte { return AppendString(b, m.Prefix) }

// Decode reads m from r.
func (m *GetEphemeralsRequest) Decode(r *Reader) { m.Prefix = r.String() }

// A GetEphemeralsResponse answers OpGetEphemerals with nodes of the client's session.
type GetEphemeralsResponse struct{ Paths []string }

// Append appends m.
func (m *GetEphemeralsResponse) Append(b []byte) []byte { return AppendStrings(b, m.Paths) }

// Decode reads m from r.
func (m *GetEphemeralsResponse) Decode(r *Reader) { m.Paths = r.Strings() }

// A GetAllChildrenNumberRequest is the body of OpGetAllChildrenNumber.
type GetAllChildrenNumberRequest struct{ Path string }

// Append appends m.
func (m *GetAllChildrenNumberRequest) Append(b []byte) []byte { return AppendString(b, m.Path) }

// Decode reads m from r.
func (m *GetAllChildrenNumberRequest) Decode(r *Reader) { m.Path = r.String() }

// A GetAllChildrenNumberResponse answers OpGetAllChildrenNumber with the number of all descendants.
type GetAllChildrenNumberResponse struct{ Total int32 }

// Append appends m.
func (m *GetAllChildrenNumberResponse) Append(b []byte) []byte { return AppendInt32(b, m.Total) }

// Decode reads m from r.
func (m *GetAllChildrenNumberResponse) Decode(r *Reader) { m.Total = r.Int32() }

// A ClientInfo is one identity that a connection has at the server.
type ClientInfo struct {
	Scheme string
	User   string // the name only, for digest
}

// A WhoAmIResponse answers OpWhoAmI, which has no body.
type WhoAmIResponse struct{ Infos []ClientInfo }

// Append appends m.
func (m *WhoAmIResponse) Append(b []byte) []byte {
	b = AppendInt32(b, int32(len(m.Infos)))
	for _, c := range m.Infos {
		b = AppendString(AppendString(b, c.Scheme), c.User)
	}
	return b
}

// Decode reads m from r.
func (m *WhoAmIResponse) Decode(r *Reader) {
	m.Infos = nil
	n := r.Count(8)
	if n == 0 {
		return
	}
	m.Infos = make([]ClientInfo, 0, n)
	for range n {
		m.Infos = append(m.Infos, ClientInfo{Scheme: r.String(), User: r.String()})
	}
}
