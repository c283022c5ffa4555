package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/locks"
)

type shardSet struct {
	Name    string
	Workers []shardWorker
	Shards  []shardRow
	Held    int
}

type shardWorker struct {
	Owner, Session string
	Leads          bool
	Shards         int
}

type shardRow struct {
	Name, Href, Owner string
	Since             time.Time
	Bound, Held       bool
}

// shardSets returns the sets of shards.
func (u *UI) shardSets(v view) (sets []shardSet) {
	by := make(map[string]*lock)
	for _, l := range v.locks {
		if l.Kind == locks.Queue {
			by[l.Path] = l
		}
	}
	for _, l := range v.locks {
		above, ok := strings.CutSuffix(l.Path, "/workers")
		if !ok {
			continue
		}
		u.state.mu.RLock()
		n, there := u.state.look(above + "/shards")
		var sort []string
		if there {
			sort = n.Children()
		}
		u.state.mu.RUnlock()
		if !there {
			continue
		}
		set := shardSet{Name: u.name(above)}
		held := make(map[int64]int)
		slices.SortFunc(sort, func(x, y string) int { return cmp.Or(len(x)-len(y), strings.Compare(x, y)) })
		for _, child := range sort {
			row := shardRow{Name: child}
			if s := by[above+"/shards/"+child]; s != nil {
				row.Href = u.href(s.key)
				if len(s.holders) > 0 {
					p := s.holders[0]
					row.Owner, row.Held = who(p.Owner, p.Session), true
					row.Since, row.Bound = p.since()
					held[p.Session]++
					set.Held++
				}
			}
			if len(set.Shards) < rowsOnPage {
				set.Shards = append(set.Shards, row)
			}
		}
		for i, p := range l.places() {
			if len(set.Workers) < rowsOnPage {
				set.Workers = append(set.Workers, shardWorker{workerOf(p), locks.SessionText(p.Session), i == 0, held[p.Session]})
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// workerOf names a worker. Its node has its description.
func workerOf(p place) string { return who(p.Owner, p.Session) }
