package main

import (
	"math/bits"
	"strconv"
	"time"

	"holdfast/internal/duration"
)

// A histogram counts times in buckets, each at most 1/64 wide. It is not safe for concurrent use. (A library
// for this would be initialised in every holdfast run.)
type histogram struct {
	buckets [58 * 64]uint64
	count   uint64
	max     time.Duration
}

// bucketOf returns the bucket of a number of nanoseconds.
func bucketOf(ns uint64) int {
	if ns < 128 {
		return int(ns)
	}
	shift := bits.Len64(ns) - 7
	return shift*64 + int(ns>>shift)
}

// topOf returns the largest number in a bucket.
func topOf(bucket int) uint64 {
	if bucket < 128 {
		return uint64(bucket)
	}
	shift := bucket/64 - 1
	return uint64(bucket-shift*64+1)<<shift - 1
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(uint64(d))]++
	h.count++
	h.max = max(h.max, d)
}

// percentile returns a time that p percent of all do not exceed, 0 if there are none.
func (h *histogram) percentile(p float64) time.Duration {
	want := uint64(float64(h.count) * p / 100)
	if float64(want) < float64(h.count)*p/100 {
		want++
	}
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; n > 0 && seen >= want {
			return min(time.Duration(topOf(i)), h.max)
		}
	}
	return h.max
}

// percentilesDocument has times in microseconds. They are absent without samples.
type percentilesDocument struct {
	Samples uint64 `json:"samples"`
	P50     *int64 `json:"p50_us,omitempty"`
	P90     *int64 `json:"p90_us,omitempty"`
	P99     *int64 `json:"p99_us,omitempty"`
	P999    *int64 `json:"p99_9_us,omitempty"`
	Max     *int64 `json:"max_us,omitempty"`
}

func (h *histogram) document() percentilesDocument {
	if h.count == 0 {
		return percentilesDocument{}
	}
	at := func(p float64) *int64 {
		us := h.percentile(p).Microseconds()
		return &us
	}
	return percentilesDocument{h.count, at(50), at(90), at(99), at(99.9), at(100)}
}

// row returns the cells of a table.
func (d percentilesDocument) row(name string) []string {
	cells := []string{name}
	for _, us := range []*int64{d.P50, d.P90, d.P99, d.P999, d.Max} {
		cell := ""
		if us != nil {
			cell = duration.Measured(time.Duration(*us) * time.Microsecond)
		}
		cells = append(cells, cell)
	}
	return append(cells, strconv.FormatUint(d.Samples, 10))
}
