package see

import (
	"slices"
	"strconv"
	"time"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	layouts "holdfast/layout"
)

// Listing returns the locks that ls has found, for the formats of -o. name returns what the user calls a lock.
func Listing(name func(path string) string, found []Lock, now time.Time) term.Listing[Lock] {
	// of returns the text of a cell about the first place in the queue.
	of := func(f func(holdfast.Entry) string) func(Lock) string {
		return func(l Lock) string {
			if len(l.Queue) == 0 {
				return ""
			}
			return f(l.Queue[0].Entry)
		}
	}
	columns := []term.Column[Lock]{
		{Head: "NAME", Cell: func(l Lock) string { return name(l.Path) }},
		{Head: "STATE", Cell: (Lock).State, Ink: func(l Lock) term.Ink { return inkOf(l.State()) }},
		{Head: "HOLDER", Cell: (Lock).holder},
		{Head: "HELD-FOR", Cell: of(func(e holdfast.Entry) string { return show.For(e, now) })},
		{Head: "WAITERS", Cell: func(l Lock) string { return strconv.Itoa(l.Waiters()) }},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "PERMITS", Cell: func(l Lock) string { return l.Permits.String() }},
		{Head: "PREFER", Wide: true, Cell: func(l Lock) string {
			if len(l.Queue) == 0 {
				return ""
			}
			return preference(l.Queue[0])
		}},
		{Head: "MODE", Wide: true, Cell: of(show.Mode)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "SESSION", Wide: true, Cell: of(show.Session)},
		{Head: "LAYOUT", Wide: true, Cell: func(l Lock) string { return l.Layout }},
		{Head: "PATH", Wide: true, Cell: func(l Lock) string { return l.Path }},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(found, func(l Lock) bool { return l.Layout != "" && l.Layout != layouts.Curator.Name }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[Lock]) bool { return c.Head == "LAYOUT" })
	}
	if !slices.ContainsFunc(found, func(l Lock) bool { return l.Permits != nil }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[Lock]) bool { return c.Head == "PERMITS" })
	}
	if !slices.ContainsFunc(found, func(l Lock) bool { return len(l.Queue) > 0 && len(l.Queue[0].Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[Lock]) bool { return c.Head == "LABELS" })
	}
	if !slices.ContainsFunc(found, func(l Lock) bool { return len(l.Queue) > 0 && preferred(l.Queue[0]) }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[Lock]) bool { return c.Head == "PREFER" })
	}
	return term.Listing[Lock]{
		Items: found, Columns: columns,
		Name: func(l Lock) string { return name(l.Path) },
		Line: func(l Lock) any {
			d := l.document(name(l.Path), now)
			d.APIVersion, d.AsOf = term.APIVersion, AsOf(now)
			return d
		},
		Whole: func() any {
			list := ListDocument{APIVersion: term.APIVersion, Kind: "LockList", Items: []show.Document{}, AsOf: *AsOf(now)}
			for _, l := range found {
				list.Items = append(list.Items, l.document(name(l.Path), now))
			}
			return list
		},
	}
}

// inkOf returns the color of a lock's state.
func inkOf(state string) term.Ink {
	switch state {
	case "held", "detached", "reserved":
		return term.Yellow
	case "kept":
		return term.Faint
	case Unreadable, "foreign":
		return term.Red
	}
	return term.Green
}
