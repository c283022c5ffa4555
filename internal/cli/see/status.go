package see

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

// Print prints one lock, which the user calls name.
func (l *Lock) Print(w io.Writer, p *term.Printer, name string, now time.Time) error {
	switch p.Format {
	case "json", "jsonl":
		d := l.document(name, now)
		d.APIVersion, d.AsOf = term.APIVersion, AsOf(now)
		d.LastRun = RunOf(l.LastRun)
		if p.Format == "jsonl" {
			return term.JSONLine(w, d)
		}
		return term.JSON(w, d)
	case "name":
		_, err := fmt.Fprintln(w, term.Escape(name))
		return err
	}
	if !p.NoHeaders {
		text := term.Escape(name) + " is " + l.Summary(now) + "\n"
		if l.LastRun != nil {
			text += "the last run of --once-per: " + term.Escape(LastRun(l.LastRun)) + "\n"
		}
		for _, line := range l.Deadlock {
			text += line + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	if len(l.Queue) == 0 {
		return nil
	}
	if !p.NoHeaders {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return term.Show(w, p, l.Places(now))
}

// Summary says in words who holds the lock.
func (l *Lock) Summary(now time.Time) string {
	text := "free"
	holders := l.Holders()
	switch {
	case l.Unreadable:
		text = "unreadable: no permission to read it"
	case len(l.Queue) == 0 && l.Reserved != nil:
		text = term.Escape(show.Reservation(l.Reserved))
	case l.State() == string(locks.Foreign):
		text = "not free: in the way is " + term.Escape(strings.Join(inTheWay(l.Foreign), ", and "))
	case len(l.Queue) == 0:
	case holders == 0: // the waiter is at a semaphore's turnstile
		text = "free; the first waiter is about to acquire it"
	default:
		text = show.HeldBy(l.Queue[0].Entry, now) + show.Gone(l.Queue[0])
	}
	if len(l.Queue) == 0 && l.Reserved != nil {
		text += "; its token is " + strconv.FormatInt(l.Reserved.Token, 10)
	}
	if holders > 0 && l.Reserved != nil && l.Reserved.Token != l.Queue[0].Token {
		text += "; but " + term.Escape(show.Reservation(l.Reserved)) + ": until then, a holdfast command waits at the head of the queue"
	}
	if len(l.Queue) > 0 && l.Queue[0].Detached {
		text += "; its id is " + term.Escape(term.Cut(l.Queue[0].ID, term.MaxCell))
	}
	if more := l.lock().Tenures() - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if l.Permits != nil {
		limit := "an unknown number of"
		if l.Permits.Limit > 0 {
			limit = strconv.Itoa(l.Permits.Limit)
		}
		text += fmt.Sprintf("; %d of %s permits in use", l.Permits.InUse, limit)
	}
	switch {
	case l.Kind == string(locks.Shards):
		text += "; it is a set of shards"
	case l.Layout != "" && l.Layout != layouts.Curator.Name && len(l.Queue) > 0:
		text += "; its layout is " + term.Escape(l.Layout)
	}
	return text
}

// Places returns the queue for a table.
func (l *Lock) Places(now time.Time) term.Listing[int] {
	position, waiters := make([]string, len(l.Queue)), 0
	indexes := make([]int, len(l.Queue))
	for i, e := range l.Queue {
		indexes[i] = i
		slot, isSlot := e.Slot()
		switch {
		case isSlot:
			position[i] = fmt.Sprintf("slot %d", slot)
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
		return func(i int) string { return f(l.Queue[i].Entry) }
	}
	columns := []term.Column[int]{
		{Head: "POSITION", Cell: func(i int) string { return position[i] }, Ink: func(i int) term.Ink {
			switch e := l.Queue[i]; {
			case e.Kept:
				return term.Faint
			case e.Held:
				return term.Yellow
			}
			return 0
		}},
		{Head: "WHO", Cell: func(i int) string { return l.Queue[i].Owner + show.Gone(l.Queue[i]) }},
		{Head: "FOR", Cell: of(func(e holdfast.Entry) string { return show.For(e, now) })},
		{Head: "SESSION", Cell: of(show.Session)},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "PREFER", Cell: func(i int) string { return preference(l.Queue[i]) }},
		{Head: "MODE", Wide: true, Cell: of(show.Mode)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "NODE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Path })},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(l.Queue, func(e locks.Place) bool { return len(e.Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[int]) bool { return c.Head == "LABELS" })
	}
	if !slices.ContainsFunc(l.Queue, preferred) {
		columns = slices.DeleteFunc(columns, func(c term.Column[int]) bool { return c.Head == "PREFER" })
	}
	return term.Listing[int]{Items: indexes, Columns: columns}
}

// LastRun says when a job was done, and by whom.
func LastRun(r *once.Result) string {
	return fmt.Sprintf("done at %s by %s, token %d", DoneAt(r).Format(time.RFC3339), term.Cut(r.Owner, term.MaxCell), r.Token)
}

// inTheWay says in words which nodes are in the way of a lock.
func inTheWay(nodes []locks.ForeignNode) []string {
	var all []holdfast.ForeignNode
	for _, n := range nodes {
		all = append(all, holdfast.ForeignNode(n))
	}
	return Counted(all)
}

// Counted returns how many nodes there are of each kind, with an example.
func Counted(nodes []holdfast.ForeignNode) []string {
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
