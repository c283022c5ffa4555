package zkproto

// A ReconfigRequest is the body of OpReconfig; a GetDataResponse with the new
// configuration answers it. "" is sent as null, because a server takes any NewMembers that is
// not null, even an empty one, for a replacement of all members.
type ReconfigRequest struct {
	Joining    string // "server.N=…", separated by commas
	Leaving    string // ids, separated by commas
	NewMembers string // replaces all members; as Joining
	Version    int64  // of the configuration to be changed, -1 for any
}

// Append appends m.
func (m *ReconfigRequest) Append(b []byte) []byte {
	for _, s := range []string{m.Joining, m.Leaving, m.NewMembers} {
		if s == "" {
			b = AppendBytes(b, nil)
		} else {
			b = AppendString(b, s)
		}
	}
	return AppendInt64(b, m.Version)
}

// Decode reads m from r.
func (m *ReconfigRequest) Decode(r *Reader) {
	*m = ReconfigRequest{Joining: r.String(), Leaving: r.String(), NewMembers: r.String(), Version: r.Int64()}
}
