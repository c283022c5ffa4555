package ui

import (
	"slices"
	"strings"
	"time"
)

// Bounds of the history in memory.
const (
	pastFor     = time.Hour
	pastTurns   = 100_000 // of all locks: about 30 MB with short texts, 100 MB with the longest, besides the paths
	pastText    = 200     // bytes of an owner or a reason
	pastOfLock  = 512
	pastGaps    = 100
	pastRecent  = 100
	pastOfGraph = 10 // holders in the picture of a lock
)

// A turn is the way of a client through a queue. A zero time was not seen.
type turn struct {
	Key            lockKey
	Node           string
	Owner, Reason  string
	Session, Token int64
	Shared         bool
	Queued         time.Time
	Acquired       time.Time
	Bound          bool // it acquired the lock at that time or later
	Ended          time.Time
	Left           bool // it never held the lock
	Unsure         bool // the end was found after a gap
	number         uint64
}

// A gap is a time without a watch: changes in it were not seen.
type gap struct {
	From, To time.Time
	Why      string
}

// A past is what has happened. It keeps the last hour, and no more than the bounds above. Its user excludes others.
type past struct {
	byLock map[lockKey][]turn // ended turns, by their end
	order  []struct {
		key    lockKey
		number uint64
		at     time.Time
	}
	open    map[tenure]*turn
	gaps    []gap
	numbers uint64
	recent  []event // the newest last
	hour    hour
}

// A tenure names a place for ever: a name that comes back, such as that of a slot, has another zxid.
type tenure struct {
	node string
	zxid int64
}

func (p place) tenure() tenure { return tenure{p.Path, p.Zxid} }

// An event is something that has happened to a lock.
type event struct {
	At     time.Time
	Type   string // queued, acquired, released or left
	Key    lockKey
	Owner  string
	Reason string
	Token  int64
	Took   time.Duration
	Unsure bool
}

func newPast() *past {
	return &past{byLock: make(map[lockKey][]turn), open: make(map[tenure]*turn)}
}

// note compares the locks at one path before and after a change. at is zero if the change was found by a reading.
func (h *past) note(before, after []*lock, at time.Time) {
	now := at
	if at.IsZero() {
		now = time.Now()
	}
	there := make(map[tenure]bool)
	var came []event
	for _, l := range after {
		queued := slices.Concat(l.waiters, l.members)
		for i := range queued {
			p := &queued[i]
			there[p.tenure()] = true
			if h.open[p.tenure()] == nil {
				h.open[p.tenure()] = h.begin(l, p, at, at.IsZero())
				if !at.IsZero() {
					came = append(came, h.open[p.tenure()].event("queued", at, 0))
				}
			}
		}
		for i := range l.holders {
			p := &l.holders[i]
			there[p.tenure()] = true
			t := h.open[p.tenure()]
			if t == nil {
				t = h.begin(l, p, at, at.IsZero())
				t.Queued = at // it has not waited
				if l.Counted() {
					t.Queued = time.Time{}
				}
				h.open[p.tenure()] = t
			}
			if t.Acquired.IsZero() {
				t.Acquired, t.Bound = p.since()
				if !at.IsZero() {
					t.Acquired, t.Bound = at, false
					p.Acquired = at
					took := time.Duration(0)
					if !t.Queued.IsZero() {
						took = at.Sub(t.Queued)
					}
					if took > 0 {
						h.hour.at(at).handoffs++
					}
					came = append(came, t.event("acquired", at, took))
				}
			}
			t.Token = p.Token
		}
	}
	var ended []event
	for _, l := range before {
		for _, p := range l.places() {
			t := h.open[p.tenure()]
			if there[p.tenure()] || t == nil || t.Key.path != l.Path {
				continue
			}
			delete(h.open, p.tenure())
			t.Ended, t.Left, t.Unsure = now, t.Acquired.IsZero(), at.IsZero()
			e := t.event("released", now, 0)
			switch {
			case t.Left && l.Counted() && t.Key == l.key && hasPermitOf(after, p.Session):
				continue // it has left the turnstile with a permit
			case t.Left:
				e.Type = "left"
				if !t.Queued.IsZero() {
					e.Took = now.Sub(t.Queued)
				}
			case !t.Bound:
				e.Took = now.Sub(t.Acquired)
			}
			ended = append(ended, e)
			h.end(*t)
		}
	}
	h.recent = append(append(h.recent, ended...), came...)
	if extra := len(h.recent) - pastRecent; extra > 0 {
		h.recent = slices.Clone(h.recent[extra:])
	}
}

