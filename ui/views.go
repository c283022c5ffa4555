package ui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/locks"
)

// A row is a lock in a table.
type row struct {
	Name, Href, Layout, Kind, State string
	Owner, Reason                   string
	Session, Token                  int64
	Since                           time.Time // of the first holder
	Bound                           bool
	Taken                           bool // somebody holds it
	More                            int  // further holders
	Permits                         string
	Waiters                         int
	Oldest                          time.Time // when the first of the waiters joined
}

func (u *UI) row(l *lock) row {
	r := row{Name: u.name(l.Path), Href: u.href(l.key), Layout: l.Layout, Kind: l.Use(), State: string(l.State(time.Now())), Waiters: len(l.waiters), Taken: l.taken()}
	if len(l.holders) > 0 {
		p := l.holders[0]
		r.Owner, r.Reason, r.Session, r.Token, r.More = p.Owner, p.Reason, p.Session, p.Token, l.Tenures()-1
		r.Since, r.Bound = p.since()
	}
	for _, p := range l.waiters {
		if !p.Since.IsZero() && (r.Oldest.IsZero() || p.Since.Before(r.Oldest)) {
			r.Oldest = p.Since
		}
	}
	if at := l.Rests(time.Now()); at != nil && len(l.Queue) == 0 {
		r.Owner, r.Token, r.Since = at.Owner, at.Token, at.From
	}
	if l.Counted() {
		r.Permits = strconv.Itoa(len(l.holders)) + "/?"
		if l.Limit > 0 {
			r.Permits = strconv.Itoa(len(l.holders)) + "/" + strconv.Itoa(l.Limit)
		}
	}
	return r
}

var kinds = []string{"lock", "rwlock", "semaphore", "slots", "node", "tree", "shards", "election"}

// A stat is a number on the overview.
type stat struct {
	Label, Value, Note, Href string
	Since                    time.Time // the value is a time that goes on
	Bad                      bool
}

type eventRow struct {
	event
	Name, Href string
}

func (u *UI) eventRows(all []event) (rows []eventRow) {
	for _, e := range all {
		rows = append(rows, eventRow{e, u.name(e.Key.path), u.href(e.Key)})
	}
	return rows
}

// sortRows sorts rows that are sorted by name.
func sortRows(rows []row, by string) {
	first := func(a, b time.Time) int {
		switch {
		case a.IsZero() && b.IsZero():
			return 0
		case a.IsZero():
			return 1
		case b.IsZero():
			return -1
		}
		return a.Compare(b)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		switch by {
		case "wait":
			return first(a.Oldest, b.Oldest)
		case "hold":
			return first(a.Since, b.Since)
		case "waiters":
			return b.Waiters - a.Waiters
		case "owner":
			return strings.Compare(a.Owner, b.Owner)
		}
		return 0
	})
}

// question returns the address of the question before an action on a place.
func question(verb string, k lockKey, token int64) string {
	q := url.Values{"lock": {k.path}, "layout": {k.layout}, "kind": {k.kind}, "token": {strconv.FormatInt(token, 10)}}
	return "act/" + verb + "?" + q.Encode()
}

// who names a client.
func who(owner string, session int64) string {
	switch {
	case owner != "":
		return owner
	case session != 0:
		return "session " + locks.SessionText(session)
	}
	return "no session"
}
