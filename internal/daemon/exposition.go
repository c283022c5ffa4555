package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/zkserver"
)

// An Exposition is metrics in Prometheus's text format, version 0.0.4. The zero value has none. It is not safe for
// concurrent use.
type Exposition struct{ text []byte }

// ExpositionType is the Content-Type of an Exposition.
const ExpositionType = "text/plain; version=0.0.4; charset=utf-8"

// Text returns the metrics. They stay valid until the next one is added.
func (e *Exposition) Text() []byte { return e.text }

// Family begins a metric; its samples follow. kind is counter, gauge, histogram or summary. help is
// one line without backslashes.
func (e *Exposition) Family(name, kind, help string) {
	e.text = fmt.Appendf(e.text, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Sample adds a value. labels are names, each followed by its value.
func (e *Exposition) Sample(name string, value float64, labels ...string) {
	e.text = append(e.text, name...)
	for before := "{"; len(labels) > 0; before, labels = ",", labels[2:] {
		e.text = fmt.Appendf(e.text, `%s%s="%s"`, before, labels[0], labelEscapes.Replace(labels[1]))
		if len(labels) == 2 {
			e.text = append(e.text, '}')
		}
	}
	e.text = append(e.text, ' ')
	e.text = strconv.AppendFloat(e.text, value, 'g', -1, 64)
	e.text = append(e.text, '\n')
}

// single adds a metric with one sample.
func (e *Exposition) single(name, kind, help string, value float64) {
	e.Family(name, kind, help)
	e.Sample(name, value)
}

// histogram adds a histogram of seconds of a server.
func (e *Exposition) histogram(name, help string, h zkserver.Histogram) {
	e.Family(name, "histogram", help)
	e.Buckets(name, zkserver.HistogramBounds(), h.Buckets[:], h.Count, h.Sum)
}

// Buckets adds a histogram of seconds, whose family has begun. counts has a count for each bound, of the values up
// to it and above the bound before; the rest of count is above all bounds. labels are as for Sample.
func (e *Exposition) Buckets(name string, bounds []time.Duration, counts []int64, count int64, sum time.Duration, labels ...string) {
	labels = slices.Clip(labels)
	var below int64
	for i, bound := range bounds {
		below += counts[i]
		e.Sample(name+"_bucket", float64(below), append(labels, "le", strconv.FormatFloat(bound.Seconds(), 'g', -1, 64))...)
	}
	e.Sample(name+"_bucket", float64(count), append(labels, "le", "+Inf")...)
	e.Sample(name+"_sum", sum.Seconds(), labels...)
	e.Sample(name+"_count", float64(count), labels...)
}
