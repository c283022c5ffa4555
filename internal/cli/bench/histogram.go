package bench

import (
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"holdfast/internal/duration"
)

// A histogram counts times, up to 1/100 too high. It is not safe for concurrent use.
type histogram struct {
	times *hdrhistogram.Histogram // in nanoseconds
	max   time.Duration           // exact
}

// longestTime is the longest time that a histogram tells from longer ones. It is longer than a measurement.
const longestTime = 48 * time.Hour

func newHistogram() histogram { return histogram{times: hdrhistogram.New(1, int64(longestTime), 2)} }

func (h *histogram) add(d time.Duration) {
	d = min(max(d, 0), longestTime)
	_ = h.times.RecordValue(int64(d)) // d is in the range
	h.max = max(h.max, d)
}

// percentile returns a time that p percent of all do not exceed, 0 if there are none.
func (h *histogram) percentile(p float64) time.Duration {
	return min(time.Duration(h.times.ValueAtPercentile(p)), h.max)
}

// Percentiles has times in microseconds. They are absent without samples.
type Percentiles struct {
	Samples uint64 `json:"samples"`
	P50     *int64 `json:"p50_us,omitempty"`
	P90     *int64 `json:"p90_us,omitempty"`
	P99     *int64 `json:"p99_us,omitempty"`
	P999    *int64 `json:"p99_9_us,omitempty"`
	Max     *int64 `json:"max_us,omitempty"`
}

func (h *histogram) document() Percentiles {
	samples := h.times.TotalCount()
	if samples == 0 {
		return Percentiles{}
	}
	at := func(p float64) *int64 {
		us := h.percentile(p).Microseconds()
		return &us
	}
	return Percentiles{uint64(samples), at(50), at(90), at(99), at(99.9), at(100)}
}

// row returns the cells of a table.
func (d Percentiles) row(name string) []string {
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
