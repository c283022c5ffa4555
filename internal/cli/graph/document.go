package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
)

// Document is the graph in JSON. Its owners are those who wait, block others or are in a cycle.
type Document struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Locks      int     `json:"locks"` // that were read
	Owners     []Owner `json:"owners"`
	Cycles     []Cycle `json:"cycles"`
	// Of the nodes below these there may be locks that are not in the graph.
	Unreadable   []string  `json:"unreadable"`   // no permission to read them
	Unrecognized []string  `json:"unrecognized"` // they look like places, in no known layout
	AsOf         time.Time `json:"as_of"`
}

// An Owner is a program that holds locks or waits for some.
type Owner struct {
	ID       int      `json:"id"` // in this document
	Owner    string   `json:"owner"`
	Sessions []string `json:"sessions"`
	Stuck    bool     `json:"stuck"` // in a cycle or behind one
	Holds    []Place  `json:"holds"`
	Waits    []Place  `json:"waits"`
	// ProcessGone: a process of it has ended, and its session is about to. That is known on its machine alone.
	ProcessGone bool `json:"process_gone,omitempty"`
}

// A Place is a lock that an owner holds or waits for.
type Place struct {
	Name      string    `json:"name"`
	Path      string    `json:"path"`
	LockKind  string    `json:"lock_kind"`
	Layout    string    `json:"layout"`
	Mode      string    `json:"mode"`
	Node      string    `json:"node"`
	Session   string    `json:"session"`
	Why       string    `json:"why"`
	Since     time.Time `json:"since"` // when it joined the queue
	WaitingMS *int64    `json:"waiting_ms,omitempty"`
	Position  int       `json:"position,omitempty"`
	// For are the owners that a waiter waits for, without those in the queue that wait for the same. With
	// any_of, some of them are enough.
	For   []int `json:"for,omitempty"`
	AnyOf bool  `json:"any_of,omitempty"`
}

// A Cycle is a deadlock.
type Cycle struct {
	Owners  []int     `json:"owners"`
	Steps   []Step    `json:"steps"` // a shortest way round, from the victim on
	Victim  int       `json:"victim"`
	Rest    bool      `json:"rest"`    // one victim is not enough
	Threads []int     `json:"threads"` // owners with several threads: the cycle may end by itself
	Since   time.Time `json:"since"`
	AgeMS   int64     `json:"age_ms"`
}

// A Step is one wait in a Cycle: its owner waits for another one.
type Step struct {
	Owner int    `json:"owner"`
	Name  string `json:"name"`
	Path  string `json:"path"`
	For   int    `json:"for"`
	AnyOf bool   `json:"any_of"`
}

// shown returns the numbers of the owners in the output.
func (w *waits) shown(cycles bool) map[int]int {
	shown := make(map[int]int)
	in := make(map[int]bool)
	for o := range w.InCycle {
		in[o] = true
	}
	if !cycles {
		for _, e := range w.Blocking.Edges {
			in[e.Owner], in[e.To] = true, true
		}
	}
	for o := range w.Owners {
		if in[o] {
			shown[o] = len(shown)
		}
	}
	return shown
}

