package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/locks"
)

// An hour has the numbers of the last hour. Its user excludes others.
type hour struct {
	held, waiting int      // at present
	minutes       []minute // the newest last; one without contact is missing
}

// A minute has the numbers of one minute.
type minute struct {
	number        int64 // since 1970
	held, waiting int   // at most at a time
	handoffs      int   // how often a waiter acquired a lock
}

// minutesOfHour is how many minutes an hour keeps.
const minutesOfHour = int64(pastFor / time.Minute)

// at returns the minute of a time, which is the present one.
func (h *hour) at(now time.Time) *minute {
	number := now.Unix() / 60
	if n := len(h.minutes); n == 0 || h.minutes[n-1].number < number {
		h.minutes = append(h.minutes, minute{number: number, held: h.held, waiting: h.waiting})
		h.minutes = slices.DeleteFunc(h.minutes, func(m minute) bool { return m.number <= number-minutesOfHour })
	}
	return &h.minutes[len(h.minutes)-1]
}

// note counts the locks at one path before and after a change.
func (h *hour) note(before, after []*lock, now time.Time) {
	heldBefore, waitingBefore := tally(before)
	held, waiting := tally(after)
	m := h.at(now) // has the numbers before
	h.held += held - heldBefore
	h.waiting += waiting - waitingBefore
	m.held, m.waiting = max(m.held, h.held), max(m.waiting, h.waiting)
}

// tally counts the locks that are held, and the clients that wait. The queues of shards are locks of their own.
func tally(all []*lock) (held, waiting int) {
	for _, l := range all {
		if l.Kind == locks.Shards {
			continue
		}
		if l.taken() {
			held++
		}
		waiting += len(l.waiters)
	}
	return held, waiting
}

// lastHour returns the numbers of the last hour.
func (s *state) lastHour() hour {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.past.hour
	h.minutes = slices.Clone(h.minutes)
	return h
}

// A trend is the line of a number in the last hour.
type trend struct {
	Label, Note string
	Path        string // of the line, in a picture of trendWidth × trendHeight
}

const (
	trendMinute = 10
	trendWidth  = trendMinute * int(minutesOfHour)
	trendHeight = 40
)

// trends returns the lines of the hour before now.
func (h *hour) trends(now time.Time) []trend {
	line := func(label string, of func(minute) int, note func(most, sum int) string) trend {
		most, sum := 0, 0
		for _, m := range h.minutes {
			most, sum = max(most, of(m)), sum+of(m)
		}
		var path strings.Builder
		last := int64(-1)
		for _, m := range h.minutes {
			x := (m.number - now.Unix()/60 + minutesOfHour - 1) * trendMinute
			if x < 0 || x >= int64(trendWidth) {
				continue
			}
			y := trendHeight - 2 - (trendHeight-4)*of(m)/max(1, most)
			if last+1 == m.number {
				fmt.Fprintf(&path, "V%dh%d", y, trendMinute)
			} else {
				fmt.Fprintf(&path, "M%d %dh%d", x, y, trendMinute)
			}
			last = m.number
		}
		return trend{label, note(most, sum), path.String()}
	}
	atMost := func(present int) func(most, sum int) string {
		return func(most, _ int) string { return fmt.Sprintf("%d now, at most %d", present, most) }
	}
	return []trend{
		line("Held", func(m minute) int { return m.held }, atMost(h.held)),
		line("Waiting", func(m minute) int { return m.waiting }, atMost(h.waiting)),
		line("Handoffs", func(m minute) int { return m.handoffs }, func(most, sum int) string {
			return fmt.Sprintf("%d in all, at most %d a minute", sum, most)
		}),
	}
}

// began returns when the hour began to be watched, or zero if that is more than an hour ago.
func (h *hour) began(now time.Time) time.Time {
	if len(h.minutes) == 0 || h.minutes[0].number <= now.Unix()/60-minutesOfHour+1 {
		return time.Time{}
	}
	return time.Unix(h.minutes[0].number*60, 0)
}
