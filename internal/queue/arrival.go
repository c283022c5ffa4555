package queue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

var (
	// ErrSuperseded means that a newer place of the same sort has taken the place of a waiter.
	ErrSuperseded = errors.New("superseded")
	// ErrQueueFull means that too many wait.
	ErrQueueFull = errors.New("the queue is full")
)

// A Yielded is the error of a place that has made room for another. It wraps ErrSuperseded or ErrQueueFull.
type Yielded struct {
	Why    error
	Owner  string // of the other place; "" if it is not named
	Reason string
	Token  int64 // the czxid of the first node of the other; 0: there is no other
}

// Error names the other place.
func (y *Yielded) Error() string {
	text := y.Why.Error()
	if y.Token == 0 {
		return text
	}
	if text += " by "; y.Why == ErrQueueFull {
		text = y.Why.Error() + ", and made room for "
	}
	text += cmp.Or(y.Owner, fmt.Sprintf("a caller without a name, token %d", y.Token))
	if y.Reason != "" {
		text += " (" + y.Reason + ")"
	}
	return text
}

// Unwrap returns ErrSuperseded or ErrQueueFull.
func (y *Yielded) Unwrap() error { return y.Why }

// An Arrival is one call of Lock whose places make room for others of their sort, or others for them.
type Arrival struct {
	Supersedes bool   // the newest removes the older ones
	Max        int    // at most so many wait; 0: any number
	Oldest     bool   // if more wait, the oldest goes, and not the newcomer
	Layout     string // tells its queue from others of the directory, see names.Grammar.Apart
	First      int64  // the czxid of its first node; 0: it has none yet
	Owner      string
	Reason     string

	tried []uint32 // its latest places, see placeID; it may not know of a node that others have removed
}

// The sorts of places, in the data of their nodes.
const (
	newest  = "newest"  // the newest stays
	bounded = "bounded" // the oldest goes when too many wait
)

// Sort is the sort of its places; "": they are never removed. Layouts that do not see each other's places have sorts of
// their own.
func (a *Arrival) Sort() (sort string) {
	switch {
	case a.Supersedes:
		sort = newest
	case a.Oldest:
		sort = bounded
	default:
		return ""
	}
	if a.Layout != "" {
		sort += " " + a.Layout
	}
	return sort
}

// yielded is the error of a place that makes room for the other.
func (a *Arrival) yielded(to over) *Yielded {
	y := &Yielded{ErrQueueFull, to.Owner, to.Reason, to.Token}
	if a.Supersedes {
		y.Why = ErrSuperseded
	}
	return y
}

// An over says that the arrivals of a sort up to Through are over, and for whom: an Arrival of which Token is First.
type over struct {
	Through int64  `json:"through"`
	Token   int64  `json:"token"`
	Owner   string `json:"owner,omitempty"`
	Reason  string `json:"why,omitempty"`
	// Gone are the places that were removed last, the latest first, see placeID. If the answer to a create was lost, the
	// call does not know that it had a node. This tells.
	Gone []uint32 `json:"gone,omitempty"`
}

// mostGone is how many removed places a record names, and how many of its own an arrival remembers.
const mostGone = 32

// placeID identifies a place by the name of its node without the number.
func placeID(form string) uint32 { return crc32.ChecksumIEEE([]byte(form)) }

// latest returns ids, and older ones behind them while there is room.
func latest(ids, older []uint32) []uint32 {
	all := slices.Concat(ids, older)
	return all[:min(len(all), mostGone)]
}

// maxBy is how much of an owner and of a reason a record has.
const maxBy = 256

func (a *Arrival) over(through int64) over {
	return over{Through: through, Token: a.First, Owner: cut(a.Owner), Reason: cut(a.Reason)}
}

func cut(text string) string {
	if len(text) > maxBy {
		return string(bytes.ToValidUTF8([]byte(text[:maxBy]), nil)) + "…"
	}
	return text
}

// recordPrefix begins the record of a directory, in its data. Behind it is JSON: an over for each sort.
const recordPrefix = "holdfast: over "

// readRecord returns the record in the data of a directory, or nil.
func readRecord(data []byte) (r map[string]over) {
	if text, ok := bytes.CutPrefix(data, []byte(recordPrefix)); !ok || json.Unmarshal(text, &r) != nil {
		return nil
	}
	return r
}

// mostSorts is how many sorts a record has at most: there can be any number of layouts, and the data are limited.
const mostSorts = 64

// writeRecord returns the data of a directory with the record, and with o for a sort. If there are too many sorts, it
// drops those whose last arrival is the oldest.
func writeRecord(r map[string]over, sort string, o over) ([]byte, error) {
	others := slices.DeleteFunc(slices.Collect(maps.Keys(r)), func(s string) bool { return s == sort })
	slices.SortFunc(others, func(a, b string) int { return cmp.Compare(r[b].Token, r[a].Token) })
	all := map[string]over{sort: o}
	for _, s := range others[:min(len(others), mostSorts-1)] {
		all[s] = r[s]
	}
	text, err := json.Marshal(all)
	return append([]byte(recordPrefix), text...), err
}
