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

// Prefer returns the attempt with a preference in its name, also if it is 0: the mark says that the candidate hands over,
// and steps behind others. The mark follows the id, so the name of an attempt that is not Unique stays as it is.
func (a Attempt) Prefer(n int) Attempt {
	if !a.Unique {
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
	n, _ := PreferenceIn(c.Form)
	return n
}

// PreferenceIn returns the preference in the name of a candidate, with or without its number. ok is false if it has none.
func PreferenceIn(name string) (n int, ok bool) {
	before, after, ok := strings.Cut(name, preferMark)
	if !ok || !endsInID(before) {
		return 0, false
	}
	digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
	n, err := strconv.Atoi(after[:digits])
	if err != nil || n > MaxPreference {
		return 0, false
	}
	return n, true
}

const hexDigits = "0123456789abcdef"

// IsLatch reports whether a candidate may be a LeaderLatch of Curator: its node is named like one, without a preference.
// A LeaderLatch watches the node ahead of it. If the data of that node change, it does not watch again, and waits for ever.
func (c Contender) IsLatch() bool {
	_, ours := PreferenceIn(c.Form)
	return strings.HasSuffix(c.Form, "latch-") && !ours
}

// endsInID reports whether a text ends in an id, with or without dashes. Otherwise the mark is a part of a name that has
// nothing to do with preferences, such as that of a host.
func endsInID(text string) bool {
	n := len(text)
	return n >= 32 && strings.Trim(text[n-32:], hexDigits) == "" ||
		n >= 36 && text[n-13] == '-' && text[n-18] == '-' && strings.Trim(strings.ReplaceAll(text[n-36:], "-", ""), hexDigits) == ""
}
