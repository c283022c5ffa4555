package see

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/internal/locks"
	"holdfast/once"
	"holdfast/reserve"
)

// A Document is a lock in JSON. 64-bit numbers are strings, because JavaScript and jq would round
// them.
type Document struct {
	APIVersion string           `json:"apiVersion,omitempty"` // absent in a list, which has it
	Kind       string           `json:"kind"`
	Name       string           `json:"name"`
	Path       string           `json:"path"`
	Mode       string           `json:"mode"`
	State      string           `json:"state"`
	Token      string           `json:"token,omitempty"`
	Permits    *PermitsDocument `json:"permits,omitempty"` // of a semaphore or slots
	Holder     *HolderDocument  `json:"holder,omitempty"`  // the first holder
	Holders    []HolderDocument `json:"holders,omitempty"` // all holders, if there are several
	Waiters    []WaiterDocument `json:"waiters"`
	LockKind   string           `json:"lock_kind,omitempty"`
	Layout     string           `json:"layout,omitempty"`
	// Foreign are nodes in the way, of other locks or of other programs.
	Foreign []string `json:"foreign,omitempty"`
	// Reserved is what --min-hold keeps, also after the holder has ended.
	Reserved *ReservedDocument `json:"reserved,omitempty"`
	// LastRun is the last run of --once-per.
	LastRun *RunDocument `json:"last_run,omitempty"`
	AsOf    *time.Time   `json:"as_of,omitempty"`
}

// PermitsDocument is what a semaphore has, or a set of slots.
type PermitsDocument struct {
	InUse int `json:"in_use"`
	Limit int `json:"limit,omitempty"` // absent if it is not known
}

func (p *Permits) document() *PermitsDocument {
	if p == nil {
		return nil
	}
	return &PermitsDocument{p.InUse, p.Limit}
}

// HolderDocument is a holder in JSON.
type HolderDocument struct {
	Owner   string    `json:"owner"`
	Why     string    `json:"why"`
	Session string    `json:"session"`
	Token   string    `json:"token"`
	Since   time.Time `json:"since"` // when it joined the queue
	// HeldSince is absent if it is not known. Then HeldMS counts from Since and is an upper bound.
	HeldSince *time.Time        `json:"held_since,omitempty"`
	HeldMS    int64             `json:"held_ms"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Detached: no session owns the lock, and Session is empty. Expires is absent if it never does.
	Detached bool       `json:"detached,omitempty"`
	ID       string     `json:"id,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
}

// WaiterDocument is a waiter in JSON.
type WaiterDocument struct {
	Position  int               `json:"position"`
	Owner     string            `json:"owner"`
	Why       string            `json:"why"`
	Session   string            `json:"session"`
	Token     string            `json:"token"` // that it will have as the holder
	Mode      string            `json:"mode"`
	Since     time.Time         `json:"since"`
	WaitingMS int64             `json:"waiting_ms"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Member: a candidate, or a worker of shards. Its program goes on meanwhile.
	Member bool `json:"member,omitempty"`
}

// ReservedDocument is a reservation in JSON.
type ReservedDocument struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// RunDocument is a run of --once-per in JSON.
type RunDocument struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Began time.Time `json:"began"` // when it joined the queue: --once-per counts from here
	Done  time.Time `json:"done"`
}

// ListDocument is a list of locks in JSON.
type ListDocument struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Items      []Document `json:"items"`
	AsOf       time.Time  `json:"as_of"`
}

// document returns the lock, which the user calls name, as a document.
func (l *Lock) document(name string, now time.Time) Document {
	d := Describe(name, l.Path, l.Queue, now)
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

// Describe returns the document of a queue. name is what the user calls the lock.
func Describe(name, path string, queue []locks.Place, now time.Time) Document {
	d := Document{Kind: "Lock", Name: name, Path: path, Mode: "exclusive", State: "free", Waiters: []WaiterDocument{}}
	for _, e := range queue {
		since, ms := e.Since.UTC(), max(now.Sub(e.Since), 0).Milliseconds()
		session, token := show.Session(e.Session), strconv.FormatInt(e.Token, 10)
		if e.Held {
			h := HolderDocument{Owner: e.Owner, Why: e.Reason, Session: session, Token: token, Since: since, HeldMS: ms, Labels: e.Labels}
			h.detach(e.Entry)
			if !e.HeldSince.IsZero() {
				held := e.HeldSince.UTC()
				h.HeldSince, h.HeldMS = &held, max(now.Sub(held), 0).Milliseconds()
			}
			d.Holders = append(d.Holders, h)
		} else {
			d.Waiters = append(d.Waiters, WaiterDocument{len(d.Waiters) + 1, e.Owner, e.Reason, session, token, modeOf(e.Entry), since, ms, e.Labels, e.Member})
		}
	}
	if len(d.Holders) > 0 {
		d.State, d.Token, d.Holder = StateOf(queue[0].Entry), d.Holders[0].Token, &d.Holders[0]
		if queue[0].Shared {
			d.Mode = "shared"
		}
	}
	if len(queue) > 0 && len(d.Holders) == 0 {
		d.State = string(locks.Waiting)
	}
	if len(d.Holders) == 1 {
		d.Holders = nil
	}
	return d
}

// detach adds what a detached lock has and others do not.
func (h *HolderDocument) detach(e holdfast.Entry) {
	if !e.Detached {
		return
	}
	h.Detached, h.ID, h.Session = true, e.ID, ""
	if !e.Expires.IsZero() {
		expires := e.Expires.UTC()
		h.Expires = &expires
	}
}

// Reserve adds a reservation to the document.
func (d *Document) Reserve(r *reserve.Reservation) {
	if r == nil {
		return
	}
	d.Reserved = &ReservedDocument{r.Owner, strconv.FormatInt(r.Token, 10), r.From.UTC(), r.Until.UTC()}
	if d.State == "free" {
		d.State = "reserved"
	}
}

// Ran adds the last run of --once-per to the document.
func (d *Document) Ran(r *once.Result) {
	if r != nil {
		d.LastRun = &RunDocument{r.Owner, strconv.FormatInt(r.Token, 10), r.Began.UTC(), DoneAt(r)}
	}
}

// AsOf returns the time of a document.
func AsOf(now time.Time) *time.Time {
	t := now.UTC().Truncate(time.Millisecond)
	return &t
}

// modeOf returns how a place shares the lock.
func modeOf(e holdfast.Entry) string {
	if e.Shared {
		return "shared"
	}
	return "exclusive"
}

// StateOf returns the state of a lock, by the first place in its queue.
func StateOf(first holdfast.Entry) string {
	switch {
	case !first.Held: // it is about to acquire the lock
		return "waiting"
	case first.Kept:
		return "kept"
	}
	return "held" // in documents also of a detached lock
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
