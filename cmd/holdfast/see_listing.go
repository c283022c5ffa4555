package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	layouts "holdfast/layout"
)

// lockListing returns the locks that ls has found, for the formats of -o. name returns what the user calls a lock.
func lockListing(name func(path string) string, found []located, now time.Time) term.Listing[located] {
	// of returns the text of a cell about the first place in the queue.
	of := func(f func(holdfast.Entry) string) func(located) string {
		return func(l located) string {
			if len(l.queue) == 0 {
				return ""
			}
			return f(l.queue[0].Entry)
		}
	}
	columns := []term.Column[located]{
		{Head: "NAME", Cell: func(l located) string { return name(l.path) }},
		{Head: "STATE", Cell: (located).state, Ink: func(l located) term.Ink { return inkOf(l.state()) }},
		{Head: "HOLDER", Cell: (located).holder},
		{Head: "HELD-FOR", Cell: of(func(e holdfast.Entry) string { return show.For(e, now) })},
		{Head: "WAITERS", Cell: func(l located) string { return strconv.Itoa(l.waiters()) }},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "PERMITS", Cell: func(l located) string { return l.permits.String() }},
		{Head: "MODE", Wide: true, Cell: of(modeOf)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "SESSION", Wide: true, Cell: of(show.SessionOf)},
		{Head: "LAYOUT", Wide: true, Cell: func(l located) string { return l.layout }},
		{Head: "PATH", Wide: true, Cell: func(l located) string { return l.path }},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(found, func(l located) bool { return l.layout != "" && l.layout != layouts.Curator.Name }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[located]) bool { return c.Head == "LAYOUT" })
	}
	if !slices.ContainsFunc(found, func(l located) bool { return l.permits != nil }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[located]) bool { return c.Head == "PERMITS" })
	}
	if !slices.ContainsFunc(found, func(l located) bool { return len(l.queue) > 0 && len(l.queue[0].Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[located]) bool { return c.Head == "LABELS" })
	}
	return term.Listing[located]{
		Items: found, Columns: columns,
		Name: func(l located) string { return name(l.path) },
		Line: func(l located) any {
			d := l.document(name(l.path), now)
			d.APIVersion, d.AsOf = term.APIVersion, asOf(now)
			return d
		},
		Whole: func() any {
			list := lockList{APIVersion: term.APIVersion, Kind: "LockList", Items: []lockDocument{}, AsOf: *asOf(now)}
			for _, l := range found {
				list.Items = append(list.Items, l.document(name(l.path), now))
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
	case unreadableState, "foreign":
		return term.Red
	}
	return term.Green
}

// labelsOf returns the labels of a place, such as the trace that it belongs to.
func labelsOf(e holdfast.Entry) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, key+"="+e.Labels[key])
	}
	return strings.Join(labels, ",")
}
