package ui

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"

	"holdfast/internal/duration"
	"holdfast/internal/locks"
)

type healthBody struct {
	Rows [][2]string
	Gaps []gap
	Bad  []string
}

func (u *UI) health(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Health", u.command("doctor")
	c := v.contact
	watch := "one persistent recursive watch"
	if c.Polls {
		watch = "none: this server has no persistent watches, so the page reads all locks again and again"
	}
	places := 0
	for _, l := range v.locks {
		places += len(l.holders) + len(l.waiters)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.state.mu.RLock()
	turns, gaps := len(u.state.past.order), slices.Clone(u.state.past.gaps)
	u.state.mu.RUnlock()
	proven := "never"
	if !c.Proven.IsZero() {
		proven = dateText(c.Proven) + " UTC"
	}
	b := healthBody{Gaps: gaps, Rows: [][2]string{
		{"Locks below", u.cfg.Prefix},
		{"Session of this page", locks.SessionText(c.Session)},
		{"Session timeout", c.Timeout.String()},
		{"Last answer took", duration.Measured(c.Trip)},
		{"Complete as of", proven},
		{"Watch", watch},
		{"Nodes watched", strconv.Itoa(c.Nodes)},
		{"Locks in use", strconv.Itoa(len(v.locks))},
		{"Places in queues", strconv.Itoa(places)},
		{"Turns in the history", strconv.Itoa(turns)},
		{"Open tabs", strconv.Itoa(u.state.hub.count())},
		{"Memory of this process", strconv.Itoa(int(m.Sys>>20)) + " MiB"},
		{"Running since", dateText(u.started) + " UTC"},
	}}
	if c.Denied > 0 {
		b.Bad = append(b.Bad, count(c.Denied, "node")+" cannot be read for lack of permission: locks there are not shown, or not completely.")
	}
	f.Body = b
}
