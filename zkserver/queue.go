package zkserver

import "sync"

// A queue passes requests to the owner, which takes all of them at once. The readers bound it:
// each has a limit of requests under way, and all of them wait while the queue has too many bytes.
type queue struct {
	wake chan struct{} // holds a token while items is not empty

	mu    sync.Mutex
	items []*request
	bytes int
	room  chan struct{} // closed by take; nil while nobody waits for room
}

func (q *queue) push(r *request) {
	q.mu.Lock()
	q.add(r)
}

// offer pushes r if there is room. Otherwise it returns a channel that is closed when there is room.
func (q *queue) offer(r *request) (room <-chan struct{}) {
	q.mu.Lock()
	if q.bytes < queueBytes {
		q.add(r)
		return nil
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	room = q.room
	q.mu.Unlock()
	return room
}

// add appends r to the queue. It unlocks the queue.
func (q *queue) add(r *request) {
	q.items = append(q.items, r)
	q.bytes += len(r.frame)
	q.mu.Unlock()
	q.again()
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}

// again makes the owner check the queue once more.
func (q *queue) again() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the items and replaces them by an empty slice.
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
