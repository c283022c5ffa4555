package zkserver

import "sync"

// A queue carries requests to the owner, which takes all of them at once. It is
// bounded by the readers: each has a limit of requests under way.
type queue struct {
	wake chan struct{} // holds a token while items is not empty

	mu    sync.Mutex
	items []*request
}

func (q *queue) push(r *request) {
	q.mu.Lock()
	q.items = append(q.items, r)
	q.mu.Unlock()
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
	q.items = empty[:0]
	return items
}
