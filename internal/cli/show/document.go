package show

import (
	"strconv"
	"time"

	"holdfast"
)

// A Document is a lock in JSON. 64-bit numbers are strings, because JavaScript and jq would round
// them.
type Document struct {
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Mode    string    `json:"mode"`
	State   string    `json:"state"`
	Token   string    `json:"token,omitempty"`
	Holder  *Holding  `json:"holder,omitempty"`  // the first holder
	Holders []Holding `json:"holders,omitempty"` // all holders, if there are several
	Waiters []Waiting `json:"waiters"`
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
	Labels    map[string]string `json:"labels,omitempty"`
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
}

// Describe returns the document of a lock that somebody holds or waits for.
func Describe(name, path string, queue []holdfast.Entry, now time.Time) Document {
	d := Document{Kind: "Lock", Name: name, Path: path, Mode: "exclusive", State: "free", Waiters: []Waiting{}}
	for _, e := range queue {
		since, ms := e.Since.UTC(), max(now.Sub(e.Since), 0).Milliseconds()
		session, token := Session(e.Session), strconv.FormatInt(e.Token, 10)
		if e.Held {
			h := Holding{Owner: e.Owner, Why: e.Reason, Session: session, Token: token, Since: since, HeldMS: ms, Labels: e.Labels}
			h.detach(e)
			if !e.HeldSince.IsZero() {
				held := e.HeldSince.UTC()
				h.HeldSince, h.HeldMS = &held, max(now.Sub(held), 0).Milliseconds()
			}
			d.Holders = append(d.Holders, h)
		} else {
			d.Waiters = append(d.Waiters, Waiting{len(d.Waiters) + 1, e.Owner, e.Reason, session, token, mode(e), since, ms, e.Labels})
		}
	}
	if len(d.Holders) > 0 {
		d.State, d.Token, d.Holder = state(queue[0]), d.Holders[0].Token, &d.Holders[0]
		if queue[0].Shared {
			d.Mode = "shared"
		}
	}
	if len(d.Holders) == 1 {
		d.Holders = nil
	}
	return d
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

// mode returns how a place shares the lock.
func mode(e holdfast.Entry) string {
	if e.Shared {
		return "shared"
	}
	return "exclusive"
}

// state returns the state of a lock, by its first place.
func state(first holdfast.Entry) string {
	switch {
	case !first.Held: // it is about to acquire the lock
		return "free"
	case first.Kept:
		return "kept"
	}
	return "held" // also of a detached lock
}
