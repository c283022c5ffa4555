package queue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
	Supersedes bool  // the newest removes the older ones
	Max        int   // at most so many wait; 0: any number
	Oldest     bool  // if more wait, the oldest goes, and not the newcomer
	First      int64 // the czxid of its first node; 0: it has none yet
	Owner      string
	Reason     string
}

// The sorts of places, in the data of their nodes.
const (
	newest  = "newest"  // the newest stays
	bounded = "bounded" // the oldest goes when too many wait
)

// Sort is the sort of its places; "": they are never removed.
func (a *Arrival) Sort() string {
	switch {
	case a.Supersedes:
		return newest
	case a.Oldest:
		return bounded
	}
	return ""
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
}

// maxBy is how much of an owner and of a reason a record has.
const maxBy = 256

func (a *Arrival) over(through int64) over {
	return over{through, a.First, cut(a.Owner), cut(a.Reason)}
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

// writeRecord returns the data of a directory with the record, and with o for a sort.
func writeRecord(r map[string]over, sort string, o over) ([]byte, error) {
	all := map[string]over{sort: o}
	for s, other := range r {
		if s != sort {
			all[s] = other
		}
	}
	text, err := json.Marshal(all)
	return append([]byte(recordPrefix), text...), err
}
