package zk

// A fifo is a queue of requests that keeps its room.
type fifo struct {
	items []*request
	head  int // the first that is still there
}

func (f *fifo) push(r *request) { f.items = append(f.items, r) }

func (f *fifo) len() int { return len(f.items) - f.head }

// first is the oldest request, nil if there is none.
func (f *fifo) first() *request {
	if f.head == len(f.items) {
		return nil
	}
	return f.items[f.head]
}

// pop removes the oldest request, which there must be.
func (f *fifo) pop() {
	f.items[f.head] = nil
	f.head++
	switch {
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head >= 1024 && f.head > len(f.items)/2:
		// It is never empty under load, and would only grow.
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
}

// all is what there is, to be looked at only.
func (f *fifo) all() []*request { return f.items[f.head:] }

// takeAll empties the queue.
func (f *fifo) takeAll() []*request {
	all := f.items[f.head:]
	*f = fifo{}
	return all
}