// hasPermitOf reports whether a session has a permit.
func hasPermitOf(locks []*lock, session int64) bool {
	return slices.ContainsFunc(locks, func(l *lock) bool {
		return l.Counted() && slices.ContainsFunc(l.holders, func(p place) bool { return p.Session == session })
	})
}

func (h *past) begin(l *lock, p *place, at time.Time, unknown bool) *turn {
	t := &turn{Key: l.key, Node: p.Path, Owner: cutText(p.Owner), Reason: cutText(p.Reason), Session: p.Session, Token: p.Token, Shared: p.Shared, Queued: at}
	if unknown {
		t.Queued = time.Time{}
	}
	return t
}

// cutText returns a copy of the beginning of a text, so that the rest can be freed.
func cutText(text string) string {
	if len(text) <= pastText {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:pastText], "") + "…"
}

func (t *turn) event(what string, at time.Time, took time.Duration) event {
	return event{At: at, Type: what, Key: t.Key, Owner: t.Owner, Reason: t.Reason, Token: t.Token, Took: took, Unsure: t.Unsure}
}

// end keeps a turn that has ended, and drops what is too old or too much.
func (h *past) end(t turn) {
	h.numbers++
	t.number = h.numbers
	all := append(h.byLock[t.Key], t)
	if len(all) > pastOfLock {
		all = slices.Clone(all[len(all)-pastOfLock:])
	}
	h.byLock[t.Key] = all
	h.order = append(h.order, struct {
		key    lockKey
		number uint64
		at     time.Time
	}{t.Key, t.number, t.Ended})
	h.trim(t.Ended)
}

func (h *past) trim(now time.Time) {
	drop := 0
	for drop < len(h.order) && (len(h.order)-drop > pastTurns || now.Sub(h.order[drop].at) > pastFor) {
		o := h.order[drop]
		drop++
		all := h.byLock[o.key]
		i := 0
		for i < len(all) && all[i].number <= o.number {
			i++
		}
		if all = all[i:]; len(all) == 0 {
			delete(h.byLock, o.key)
		} else {
			h.byLock[o.key] = all
		}
	}
	h.order = h.order[drop:]
}

func (h *past) gap(from, to time.Time, why string) {
	h.gaps = append(h.gaps, gap{from, to, why})
	h.gaps = slices.DeleteFunc(h.gaps, func(g gap) bool { return to.Sub(g.To) > pastFor })
	if extra := len(h.gaps) - pastGaps; extra > 0 {
		h.gaps = slices.Clone(h.gaps[extra:])
	}
}

// of returns the turns of a lock in the last hour, those that go on last, and the gaps.
func (s *state) pastOf(key lockKey) (turns []turn, gaps []gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.trim(time.Now())
	if key.layout == "" && key.kind == "lock" { // of whatever layout was seen last
		var last uint64
		for k, all := range s.past.byLock {
			if n := all[len(all)-1].number; k.path == key.path && n > last {
				key, last = k, n
			}
		}
	}
	turns = slices.Clone(s.past.byLock[key])
	for _, l := range s.locks[key.path] {
		if l.key != key {
			continue
		}
		for _, p := range l.places() {
			if t := s.past.open[p.tenure()]; t != nil {
				turns = append(turns, *t)
			}
		}
	}
	return turns, slices.Clone(s.past.gaps)
}

// recentEvents returns the latest events, the newest first.
func (s *state) recentEvents(most int) []event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := slices.Clone(s.past.recent[max(0, len(s.past.recent)-most):])
	slices.Reverse(all)
	return all
}

// eventsOf returns what has happened to a lock, the newest first.
func eventsOf(turns []turn) (all []event) {
	for i := range turns {
		t := &turns[i]
		if !t.Queued.IsZero() && !t.Queued.Equal(t.Acquired) {
			all = append(all, t.event("queued", t.Queued, 0))
		}
		if !t.Acquired.IsZero() && !t.Bound {
			took := time.Duration(0)
			if !t.Queued.IsZero() {
				took = t.Acquired.Sub(t.Queued)
			}
			all = append(all, t.event("acquired", t.Acquired, took))
		}
		if !t.Ended.IsZero() {
			e := t.event("released", t.Ended, 0)
			switch {
			case t.Left:
				e.Type = "left"
			case !t.Bound:
				e.Took = t.Ended.Sub(t.Acquired)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return b.At.Compare(a.At) })
	return all
}
