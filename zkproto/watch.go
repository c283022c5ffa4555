package zkproto

// A SetWatchesRequest re-registers watches on a new connection. The server sends an event for
// each node that changed after RelativeZxid, and sets the other watches.
type SetWatchesRequest struct {
	RelativeZxid int64
	Data         []string
	Exist        []string
	Child        []string
}

// Append appends m.
func (m *SetWatchesRequest) Append(b []byte) []byte {
	b = AppendInt64(b, m.RelativeZxid)
	b = AppendStrings(b, m.Data)
	b = AppendStrings(b, m.Exist)
	return AppendStrings(b, m.Child)
}

// Decode reads m from r.
func (m *SetWatchesRequest) Decode(r *Reader) {
	*m = SetWatchesRequest{RelativeZxid: r.Int64(), Data: r.Strings(), Exist: r.Strings(), Child: r.Strings()}
}

// A RemoveWatchesRequest is the body of OpRemoveWatches and OpCheckWatches.
type RemoveWatchesRequest struct {
	Path string
	Kind int32 // WatchChildren, WatchData, WatchAny, …
}

// Append appends m.
func (m *RemoveWatchesRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, m.Path), m.Kind)
}

// Decode reads m from r.
func (m *RemoveWatchesRequest) Decode(r *Reader) {
	*m = RemoveWatchesRequest{Path: r.String(), Kind: r.Int32()}
}

// A WatcherEvent is the body of a notification.
type WatcherEvent struct {
	Type  EventType
	State int32
	Path  string
}

// Append appends m.
func (m *WatcherEvent) Append(b []byte) []byte {
	return AppendString(AppendInt32(AppendInt32(b, int32(m.Type)), m.State), m.Path)
}

// Decode reads m from r.
func (m *WatcherEvent) Decode(r *Reader) {
	*m = WatcherEvent{Type: EventType(r.Int32()), State: r.Int32(), Path: r.String()}
}

// A SetWatches2Request is a SetWatchesRequest with persistent watches. The server only sets these:
// it sends no event for changes since RelativeZxid.
type SetWatches2Request struct {
	SetWatchesRequest
	Persistent          []string
	PersistentRecursive []string
}

// Append appends m.
func (m *SetWatches2Request) Append(b []byte) []byte {
	return AppendStrings(AppendStrings(m.SetWatchesRequest.Append(b), m.Persistent), m.PersistentRecursive)
}

// Decode reads m from r.
func (m *SetWatches2Request) Decode(r *Reader) {
	m.SetWatchesRequest.Decode(r)
	m.Persistent, m.PersistentRecursive = r.Strings(), r.Strings()
}

// An AddWatchRequest is the body of OpAddWatch; an ErrorResponse answers it.
type AddWatchRequest struct {
	Path string
	Mode int32 // ModePersistent or ModePersistentRecursive
}

// Append appends m.
func (m *AddWatchRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, m.Path), m.Mode)
}

// Decode reads m from r.
func (m *AddWatchRequest) Decode(r *Reader) { *m = AddWatchRequest{Path: r.String(), Mode: r.Int32()} }

// An ErrorResponse repeats the header's error.
type ErrorResponse struct{ Err Code }

// Append appends m.
func (m *ErrorResponse) Append(b []byte) []byte { return AppendInt32(b, int32(m.Err)) }

// Decode reads m from r.
func (m *ErrorResponse) Decode(r *Reader) { m.Err = Code(r.Int32()) }
