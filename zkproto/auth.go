package zkproto

// An AuthRequest is the body of OpAuth. It is answered by a header alone.
type AuthRequest struct {
	Type   int32 // not used by servers
	Scheme string
	Auth   []byte // for the scheme digest: user:password; for SchemeProcesses: as ConnectRequest.Processes
}

// Append appends m.
func (m *AuthRequest) Append(b []byte) []byte {
	return AppendBytes(AppendString(AppendInt32(b, m.Type), m.Scheme), m.Auth)
}

// Decode reads m from r.
func (m *AuthRequest) Decode(r *Reader) {
	*m = AuthRequest{Type: r.Int32(), Scheme: r.String(), Auth: r.Bytes()}
}

// SchemeProcesses is the scheme of an AuthRequest that replaces the ConnectRequest.Processes of its connection. It is no
// login. A client sends it only to a server that has answered with ConnectResponse.Bound.
const SchemeProcesses = "holdfast-processes"

// A SASLToken is the body of OpSASL, and of its answer.
type SASLToken struct {
	Token []byte // null in an answer that has no token
}

// Append appends m.
func (m *SASLToken) Append(b []byte) []byte { return AppendBytes(b, m.Token) }

// Decode reads m from r.
func (m *SASLToken) Decode(r *Reader) { *m = SASLToken{Token: r.Bytes()} }
