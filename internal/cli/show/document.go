package show

import (
	"strconv"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/reserve"
)

// A Document is a lock in JSON. 64-bit numbers are strings, because JavaScript and jq would round
// them.
type Document struct {
	APIVersion string    `json:"apiVersion,omitempty"` // absent in a list, which has it
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	Path       string    `json:"path"`
	Mode       string    `json:"mode"`
	State      string    `json:"state"`
	Token      string    `json:"token,omitempty"`
	Permits    *Permits  `json:"permits,omitempty"` // of a semaphore or slots
	Holder     *Holding  `json:"holder,omitempty"`  // the first holder
	Holders    []Holding `json:"holders,omitempty"` // all holders, if there are several
	Waiters    []Waiting `json:"waiters"`
	LockKind   string    `json:"lock_kind,omitempty"`
	Layout     string    `json:"layout,omitempty"`
	// Foreign are nodes in the way, of other locks or of other programs.
	Foreign []string `json:"foreign,omitempty"`
	// Reserved is what --min-hold keeps, also after the holder has ended.
	Reserved *Reserved `json:"reserved,omitempty"`
	// LastRun is the last run of --once-per.
	LastRun *Run       `json:"last_run,omitempty"`
	AsOf    *time.Time `json:"as_of,omitempty"`
}

// Permits are those of a semaphore or of a set of slots, in JSON.
type Permits struct {
	InUse int `json:"in_use"`
	Limit int `json:"limit,omitempty"` // absent if it is not known
}

// A Holding is a holder in JSON.
type Holding struct {
	Owner   string    `json:"owner"`
	Why     string    `json:"why"`
	Session string    `json:"session"`
	Token   string    `json:"token"`
	Since   time.Time `json:"since"` // when it joined the queue
	// HeldSince is absent if it is not known. Then HeldMS counts from Since and is an upper bound.
	HeldSince *time.Time        `json:"held_since,omitempty"`
	HeldMS    int64             `json:"held_ms"`
	Slot      *int              `json:"slot,omitempty"` // its number. A holder of several slots has an entry for each, with one token
	Labels    map[string]string `json:"labels,omitempty"`
	// Preference is that of the leader of an election; absent if it has none.
	Preference *int `json:"preference,omitempty"`
	// ProcessGone: its process has ended, and its session is about to. That is known on its machine alone.
	ProcessGone bool `json:"process_gone,omitempty"`
	// Detached: no session owns the lock, and Session is empty. Expires is absent if it never does.
	Detached bool       `json:"detached,omitempty"`
	ID       string     `json:"id,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
}

// A Waiting is a waiter in JSON.
type Waiting struct {
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
	// Preference is that of a candidate; absent if it has none.
	Preference  *int `json:"preference,omitempty"`
	ProcessGone bool `json:"process_gone,omitempty"` // as of a Holding
}

// Reserved is a reservation in JSON.
type Reserved struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// A Run is a run of --once-per in JSON.
type Run struct {
	Owner string    `json:"owner"`
	Token string    `json:"token"`
	Began time.Time `json:"began"` // when it joined the queue: --once-per counts from here
	Done  time.Time `json:"done"`
}

// Describe returns the document of a lock with its queue.
func Describe(name, path string, queue []locks.Place, now time.Time) Document {
	d := Document{Kind: "Lock", Name: name, Path: path, Mode: "exclusive", State: string(locks.Free), Waiters: []Waiting{}}
	for _, e := range queue {
		since, ms := e.Since.UTC(), max(now.Sub(e.Since), 0).Milliseconds()
		session, token := locks.SessionText(e.Session), strconv.FormatInt(e.Token, 10)
		if e.Held {
			h := Holding{Owner: e.Owner, Why: e.Reason, Session: session, Token: token, Since: since, HeldMS: ms, Labels: e.Labels, Preference: preferenceOf(e), ProcessGone: e.ProcessGone()}
			h.detach(e.Entry)
			if slot, ok := e.Slot(); ok {
				h.Slot = &slot
			}
			if !e.HeldSince.IsZero() {
				held := e.HeldSince.UTC()
				h.HeldSince, h.HeldMS = &held, max(now.Sub(held), 0).Milliseconds()
			}
			d.Holders = append(d.Holders, h)
		} else {
			d.Waiters = append(d.Waiters, Waiting{len(d.Waiters) + 1, e.Owner, e.Reason, session, token, Mode(e.Entry), since, ms, e.Labels, e.Member, preferenceOf(e), e.ProcessGone()})
		}
	}
	if len(queue) > 0 {
		d.State = State(queue[0].Entry)
	}
	if len(d.Holders) > 0 {
		d.Token, d.Holder = d.Holders[0].Token, &d.Holders[0]
		if queue[0].Shared {
			d.Mode = "shared"
		}
	}
	if len(d.Holders) == 1 {
		d.Holders = nil
	}
	return d
}

// preferenceOf returns the preference of a candidate, or nil.
func preferenceOf(p locks.Place) *int {
	n, ok := p.Preference()
	if !ok {
		return nil
	}
	return &n
}

// Reserve adds a reservation to the document; nil adds nothing.
func (d *Document) Reserve(r *reserve.Reservation) {
	if r == nil {
		return
	}
	d.Reserved = &Reserved{r.Owner, strconv.FormatInt(r.Token, 10), r.From.UTC(), r.Until.UTC()}
	if d.State == string(locks.Free) {
		d.State = string(locks.Reserved)
	}
}

// detach adds what a detached lock has and others do not.
func (h *Holding) detach(e holdfast.Entry) {
	if !e.Detached {
		return
	}
	h.Detached, h.ID, h.Session = true, e.ID, ""
	if !e.Expires.IsZero() {
		expires := e.Expires.UTC()
		h.Expires = &expires
	}
}

// Mode returns how a place shares the lock.
func Mode(e holdfast.Entry) string {
	if e.Shared {
		return "shared"
	}
	return "exclusive"
}

// State returns the state of a lock, by the first place in its queue.
func State(first holdfast.Entry) string {
	switch {
	case !first.Held: // it is about to acquire the lock
		return string(locks.Waiting)
	case first.Kept:
		return string(locks.Kept)
	}
	return string(locks.Held) // in documents also of a detached lock
}
