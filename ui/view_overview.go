package ui

import (
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/locks"
)

type overviewBody struct {
	Stats  []stat
	Roots  []rootRow
	Waits  []row // with the oldest waits
	Holds  []row // held longest
	Events []eventRow
	Hour   []trend
	Began  time.Time // of the hour, if the page is younger
	Empty  bool
}

type rootRow struct {
	Owner, Session, Href string
	Blocks               int
	Locks                []row
	Cycle                int
}

func (u *UI) overview(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Overview", u.command("ls", u.cfg.Prefix)
	b := overviewBody{Empty: len(v.locks) == 0}
	held, waiting := tally(v.locks)
	sessions := make(map[int64]bool)
	var oldest, longest row
	var rows []row
	for _, l := range v.locks {
		if l.Kind == locks.Shards { // its queues are here, too
			continue
		}
		x := u.row(l)
		rows = append(rows, x)
		for _, p := range l.places() {
			sessions[p.Session] = true
		}
	}
	delete(sessions, 0)
	for _, x := range rows {
		if !x.Oldest.IsZero() && (oldest.Name == "" || x.Oldest.Before(oldest.Oldest)) {
			oldest = x
		}
		if x.State == "held" && !x.Since.IsZero() && (longest.Name == "" || x.Since.Before(longest.Since)) {
			longest = x
		}
	}
	g := u.graphOf(v)
	b.Roots = g.Roots
	b.Stats = []stat{
		{Label: "Locks held", Value: strconv.Itoa(held), Note: "of " + count(len(v.locks), "lock"), Href: "locks?state=held"},
		{Label: "Clients waiting", Value: strconv.Itoa(waiting), Note: "from " + count(len(sessions), "session"), Href: "locks?state=waiting&sort=wait"},
		{Label: "Oldest wait", Value: "none", Href: "locks?state=waiting&sort=wait"},
		{Label: "Longest hold", Value: "none", Href: "locks?state=held&sort=hold"},
		{Label: "Root blockers", Value: strconv.Itoa(len(g.Roots)), Note: "wait for nobody, block others", Href: "graph"},
		{Label: "Deadlocks", Value: strconv.Itoa(len(g.Cycles)), Note: "cycles of waits", Href: "graph", Bad: len(g.Cycles) > 0},
	}
	if oldest.Name != "" {
		b.Stats[2].Value, b.Stats[2].Since, b.Stats[2].Note, b.Stats[2].Href = age(v.now, oldest.Oldest), oldest.Oldest, oldest.Name, oldest.Href
	}
	if longest.Name != "" {
		b.Stats[3].Value, b.Stats[3].Since, b.Stats[3].Note, b.Stats[3].Href = age(v.now, longest.Since), longest.Since, longest.Name, longest.Href
	}
	sortRows(rows, "wait")
	for _, x := range rows {
		if x.Waiters > 0 && len(b.Waits) < 8 {
			b.Waits = append(b.Waits, x)
		}
	}
	if len(b.Roots) > 6 {
		b.Roots = b.Roots[:6]
	}
	h := u.state.lastHour()
	b.Hour, b.Began = h.trends(v.now), h.began(v.now)
	b.Events = u.eventRows(u.state.recentEvents(12))
	f.Body = b
}
