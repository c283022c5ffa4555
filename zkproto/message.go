package zkproto

// A CreateRequest is the body of OpCreate, OpCreate2 and OpCreateContainer.
type CreateRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags int32
}

// Append appends m.
func (m *CreateRequest) Append(b []byte) []byte {
	b = AppendString(b, m.Path)
	b = AppendBytes(b, m.Data)
	b = AppendACLs(b, m.ACL)
	return AppendInt32(b, m.Flags)
}

// Decode reads m from r.
func (m *CreateRequest) Decode(r *Reader) {
	*m = CreateRequest{Path: r.String(), Data: r.Bytes(), ACL: DecodeACLs(r), Flags: r.Int32()}
}

// A CreateTTLRequest is the body of OpCreateTTL.
type CreateTTLRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags int32 // FlagTTL or FlagSequentialTTL
	TTL   int64 // milliseconds, 1 to MaxTTL
}

// MaxTTL is the longest time to live of a node, in milliseconds. It is the largest number that
// fits beside the mark in the owner's field (EphemeralType.TTL).
const MaxTTL = 0xff_ffff_ffff

// Append appends m.
func (m *CreateTTLRequest) Append(b []byte) []byte {
	c := CreateRequest{Path: m.Path, Data: m.Data, ACL: m.ACL, Flags: m.Flags}
	return AppendInt64(c.Append(b), m.TTL)
}

// Decode reads m from r.
func (m *CreateTTLRequest) Decode(r *Reader) {
	var c CreateRequest
	c.Decode(r)
	*m = CreateTTLRequest{Path: c.Path, Data: c.Data, ACL: c.ACL, Flags: c.Flags, TTL: r.Int64()}
}

// A CreateResponse answers OpCreate.
type CreateResponse struct {
	Path string // with the sequence number, if one was asked for
}

// Append appends m.
func (m *CreateResponse) Append(b []byte) []byte { return AppendString(b, m.Path) }

// Decode reads m from r.
func (m *CreateResponse) Decode(r *Reader) { m.Path = r.String() }

// A Create2Response answers OpCreate2, OpCreateContainer and OpCreateTTL.
type Create2Response struct {
	Path string
	Stat Stat
}

// Append appends m.
func (m *Create2Response) Append(b []byte) []byte { return m.Stat.Append(AppendString(b, m.Path)) }

// Decode reads m from r.
func (m *Create2Response) Decode(r *Reader) {
	m.Path = r.String()
	m.Stat.Decode(r)
}

// A DeleteRequest is the body of OpDelete.
type DeleteRequest struct {
	Path    string
	Version int32 // -1 for any
}

// Append appends m.
func (m *DeleteRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, m.Path), m.Version)
}

// Decode reads m from r.
func (m *DeleteRequest) Decode(r *Reader) { *m = DeleteRequest{Path: r.String(), Version: r.Int32()} }

// A CheckVersionRequest is the body of OpCheck, which occurs only inside multi.
type CheckVersionRequest struct {
	Path    string
	Version int32 // -1 checks only that the node exists
}

// Append appends m.
func (m *CheckVersionRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, m.Path), m.Version)
}

// Decode reads m from r.
func (m *CheckVersionRequest) Decode(r *Reader) {
	*m = CheckVersionRequest{Path: r.String(), Version: r.Int32()}
}

// A SetDataRequest is the body of OpSetData.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32 // -1 for any
}

// Append appends m.
func (m *SetDataRequest) Append(b []byte) []byte {
	return AppendInt32(AppendBytes(AppendString(b, m.Path), m.Data), m.Version)
}

// Decode reads m from r.
func (m *SetDataRequest) Decode(r *Reader) {
	*m = SetDataRequest{Path: r.String(), Data: r.Bytes(), Version: r.Int32()}
}

// A ReadRequest is the body of OpExists, OpGetData, OpGetChildren and
// OpGetChildren2.
type ReadRequest struct {
	Path  string
	Watch bool
}

// Append appends m.
func (m *ReadRequest) Append(b []byte) []byte { return AppendBool(AppendString(b, m.Path), m.Watch) }

// Decode reads m from r.
func (m *ReadRequest) Decode(r *Reader) { *m = ReadRequest{Path: r.String(), Watch: r.Bool()} }

// A StatResponse answers OpExists and OpSetData.
type StatResponse struct{ Stat Stat }

// Append appends m.
func (m *StatResponse) Append(b []byte) []byte { return m.Stat.Append(b) }

// Decode reads m from r.
func (m *StatResponse) Decode(r *Reader) { m.Stat.Decode(r) }

// A GetDataResponse answers OpGetData.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

// Append appends m.
func (m *GetDataResponse) Append(b []byte) []byte { return m.Stat.Append(AppendBytes(b, m.Data)) }

// Decode reads m from r.
func (m *GetDataResponse) Decode(r *Reader) {
	m.Data = r.Bytes()
	m.Stat.Decode(r)
}

// A ChildrenResponse answers OpGetChildren.
type ChildrenResponse struct{ Children []string }

// Append appends m.
func (m *ChildrenResponse) Append(b []byte) []byte { return AppendStrings(b, m.Children) }

// Decode reads m from r.
func (m *ChildrenResponse) Decode(r *Reader) { m.Children = r.Strings() }

// A Children2Response answers OpGetChildren2.
type Children2Response struct {
	Children []string
	Stat     Stat
}

// Append appends m.
func (m *Children2Response) Append(b []byte) []byte {
	return m.Stat.Append(AppendStrings(b, m.Children))
}

// Decode reads m from r.
func (m *Children2Response) Decode(r *Reader) {
	m.Children = r.Strings()
	m.Stat.Decode(r)
}

// A SyncRequest is the body of OpSync; its response has the same form.
type SyncRequest struct{ Path string }

// Append appends m.
func (m *SyncRequest) Append(b []byte) []byte { return AppendString(b, m.Path) }

// Decode reads m from r.
func (m *SyncRequest) Decode(r *Reader) { m.Path = r.String() }
