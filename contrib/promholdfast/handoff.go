package promholdfast

import (
	"maps"
	"strconv"
	"strings"
	"time"
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

	holders [2]int64      // the numbers of the last two exclusive holders, the last one first; 0: none
	freed   int64         // the number whose delete was reported last; 0: none
	freedAt time.Duration // when that request began
	next    taken         // the last acquisition
}

// taken is an acquisition.
type taken struct {
	number   int64
	from, at time.Duration // the call, and its end
	span     *span
}

// mostIdle is how many queues without a use are kept, so that the next use of a lock finds its label.
const mostIdle = 256

// enter counts a use of the queue at path.
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

// leave ends a use of a queue.
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

// acquired folds an acquisition.
func (q *queue) acquired(e *event) {
	dir, number := place(e.hold.Path())
	switch {
	case dir != e.name || number == 0:
		return
	case !e.exclusive && number == q.holders[0]:
		// A writer has taken the read side. The delete of its first node frees the lock for readers only.
		q.holders[0] = 0
		return
	}
	if e.exclusive && number != q.holders[0] {
		q.holders = [2]int64{number, q.holders[0]}
	}
	q.next = taken{number: number, from: e.at - e.took, at: e.at, span: e.span}
	q.handoff()
}

// deleted folds that the node at path was deleted, by a request that began at the given time.
func (c *Collector) deleted(path string, at time.Duration) {
	dir, number := place(path)
	q := c.queues[dir]
	if q == nil || number == 0 || number != q.holders[0] && number != q.holders[1] {
		return
	}
	q.freed, q.freedAt = number, at
	q.handoff()
}

// handoff observes the time from the last release to the last acquisition, if one was the cause of the other.
func (q *queue) handoff() {
	if q.freed == 0 || q.next.number != q.freed+1 || q.freedAt < q.next.from {
		return
	}
	observe(q.next.span, q.lock.handoff, max(0, q.next.at-q.freedAt))
	q.freed, q.next = 0, taken{}
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
