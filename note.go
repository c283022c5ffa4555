package holdfast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"holdfast/zk"
)

// A note is the data of a lock's node, unless the program has chosen some of its own
// (WithValue, the value of a candidate).
type note struct {
	Owner  string `json:"owner,omitempty"`
	Reason string `json:"why,omitempty"`
	ID     string `json:"id,omitempty"`
	// Value is a candidate's, where the id has to be beside it.
	Value []byte `json:"value,omitempty"`
	// Token is that of the tenure where it is older than the node (see stepDown).
	Token int64 `json:"token,omitempty"`
	// Since is when the tenure began, in milliseconds of the server's clock. A holder writes
	// it when it has held for a second (see sayHeld).
	Since int64 `json:"since,omitempty"`
	// Revoke asks the holder to let go (see Revoke).
	Revoke bool `json:"revoke,omitempty"`
}

// empty reports whether it says nothing.
func (n note) empty() bool {
	return n.Owner == "" && n.Reason == "" && n.ID == "" && len(n.Value) == 0 && n.Token == 0 && n.Since == 0 && !n.Revoke
}

func (n note) encode() ([]byte, error) {
	if n.empty() {
		return []byte{}, nil
	}
	return json.Marshal(n)
}

// parseNote reads a note that says something, and nothing else: data that somebody else
// has written may be JSON as well.
func parseNote(data []byte) (n note, ok bool) {
	if !bytes.HasPrefix(data, []byte("{")) {
		return note{}, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if d.Decode(&n) != nil {
		return note{}, false
	}
	if _, err := d.Token(); err != io.EOF || n.empty() {
		return note{}, false
	}
	return n, true
}

// readNote makes the best of a node's data: other programs leave text of their own
// there (Curator the host's address).
func readNote(data []byte) note {
	if isRequest(data) {
		return note{Revoke: true}
	}
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		return note{Owner: string(data)}
	}
	return n
}

// revokeRequest is what Curator's Revoker writes into the node of a lock to ask its
// holder to let go. It takes the place of what was there.
const revokeRequest = "__REVOKE__"

func isRequest(data []byte) bool { return string(data) == revokeRequest }

// validValue says what is wrong with the data that a program has chosen for a node.
func validValue(data []byte) error {
	if isRequest(data) {
		return fmt.Errorf("%w: the value %s is how a holder is asked to let go: choose another", zk.ErrBadArguments, data)
	}
	return nil
}

// withRequest asks the holder of a node with these data to let go. A note says so beside
// what it says already. Other data are replaced, as Curator's Revoker does: a holder of
// Curator looks for nothing else, and one of ours writes its own data back. So are empty
// data, which are those of Curator's revocable locks.
func withRequest(data []byte) ([]byte, error) {
	n, ok := parseNote(data)
	if !ok {
		return []byte(revokeRequest), nil
	}
	n.Revoke = true
	return n.encode()
}
