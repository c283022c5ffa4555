package promholdfast

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"holdfast"
)

// A queue measures the handoffs at one path. A release is the request that deletes the node of an exclusive
// holder, which the hook of the client reports. The next holder is known by its number: nobody is between two
// consecutive numbers. So a handoff counts only if both are in this process, and no other process can be in
// between.
//
// The two reports come in any order, since the server notifies the next waiter and answers the delete at the
// same time.
type queue struct {
	lock *lockMetrics
	uses int // calls that wait, and holds

	holders [2]int64 // the numbers of the last two exclusive holders, the last one first; 0: none
	freed   int64    // the number whose delete was reported last; 0: none
	at      time.Time
	next    taken // the last acquisition
}

// taken is an acquisition.
type taken struct {
	number   int64
	from, at time.Time // the call, and its end
	ctx      context.Context
}

// mostIdle is how many queues without a use are kept, so that the next use of a lock finds its label.
const mostIdle = 256

// enter counts a use of the queue at path. c.mu must be held.
func (c *Collector) enter(path string) *queue {
	q := c.queues[path]
	switch {
	case q == nil:
		q = &queue{lock: c.locks[c.names.of(path)]}
		c.queues[path] = q
	case q.uses == 0:
		c.idle--
	}
	q.uses++
	return q
}

// leave ends a use of a queue. c.mu must be held.
func (c *Collector) leave(q *queue) {
	if q.uses--; q.uses > 0 {
		return
	}
	*q = queue{lock: q.lock}
	if c.idle++; c.idle > mostIdle {
		maps.DeleteFunc(c.queues, func(_ string, q *queue) bool { return q.uses == 0 })
		c.idle = 0
	}
}

// exclusive reports whether op is the operation of a holder who excludes all others.
func exclusive(op string) bool {
	switch op {
	case "lock", "try lock", "campaign", "try campaign", "lead":
		return true
	}
	return false
}

// acquired notes an acquisition. It returns the time of the handoff if the release was reported before. c.mu must
// be held.
func (q *queue) acquired(ctx context.Context, e holdfast.Event) (time.Duration, bool) {
	dir, number := place(e.Hold.Path())
	switch {
	case dir != e.Path || number == 0:
		return 0, false
	case !exclusive(e.Op) && number == q.holders[0]:
		// A writer has taken the read side. The delete of its first node frees the lock for readers only.
		q.holders[0] = 0
		return 0, false
	}
	if exclusive(e.Op) && number != q.holders[0] {
		q.holders = [2]int64{number, q.holders[0]}
	}
	if q.uses == 1 && q.freed == 0 {
		// Nobody else in this process has held the lock during this call, so no release of ours can be its cause.
		// The clock is not read for nothing.
		q.next = taken{}
		return 0, false
	}
	now := time.Now()
	q.next = taken{number: number, from: now.Add(-e.Took), at: now, ctx: ctx}
	return q.handoff()
}

// handoff returns the time from the last release to the last acquisition, if one was the cause of the other.
func (q *queue) handoff() (time.Duration, bool) {
	if q.freed == 0 || q.next.number != q.freed+1 || q.at.Before(q.next.from) {
		return 0, false
	}
	took := q.next.at.Sub(q.at)
	q.freed, q.next = 0, taken{}
	return max(0, took), true
}

// deleted notes that a request has deleted the node at path. The request took so long, and has just ended.
func (c *Collector) deleted(path string, took time.Duration) {
	dir, number := place(path)
	c.mu.Lock()
	q := c.queues[dir]
	if q == nil || number == 0 || number != q.holders[0] && number != q.holders[1] {
		c.mu.Unlock()
		return
	}
	if q.uses == 1 {
		// The use is the Hold whose node it is, unless the Hold is lost. So no call of this process waits, and a later
		// one is no handoff.
		q.freed, q.next = 0, taken{}
		c.mu.Unlock()
		return
	}
	q.freed, q.at = number, time.Now().Add(-took)
	next, to := q.next, q.lock.handoff
	handoff, ok := q.handoff()
	c.mu.Unlock()
	if ok {
		c.times.observe(next.ctx, to, handoff)
	}
}

// place returns the directory of a node in a queue, and its number plus one. The number is 0 if path is not of
// such a node.
func place(path string) (dir string, number int64) {
	const digits = 10
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 || len(path)-slash-1 < digits {
		return "", 0
	}
	n, err := strconv.ParseUint(path[len(path)-digits:], 10, 32)
	if err != nil {
		return "", 0
	}
	return path[:slash], int64(n) + 1
}
