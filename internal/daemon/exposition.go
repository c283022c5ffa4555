package daemon

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/zkserver"
)

// An exposition is metrics in Prometheus's text format, version 0.0.4.
type exposition struct{ text []byte }

const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// family begins a metric; its samples follow. kind is counter, gauge, histogram or summary. help is
// one line without backslashes.
func (e *exposition) family(name, kind, help string) {
	e.text = fmt.Appendf(e.text, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// sample adds a value. labels are names, each followed by its value.
func (e *exposition) sample(name string, value float64, labels ...string) {
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
func (e *exposition) single(name, kind, help string, value float64) {
	e.family(name, kind, help)
	e.sample(name, value)
}

// histogram adds a histogram of seconds.
func (e *exposition) histogram(name, help string, h zkserver.Histogram) {
	e.family(name, "histogram", help)
	var below int64
	for i, bound := range zkserver.HistogramBounds() {
		below += h.Buckets[i]
		e.sample(name+"_bucket", float64(below), "le", strconv.FormatFloat(bound.Seconds(), 'g', -1, 64))
	}
	e.sample(name+"_bucket", float64(h.Count), "le", "+Inf")
	e.sample(name+"_sum", h.Sum.Seconds())
	e.sample(name+"_count", float64(h.Count))
}