func (w *waits) document(cycles bool) Document {
	d := Document{
		APIVersion: term.APIVersion, Kind: "WaitGraph", Locks: w.locks, Owners: []Owner{}, Cycles: []Cycle{},
		Unreadable: append([]string{}, w.denied...), Unrecognized: append([]string{}, w.strange...),
		AsOf: w.now.UTC().Truncate(time.Millisecond),
	}
	shown := w.shown(cycles)
	ahead := make(map[waitgraph.Ref][]waitgraph.Edge)
	for _, e := range w.Blocking.Edges {
		ahead[e.Wait] = append(ahead[e.Wait], e)
	}
	numbers := func(owners []int) []int {
		all := []int{}
		for _, o := range owners {
			all = append(all, shown[o])
		}
		return all
	}
	for o, owner := range w.Owners {
		number, ok := shown[o]
		if !ok {
			continue
		}
		text, sessions := w.words.Whose(o)
		od := Owner{ID: number, Owner: text, Sessions: append([]string{}, sessions...), Stuck: owner.Stuck, Holds: []Place{}, Waits: []Place{}, ProcessGone: w.gone(o)}
		for _, r := range owner.Holds {
			od.Holds = append(od.Holds, w.placeDocument(r))
		}
		for _, r := range owner.Waits {
			p := w.placeDocument(r)
			ms := max(w.now.Sub(w.Place(r).Since), 0).Milliseconds()
			p.WaitingMS, p.Position = &ms, w.Position(r)
			for _, e := range ahead[r] {
				if to, ok := shown[e.To]; ok {
					p.For, p.AnyOf = append(p.For, to), e.Any
				}
			}
			od.Waits = append(od.Waits, p)
		}
		d.Owners = append(d.Owners, od)
	}
	for _, c := range w.Cycles {
		cd := Cycle{
			Owners: numbers(c.Owners), Steps: []Step{}, Victim: shown[c.Victim], Rest: c.Rest, Threads: numbers(c.Threads),
			Since: c.Since.UTC(), AgeMS: max(w.now.Sub(c.Since), 0).Milliseconds(),
		}
		for i, s := range c.Steps {
			path := w.Locks[s.Wait.Lock].Path
			next := c.Steps[(i+1)%len(c.Steps)].Owner
			cd.Steps = append(cd.Steps, Step{shown[s.Owner], w.g.LockName(path), path, shown[next], s.Any})
		}
		d.Cycles = append(d.Cycles, cd)
	}
	return d
}

// gone reports whether a process of an owner has ended, although its session lasts.
func (w *waits) gone(o int) bool {
	owner := w.Owners[o]
	return slices.ContainsFunc(slices.Concat(owner.Holds, owner.Waits), func(r waitgraph.Ref) bool { return locks.Gone([]byte(w.Place(r).Process)) })
}

func (w *waits) placeDocument(r waitgraph.Ref) Place {
	l, p := w.Locks[r.Lock], w.Place(r)
	mode := "exclusive"
	switch {
	case l.Counted:
		mode = "permit"
	case p.Shared:
		mode = "shared"
	}
	return Place{
		Name: w.g.LockName(l.Path), Path: l.Path, LockKind: l.Kind, Layout: l.Layout, Mode: mode, Node: p.Node,
		Session: locks.SessionText(p.Session), Why: p.Reason, Since: p.Since.UTC(),
	}
}

// dot prints the graph for Graphviz. An arrow goes from a waiter to a holder. It is dashed if other
// holders will do, too, and red within a cycle.
func (w *waits) dot(out io.Writer, cycles bool) error {
	var b strings.Builder
	b.WriteString("digraph holdfast {\n\trankdir=LR;\n\tnode [shape=box];\n")
	shown := w.shown(cycles)
	for o := range w.Owners {
		if n, ok := shown[o]; ok {
			text, sessions := w.words.Whose(o)
			if w.gone(o) {
				sessions = append(sessions, strings.TrimPrefix(show.ProcessGone, ", "))
			}
			label := strings.Join(append([]string{term.Cut(text, 100)}, sessions...), "\n")
			color := ""
			if w.InCycle[o] > 0 {
				color = ", color=red"
			}
			fmt.Fprintf(&b, "\tn%d [label=%s%s];\n", n, dotText(label), color)
		}
	}
	for _, e := range w.Blocking.Edges {
		from, ok := shown[e.Owner]
		to, also := shown[e.To]
		if !ok || !also {
			continue
		}
		style := ""
		if e.Any {
			style += ", style=dashed"
		}
		if w.InCycle[e.Owner] > 0 && w.InCycle[e.Owner] == w.InCycle[e.To] {
			style += ", color=red"
		}
		fmt.Fprintf(&b, "\tn%d -> n%d [label=%s%s];\n", from, to, dotText(w.words.Lock(e.Wait)), style)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// dotText quotes text for Graphviz, where a backslash begins an escape. Lines are centred.
func dotText(s string) string {
	lines := strings.Split(strings.TrimPrefix(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(term.Escape(line))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}
