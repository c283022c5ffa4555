package zkserver

import (
	"slices"
	"sync/atomic"
	"time"
)

// histogramBounds suit both a disk's sync and a network's round trip.
var histogramBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
}

// HistogramBounds returns the upper bounds of the buckets of every Histogram, ascending and
// inclusive. The last bucket has no bound and counts all longer durations.
func HistogramBounds() []time.Duration { return slices.Clone(histogramBounds[:]) }

// A Histogram counts durations.
type Histogram struct {
	Count   int64
	Sum     time.Duration
	Buckets []int64 // one per bound and one more; not cumulative
}

// A histogram counts durations. One goroutine at a time writes it and any goroutine reads it.
type histogram struct {
	sum     atomic.Int64 // nanoseconds
	buckets [len(histogramBounds) + 1]atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(histogramBounds) && d > histogramBounds[i] {
		i++
	}
	h.sum.Add(int64(d))
	h.buckets[i].Add(1)
}

func (h *histogram) read() Histogram {
	r := Histogram{Sum: time.Duration(h.sum.Load()), Buckets: make([]int64, len(h.buckets))}
	for i := range h.buckets {
		r.Buckets[i] = h.buckets[i].Load()
		r.Count += r.Buckets[i]
	}
	return r
}
