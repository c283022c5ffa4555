package zk

// A fifo is a queue of requests that reuses its memory.
type fifo struct {
	items []*request
	head  int // index of the oldest request
}

func (f *fifo) push(r *request) { f.items = append(f.items, r) }

func (f *fifo) len() int { return len(f.items) - f.head }

// first returns the oldest request, nil if there is none.
func (f *fifo) first() *request {
	if f.head == len(f.items) {
		return nil
	}
	return f.items[f.head]
}

// pop removes the oldest request. The queue must not be empty.
func (f *fifo) pop() {
	f.items[f.head] = nil
	f.head++
	switch {
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head >= 1024 && f.head > len(f.items)/2:
		// Under load the queue is never empty, and would only grow.
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
}

// all returns all requests, to be read only.
func (f *fifo) all() []*request { return f.items[f.head:] }

// takeAll empties the queue and returns what was in it.
func (f *fifo) takeAll() []*request {
	all := f.items[f.head:]
	*f = fifo{}
	return all
}
