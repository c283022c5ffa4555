package see

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/once"
)

func (p *Permits) document() *show.Permits {
	if p == nil {
		return nil
	}
	return &show.Permits{InUse: p.InUse, Limit: p.Limit}
}

// ListDocument is a list of locks in JSON.
type ListDocument struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []show.Document `json:"items"`
	AsOf       time.Time       `json:"as_of"`
}

// document returns the lock, which the user calls name, as a document.
func (l *Lock) document(name string, now time.Time) show.Document {
	d := show.Describe(name, l.Path, l.Queue, now)
	d.Permits, d.LockKind, d.Layout = l.Permits.document(), l.Kind, l.Layout
	for _, node := range l.Foreign {
		d.Foreign = append(d.Foreign, node.Path)
	}
	d.Reserve(l.Reserved)
	if s := l.State(); s == Unreadable || s == "foreign" {
		d.State = s
	}
	return d
}

// AsOf returns the time of a document.
func AsOf(now time.Time) *time.Time {
	t := now.UTC().Truncate(time.Millisecond)
	return &t
}

// labelsOf returns the labels of a place, such as the trace that it belongs to.
func labelsOf(e holdfast.Entry) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, key+"="+e.Labels[key])
	}
	return strings.Join(labels, ",")
}

// DoneAt returns when the end of a run was recorded, or its beginning if that is not known.
func DoneAt(r *once.Result) time.Time {
	if r.At.IsZero() {
		return r.Began.UTC()
	}
	return r.At.UTC()
}

// RunOf returns the document of a run; nil if there is none.
func RunOf(r *once.Result) *show.Run {
	if r == nil {
		return nil
	}
	return &show.Run{Owner: r.Owner, Token: strconv.FormatInt(r.Token, 10), Began: r.Began.UTC(), Done: DoneAt(r)}
}
