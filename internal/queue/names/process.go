package names

import (
	"encoding/hex"
	"strings"
)

// processMark stands between the id of an attempt, or its preference, and a process in hexadecimal digits:
// _c_<uuid>-process<digits>-lock-. It is for nodes whose data are the program's, such as those of candidates.
const processMark = "-process"

// OfProcess returns the attempt with the process of its client in its name. nil leaves the name as it is. The attempt must
// be Unique, since the mark follows the id. Prefer comes after OfProcess.
func (a Attempt) OfProcess(process []byte) Attempt {
	if len(process) == 0 {
		return a
	}
	for _, id := range [...]string{a.ID, dashed(a.ID)} {
		a.Prefix = strings.Replace(a.Prefix, id, id+processMark+hex.EncodeToString(process), 1)
	}
	return a
}

// ProcessIn returns the process in the name of a node, nil if there is none.
func ProcessIn(name string) []byte {
	before, after, ok := strings.Cut(name, processMark)
	if !ok {
		return nil
	}
	if at := strings.LastIndex(before, preferMark); at >= 0 && strings.Trim(before[at+len(preferMark):], "0123456789") == "" {
		before = before[:at]
	}
	digits := len(after) - len(strings.TrimLeft(after, hexDigits))
	process, err := hex.DecodeString(after[:digits])
	if err != nil || len(process) == 0 || !endsInID(before) {
		return nil
	}
	return process
}
