package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/locks"
	"holdfast/zk"
)

// placesOnPage is how many places of a lock its page shows.
const placesOnPage = 200

type lockBody struct {
	Found      bool
	Cycles     []cycleView // that the lock is in
	Path       string
	Row        row
	Holders    []holderRow
	Waiters    []waiterRow
	More       int // waiters that are not shown
	Gantt      gantt
	Histograms [2]histogram // of waits and holds
	Events     []event
	Gaps       []gap
	Others     []row // other locks in the same directory
	Unreadable bool
}

type holderRow struct {
	place
	SlotNumber string
	From       time.Time
	Bound      bool
	Labels     [][2]string
	Within     string
	Gone       bool   // its process has ended
	Revoke     string // addresses of the questions
	Break      string
}

type waiterRow struct {
	place
	Position int
	Behind   string // whom it waits for
	Gone     bool   // its process has ended
	Break    string
}

func (u *UI) lock(r *http.Request, v view, f *frame) {
	q := r.URL.Query()
	path, layout, kind := q.Get("path"), q.Get("layout"), q.Get("kind")
	b := lockBody{Path: path}
	f.Title = "Lock"
	f.Status = http.StatusNotFound
	if err := zk.ValidatePath(path); err != nil || !strings.HasPrefix(path, u.cfg.Prefix) {
		b.Path = ""
		f.Command, f.Body = u.command("ls", u.cfg.Prefix), b
		return
	}
	f.Title = u.name(path)
	key := lockKey{path, layout, cmp.Or(kind, "lock")}
	var l *lock
	for _, x := range v.locks {
		switch {
		case x.Path != path:
		case x.key == key, kind == "" && l == nil && (layout == "" || layout == x.Layout):
			l = x
		default:
			b.Others = append(b.Others, u.row(x))
		}
	}
	words := []string{"status"}
	if layout != "" && layout != "curator" && kind != "slots" {
		words = append(words, "--layout", layout)
	}
	name := u.name(path)
	if strings.HasPrefix(name, "-") {
		words = append(words, "--")
	}
	f.Command = u.command(append(words, name)...)
	b.Row = row{Name: name, Layout: layout, Kind: cmp.Or(kind, "lock"), State: "free"}
	if l != nil {
		key = l.key
		b.Found, b.Row, b.Unreadable = true, u.row(l), l.Unreadable
		b.Cycles = u.cyclesAt(v, path)
		f.Status = http.StatusOK
		for _, p := range l.holders {
			if len(b.Holders) == placesOnPage {
				break
			}
			h := holderRow{place: p, Revoke: question("revoke", l.key, p.Token), Break: question("break", l.key, p.Token)}
			h.From, h.Bound = p.since()
			h.Gone = p.ProcessGone()
			for _, k := range sortedKeys(p.Labels) {
				h.Labels = append(h.Labels, [2]string{k, p.Labels[k]})
			}
			if p.Within != 0 {
				h.Within = locks.SessionText(p.Within)
			}
			if slot, ok := p.Slot(); ok {
				h.SlotNumber = strconv.Itoa(slot)
			}
			b.Holders = append(b.Holders, h)
		}
		queued := slices.Concat(l.waiters, l.members)
		for i, p := range queued {
			if i == placesOnPage {
				b.More = len(queued) - i
				break
			}
			b.Waiters = append(b.Waiters, waiterRow{place: p, Position: i + 1, Behind: behind(l, p), Gone: p.ProcessGone(), Break: question("break", l.key, p.Token)})
		}
	}
	turns, gaps := u.state.pastOf(key)
	if len(turns) > 0 {
		f.Status = http.StatusOK
	}
	b.Gantt = newGantt(turns, gaps, v.now)
	b.Histograms[0], b.Histograms[1] = waitsAndHolds(turns)
	b.Gaps = gaps
	b.Events = eventsOf(turns)
	if len(b.Events) > 50 {
		b.Events = b.Events[:50]
	}
	f.Body = b
}

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// behind says whom a waiter waits for.
func behind(l *lock, p place) string {
	if l.Counted() {
		lacks := p.Needs - (l.Limit - len(l.holders))
		switch {
		case p.Ref == len(l.holders) && l.Limit > 0 && lacks > 1 && lacks <= len(l.holders):
			return fmt.Sprintf("%d of %s", lacks, count(len(l.holders), "permit"))
		case p.Ref == len(l.holders):
			return "any of " + count(len(l.holders), "permit")
		}
		return who(l.Queue[p.Ref-1].Owner, l.Queue[p.Ref-1].Session)
	}
	for i := p.Ref - 1; i >= 0; i-- {
		if x := l.Queue[i]; !p.Shared || !x.Shared {
			return who(x.Owner, x.Session)
		}
	}
	return ""
}
