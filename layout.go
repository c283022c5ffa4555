package holdfast

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"
)

// A contender is what the name of a child says about its place in the queue.
type contender struct {
	name string
	seq  int32
}

// Curator's names: _c_<uuid>-lock-<seq>, and -__WRIT__<seq> and -__READ__<seq> of
// its read-write lock. All of them keep a Mutex out, so that a directory has one
// truth. What stands before is of no interest: go-zookeeper's nodes match as well.
// The number is an int32 that wraps: 10 digits, or a sign and 9 or 10.
var contenderName = regexp.MustCompile(`(?:lock-|__WRIT__|__READ__)(\d{10}|-\d{9,10})$`)

// parse reads a child's name; a name that is none of the layout's is not in the queue.
func parse(name string) (contender, bool) {
	m := contenderName.FindStringSubmatch(name)
	if m == nil {
		return contender{}, false
	}
	seq, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return contender{}, false
	}
	return contender{name: name, seq: int32(seq)}, true
}

// protectedName is the name of a node to be made, unique to one attempt: whoever
// does not know whether the attempt succeeded can find the node by it. The server
// appends the number.
func protectedName() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	x := hex.EncodeToString(b[:])
	return "_c_" + x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:] + "-lock-"
}
