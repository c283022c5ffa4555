package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	layouts "holdfast/layout"
	"holdfast/once"
)

// showStatus prints one lock, which the user calls name.
func (l *located) showStatus(w io.Writer, p *term.Printer, name string, now time.Time) error {
	switch p.Format {
	case "json", "jsonl":
		d := l.document(name, now)
		d.APIVersion, d.AsOf = term.APIVersion, asOf(now)
		d.ran(l.lastRun)
		if p.Format == "jsonl" {
			return term.JSONLine(w, d)
		}
		return term.JSON(w, d)
	case "name":
		_, err := fmt.Fprintln(w, term.Escape(name))
		return err
	}
	if !p.NoHeaders {
		text := term.Escape(name) + " is " + l.summary(now) + "\n"
		if l.lastRun != nil {
			text += "the last run of --once-per: " + term.Escape(lastRunText(l.lastRun)) + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	if len(l.queue) == 0 {
		return nil
	}
	if !p.NoHeaders {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return term.Show(w, p, l.places(now))
}

// summary says in words who holds the lock.
func (l *located) summary(now time.Time) string {
	text := "free"
	holders := l.holders()
	switch {
	case l.unreadable:
		text = "unreadable: no permission to read it"
	case len(l.queue) == 0 && l.reserved != nil:
		text = term.Escape(show.Reservation(l.reserved))
	case l.state() == string(locks.Foreign):
		text = "not free: in the way is " + term.Escape(strings.Join(inTheWay(l.foreign), ", and "))
	case len(l.queue) == 0:
	case holders == 0: // the waiter is at a semaphore's turnstile
		text = "free; the first waiter is about to acquire it"
	case l.queue[0].Kept:
		text = "kept by " + show.Owner(l.queue[0].Entry) + " for its next use"
	default:
		text = "held by " + show.Holder(l.queue[0].Entry, now)
	}
	if len(l.queue) == 0 && l.reserved != nil {
		text += "; its token is " + strconv.FormatInt(l.reserved.Token, 10)
	}
	if holders > 0 && l.reserved != nil && l.reserved.Token != l.queue[0].Token {
		text += "; but " + term.Escape(show.Reservation(l.reserved)) + ": until then, a holdfast command waits at the head of the queue"
	}
	if len(l.queue) > 0 && l.queue[0].Detached {
		text += "; its id is " + term.Escape(term.Cut(l.queue[0].ID, term.MaxCell))
	}
	if holders > 1 {
		text += fmt.Sprintf(" and %d more", holders-1)
	}
	if l.permits != nil {
		limit := "an unknown number of"
		if l.permits.limit > 0 {
			limit = strconv.Itoa(l.permits.limit)
		}
		text += fmt.Sprintf("; %d of %s permits in use", l.permits.inUse, limit)
	}
	switch {
	case l.kind == string(locks.Shards):
		text += "; it is a set of shards"
	case l.layout != "" && l.layout != layouts.Curator.Name && len(l.queue) > 0:
		text += "; its layout is " + term.Escape(l.layout)
	}
	return text
}

// places returns the queue for a table.
func (l *located) places(now time.Time) term.Listing[int] {
	position, waiters := make([]string, len(l.queue)), 0
	indexes := make([]int, len(l.queue))
	for i, e := range l.queue {
		indexes[i] = i
		switch {
		case e.Kept:
			position[i] = "keeps"
		case e.Held && e.Shared:
			position[i] = "shares"
		case e.Held:
			position[i] = "holder"
		default:
			waiters++
			position[i] = strconv.Itoa(waiters)
		}
	}
	of := func(f func(holdfast.Entry) string) func(int) string {
		return func(i int) string { return f(l.queue[i].Entry) }
	}
	columns := []term.Column[int]{
		{Head: "POSITION", Cell: func(i int) string { return position[i] }, Ink: func(i int) term.Ink {
			switch e := l.queue[i]; {
			case e.Kept:
				return term.Faint
			case e.Held:
				return term.Yellow
			}
			return 0
		}},
		{Head: "WHO", Cell: of(func(e holdfast.Entry) string { return e.Owner })},
		{Head: "FOR", Cell: of(func(e holdfast.Entry) string { return show.For(e, now) })},
		{Head: "SESSION", Cell: of(show.SessionOf)},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "MODE", Wide: true, Cell: of(modeOf)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "NODE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Path })},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(l.queue, func(e locks.Place) bool { return len(e.Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[int]) bool { return c.Head == "LABELS" })
	}
	return term.Listing[int]{Items: indexes, Columns: columns}
}

// lastRunText says when a job was done, and by whom.
func lastRunText(r *once.Result) string {
	return fmt.Sprintf("done at %s by %s, token %d", doneAt(r).Format(time.RFC3339), term.Cut(r.Owner, term.MaxCell), r.Token)
}

// doneAt returns when the end of a run was recorded, or its beginning if that is not known.
func doneAt(r *once.Result) time.Time {
	if r.At.IsZero() {
		return r.Began.UTC()
	}
	return r.At.UTC()
}

// inTheWay says in words which nodes are in the way of a lock.
func inTheWay(nodes []locks.ForeignNode) []string {
	var all []holdfast.ForeignNode
	for _, n := range nodes {
		all = append(all, holdfast.ForeignNode(n))
	}
	return counts(all)
}

// counts returns how many nodes there are of each kind, with an example.
func counts(nodes []holdfast.ForeignNode) []string {
	var kinds []string
	count, example := make(map[string]int), make(map[string]string)
	for _, n := range nodes {
		if count[n.Kind]++; count[n.Kind] == 1 {
			kinds = append(kinds, n.Kind)
			example[n.Kind] = n.Path
		}
	}
	var all []string
	for _, kind := range kinds {
		what := fmt.Sprintf("%d node(s) of %s", count[kind], kind)
		if kind == "" {
			what = fmt.Sprintf("%d node(s) with names of no layout", count[kind])
		}
		all = append(all, fmt.Sprintf("%s, such as %s", what, example[kind]))
	}
	return all
}
