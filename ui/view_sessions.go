package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/locks"
)

// rowsOnPage bounds the other tables.
const rowsOnPage = 500

type sessionsBody struct {
	Rows []sessionRow
	More int
}

type sessionRow struct {
	Session     string
	Owner       string
	Held, Waits int
	Oldest      time.Time
	Locks       []placeRow
	More        int
}

type placeRow struct {
	Name, Href string
	Held       bool
}

func (u *UI) sessions(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Sessions", u.command("sessions")
	by := make(map[int64]*sessionRow)
	for _, l := range v.locks {
		if l.Kind == locks.Shards { // its workers have places in the queues below it
			continue
		}
		for _, p := range l.places() {
			if p.Session == 0 {
				continue
			}
			s := by[p.Session]
			if s == nil {
				s = &sessionRow{Session: locks.SessionText(p.Session)}
				by[p.Session] = s
			}
			s.Owner = cmp.Or(s.Owner, p.Owner)
			if p.Held {
				s.Held++
			} else if !p.Member {
				s.Waits++
				if !p.Since.IsZero() && (s.Oldest.IsZero() || p.Since.Before(s.Oldest)) {
					s.Oldest = p.Since
				}
			}
			if len(s.Locks) == 6 {
				s.More++
				continue
			}
			s.Locks = append(s.Locks, placeRow{u.name(l.Path), u.href(l.key), p.Held})
		}
	}
	var b sessionsBody
	for _, s := range by {
		b.Rows = append(b.Rows, *s)
	}
	slices.SortFunc(b.Rows, func(x, y sessionRow) int {
		return cmp.Or(y.Waits-x.Waits, y.Held-x.Held, strings.Compare(x.Session, y.Session))
	})
	if len(b.Rows) > rowsOnPage {
		b.Rows, b.More = b.Rows[:rowsOnPage], len(b.Rows)-rowsOnPage
	}
	f.Body = b
}
