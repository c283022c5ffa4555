package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"holdfast/zk"
)

// A Note is the data of a lock's node, unless the program has chosen its own (WithValue, the value of a
// candidate).
type Note struct {
	Owner  string `json:"owner,omitempty"`
	Reason string `json:"why,omitempty"`
	// Labels are the user's. A version without them lists the node all the same. It takes the data for a
	// program's own, so its Revoke replaces them, and the holder writes them back.
	Labels map[string]string `json:"labels,omitempty"`
	ID     string            `json:"id,omitempty"`
	// Value is a candidate's, where the id has to be beside it.
	Value []byte `json:"value,omitempty"`
	// Token is that of the tenure where it is older than the node: a writer has taken the read side.
	Token int64 `json:"token,omitempty"`
	// Of is the limit that a waiter at the turnstile of a semaphore claims, or the number of slots; 0: it claims none.
	Of int `json:"of,omitempty"`
	// Needs is how many permits or slots that waiter waits for; 0: one.
	Needs int `json:"needs,omitempty"`
	// Since is when the tenure began, in milliseconds of the server's clock. A holder writes it when it
	// has held the lock for a second.
	Since int64 `json:"since,omitempty"`
	// Expires is when the lock ends that no session owns, in milliseconds of the server's clock; 0: never.
	Expires int64 `json:"expires,omitempty"`
	// Kept says that the client has kept the lock after Unlock: it gives the lock up when somebody joins the queue.
	Kept bool `json:"kept,omitempty"`
	// Within is the session under whose lock the client runs, see lend.WithinSession.
	Within int64 `json:"within,omitempty"`
	// Process is the process that holds or waits, a proc.Group as it encodes itself, see lend.WithProcess. If the data
	// are the program's, the names have it, see Queue.Process.
	Process []byte `json:"process,omitempty"`
	// Yields says that the client gives up the wait if it is the victim of a deadlock, see lend.WithDetection.
	Yields bool `json:"yields,omitempty"`
	// Sort says which newcomers may remove the place while it waits: those of the same sort, see supersede.go.
	Sort string `json:"sort,omitempty"`
	// Arrived is the czxid of the first node of the call, if this node is a later one: the session has ended meanwhile.
	Arrived int64 `json:"arrived,omitempty"`
	// Revoke asks the holder to release the lock.
	Revoke bool `json:"revoke,omitempty"`
}

// empty reports whether it says nothing.
func (n Note) empty() bool {
	return n.Owner == "" && n.Reason == "" && len(n.Labels) == 0 && n.ID == "" && len(n.Value) == 0 && n.Token == 0 && n.Since == 0 && n.Expires == 0 && n.Of == 0 && n.Needs == 0 && n.Within == 0 && len(n.Process) == 0 && n.Sort == "" && n.Arrived == 0 && !n.Yields && !n.Kept && !n.Revoke
}

// Encode returns the data of a node with this note.
func (n Note) Encode() ([]byte, error) {
	if n.empty() {
		return []byte{}, nil
	}
	return json.Marshal(n)
}

// ParseNote reads a note that says something, and nothing else: data that somebody else has written may
// be JSON as well.
func ParseNote(data []byte) (n Note, ok bool) {
	if !bytes.HasPrefix(data, []byte("{")) {
		return Note{}, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if d.Decode(&n) != nil {
		return Note{}, false
	}
	if _, err := d.Token(); err != io.EOF || n.empty() {
		return Note{}, false
	}
	return n, true
}

// ReadNote reads what it can from a node's data. Other programs write text of their own there (Curator
// the host's address).
func ReadNote(data []byte) Note {
	_, data = Handover(data)
	switch {
	case len(data) == 0:
		return Note{}
	case IsRequest(data):
		return Note{Revoke: true}
	}
	var n Note
	if err := json.Unmarshal(data, &n); err != nil {
		return Note{Owner: string(data)}
	}
	return n
}

// slowCreate is how long a server can take to execute the request for a node. A holder counts from the request, so its
// time can be so much ahead.
const slowCreate = time.Minute

// HeldSince returns since when the holder of a node with this note holds the lock, by the server's clock. The time is
// zero if the note does not say it, or says what is wrong or forged. It is never after the last change of the node.
func (n Note) HeldSince(stat zk.Stat) time.Time {
	if n.Kept || n.Since < stat.Ctime || n.Since > stat.Mtime+slowCreate.Milliseconds() {
		return time.Time{}
	}
	return time.UnixMilli(min(n.Since, stat.Mtime))
}

// TimeIn returns a time that a client has written into a node, in milliseconds. The client can write anything; the
// result is in the years that JSON has.
func TimeIn(ms int64) time.Time {
	const last = 253402300799999 // the end of 9999
	return time.UnixMilli(max(0, min(ms, last)))
}

// revokeRequest is what Curator's Revoker writes into the node of a lock to ask its holder to release
// it. It replaces the data.
const revokeRequest = "__REVOKE__"

// IsRequest reports whether data are such a request.
func IsRequest(data []byte) bool { return string(data) == revokeRequest }

// ValidValue says what is wrong with the data that a program has chosen for a node.
func ValidValue(data []byte) error {
	if to, _ := Handover(data); to != "" || IsRequest(data) {
		return fmt.Errorf("%w: the value %s is how a holder is asked to release the lock: choose another", zk.ErrBadArguments, data)
	}
	return nil
}

// WithRequest asks the holder of a node with these data to release the lock. A note keeps what it says.
// Other data are replaced, as Curator's Revoker does: a holder of Curator looks for nothing else, and
// one of ours writes its own data back. Empty data are replaced, too: those of Curator's revocable
// locks are empty.
func WithRequest(data []byte) ([]byte, error) {
	n, ok := ParseNote(data)
	if !ok {
		return []byte(revokeRequest), nil
	}
	n.Revoke = true
	return n.Encode()
}

// handoverRequest begins the data of a leader that is asked to hand over to a candidate. The name of that candidate's node
// follows, then a line break, and then the leader's own data.
const handoverRequest = "__HANDOVER__ "

// WithHandover asks the leader whose node has these data to hand over to the candidate with a node of that name.
func WithHandover(data []byte, to string) []byte {
	_, own := Handover(data)
	return append([]byte(handoverRequest+to+"\n"), own...)
}

// Handover splits the data of a leader's node into such a request and the leader's own data. to is the name of the
// candidate's node, "" if there is no request.
func Handover(data []byte) (to string, own []byte) {
	rest, asked := bytes.CutPrefix(data, []byte(handoverRequest))
	name, own, whole := bytes.Cut(rest, []byte("\n"))
	if !asked || !whole {
		return "", data
	}
	return string(name), own
}
