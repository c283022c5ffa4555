package names

import (
	"strconv"
	"strings"
)

// MaxPreference is the largest preference of a candidate.
const MaxPreference = 1_000_000

// preferMark stands between the id of an attempt and its preference: _c_<uuid>-prefer5-lock-. Other libraries look at the
// beginning and at the end of a name, so they take the place for one of theirs.
const preferMark = "-prefer"

// Prefer returns the attempt with a preference in its name. The name of a candidate without one stays as it is: the
// preference is 0. The attempt must be Unique, since the mark follows the id.
func (a Attempt) Prefer(n int) Attempt {
	if n == 0 {
		return a
	}
	for _, id := range [...]string{a.ID, dashed(a.ID)} {
		a.Prefix = strings.Replace(a.Prefix, id, id+preferMark+strconv.Itoa(n), 1)
	}
	return a
}

// dashed returns an id in the form of java.util.UUID's.
func dashed(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// Preference is the preference of a candidate, 0 if its name has none.
func (c Contender) Preference() int {
	before, after, ok := strings.Cut(c.Form, preferMark)
	if !ok || !endsInID(before) {
		return 0
	}
	digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
	n, err := strconv.Atoi(after[:digits])
	if err != nil || n > MaxPreference {
		return 0
	}
	return n
}

const hexDigits = "0123456789abcdef"

// endsInID reports whether a text ends in an id, with or without dashes. Otherwise the mark is a part of a name that has
// nothing to do with preferences, such as that of a host.
func endsInID(text string) bool {
	n := len(text)
	return n >= 32 && strings.Trim(text[n-32:], hexDigits) == "" ||
		n >= 36 && text[n-13] == '-' && text[n-18] == '-' && strings.Trim(strings.ReplaceAll(text[n-36:], "-", ""), hexDigits) == ""
}
