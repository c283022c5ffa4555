package zkserver

import "sync"

// A queue carries requests to the owner, which takes all of them at once. It is
// bounded by the readers: each has a limit of requests under way, and all wait while
// too many bytes do.
type queue struct {
	wake chan struct{} // holds a token while items is not empty

	mu    sync.Mutex
	items []*request
	bytes int
	room  chan struct{} // closed by take; nil while nobody waits for it
}

func (q *queue) push(r *request) {
	q.mu.Lock()
	q.add([]*request{r})
}

// offer is push for several if there is room. Otherwise it returns what is closed when there is.
func (q *queue) offer(rs []*request) (room <-chan struct{}) {
	q.mu.Lock()
	if q.bytes < queueBytes {
		q.add(rs)
		return nil
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	room = q.room
	q.mu.Unlock()
	return room
}

// add puts rs into the queue and unlocks it.
func (q *queue) add(rs []*request) {
	q.items = append(q.items, rs...)
	for _, r := range rs {
		q.bytes += len(r.frame)
	}
	q.mu.Unlock()
	q.again()
}

// again makes the owner look once more.
func (q *queue) again() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take swaps the items for an empty slice.
func (q *queue) take(empty []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.bytes = empty[:0], 0
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	return items
}
