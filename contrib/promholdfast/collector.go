// Package promholdfast exports metrics of holdfast's locks, and of the ZooKeeper client below them, to
// Prometheus. It is a module of its own, so programs without it do not get Prometheus's library.
//
//	metrics, err := promholdfast.New("/jobs/{*}")
//	…
//	prometheus.MustRegister(metrics)
//	cfg.Trace = metrics.Trace()
//	c, err := zk.Dial(ctx, cfg)
//	…
//	m := holdfast.NewMutex(c, "/jobs/nightly", holdfast.WithObserver(metrics.Observer()))
//
// docs/reference/lock-metrics.md lists the metrics.
//
// The hooks only note an event. A goroutine folds it into the metrics, with a batch of others: see events. It ends
// with its batch. For each Collector, there is at most one that a full batch starts, and one that a timer starts.
package promholdfast

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast"
)

// A Collector has the metrics of the locks and clients that report to it. It is a prometheus.Collector: register
// it once. Any number of locks and clients can share it. To tell groups of them apart, make a Collector for each
// group, and register each with constant labels (prometheus.WrapRegistererWith).
//
// Every metric of a lock has the label lock. Its value is one of the templates given to New, or "other". So the
// number of series does not depend on the names of locks. Memory beyond that is proportional to the locks that
// are held or waited for at the same time, plus at most 256 idle ones, and two batches of events (112 KiB). An event
// keeps its Hold in memory for a second at most.
type Collector struct {
	names  names
	locks  map[string]*lockMetrics // by the value of the label; never changes
	client *clientMetrics

	acquisitions *prometheus.CounterVec
	waits        *prometheus.HistogramVec
	holds        *prometheus.HistogramVec
	handoffs     *prometheus.HistogramVec
	held         *prometheus.GaugeVec
	waiters      *prometheus.GaugeVec
	losses       *prometheus.CounterVec
	lease        *prometheus.Desc

	events *events

	// Guarded by events.folding:
	current map[*holdfast.Hold]tenure // those that are neither lost nor released
	queues  map[string]*queue         // by path
	idle    int                       // queues without a use
}

// lockMetrics are the metrics of all locks with one value of the label.
type lockMetrics struct {
	label         string
	acquisitions  []prometheus.Counter // as results
	acquired      prometheus.Counter   // that of the result acquired
	waited        prometheus.Observer  // the waits that ended with the lock
	hold, handoff prometheus.Observer
	held, waiters prometheus.Gauge
	losses        []prometheus.Counter // as reasons

	waiting, holding int // at present; guarded by events.folding. A scrape copies them to waiters and held
}

// A tenure is a use of a queue, by a hold.
type tenure struct {
	queue *queue
	span  *span // nil if the call had no sampled trace
}

// The buckets of the classic histograms, in seconds. A scrape that asks for native histograms gets those.
var (
	longBuckets  = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 7200}
	shortBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// New makes a Collector. Each template is the path of a lock, as given to NewMutex, and the value of the label
// lock for this path. In a template, {*} stands for any text within one element of the path: /jobs/{*} is the
// template of /jobs/nightly and of /jobs/weekly, and not of /jobs/a/b. If several templates fit, a template
// without {*} comes first, and then the order of the arguments. All locks that fit no template share the value
// "other".
func New(templates ...string) (*Collector, error) {
	n, err := parseNames(templates)
	if err != nil {
		return nil, err
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(histogramOpts(name, help, buckets), labels)
	}
	c := &Collector{
		names:        n,
		locks:        make(map[string]*lockMetrics),
		events:       newEvents(),
		acquisitions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_acquire_total", Help: "Calls that acquire a lock, by result."}, []string{"lock", "result"}),
		waits:        histogram("holdfast_wait_seconds", "Time of calls that acquire a lock, by result.", longBuckets, "lock", "result"),
		holds:        histogram("holdfast_hold_seconds", "Time from the acquisition of a lock to its release or loss.", longBuckets, "lock"),
		handoffs:     histogram("holdfast_handoff_seconds", "Time from the release of a lock to its acquisition by the next waiter, if both are in this process.", shortBuckets, "lock"),
		held:         prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_held", Help: "Holds at present."}, []string{"lock"}),
		waiters:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_waiters", Help: "Calls at present that acquire a lock."}, []string{"lock"}),
		losses:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_lost_total", Help: "Holds that were lost, by reason."}, []string{"lock", "reason"}),
		lease:        prometheus.NewDesc("holdfast_lease_remaining_seconds", "Time until the first of the present holds is lost if no server answers.", []string{"lock"}, nil),
		current:      make(map[*holdfast.Hold]tenure),
		queues:       make(map[string]*queue),
	}
	c.client = newClientMetrics()
	for _, label := range n.labels() {
		l := &lockMetrics{
			label:    label,
			acquired: c.acquisitions.WithLabelValues(label, "acquired"),
			waited:   c.waits.WithLabelValues(label, "acquired"),
			hold:     c.holds.WithLabelValues(label),
			handoff:  c.handoffs.WithLabelValues(label),
			held:     c.held.WithLabelValues(label),
			waiters:  c.waiters.WithLabelValues(label),
		}
		for _, r := range results {
			l.acquisitions = append(l.acquisitions, c.acquisitions.WithLabelValues(label, r))
		}
		for _, r := range reasons {
			l.losses = append(l.losses, c.losses.WithLabelValues(label, r))
		}
		c.locks[label] = l
	}
	return c, nil
}

func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.collectors() {
		m.Describe(ch)
	}
	ch <- c.lease
	ch <- c.client.state
}

// Collect implements prometheus.Collector. All events whose hooks have returned before are in the metrics.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	holds := make(map[*holdfast.Hold]*lockMetrics)
	c.settle(func() {
		for _, l := range c.locks {
			l.held.Set(float64(l.holding))
			l.waiters.Set(float64(l.waiting))
		}
		for h, is := range c.current {
			holds[h] = is.queue.lock
		}
	})
	for _, m := range c.collectors() {
		m.Collect(ch)
	}
	for label, left := range leases(holds) {
		ch <- prometheus.MustNewConstMetric(c.lease, prometheus.GaugeValue, left.Seconds(), label)
	}
	c.client.collect(ch)
}

func (c *Collector) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.acquisitions, c.waits, c.holds, c.handoffs, c.held, c.waiters, c.losses, c.client.requests, c.client.times}
}

// leases returns the shortest remaining lease of the holds, by the value of the label.
func leases(holds map[*holdfast.Hold]*lockMetrics) map[string]time.Duration {
	least := make(map[string]time.Duration)
	for h, l := range holds {
		left := time.Until(h.Deadline())
		if shortest, ok := least[l.label]; !ok || left < shortest {
			least[l.label] = left
		}
	}
	return least
}

// other is the label of locks that fit no template.
const other = "other"

// names find the label of a lock.
type names struct {
	exact     map[string]bool
	templates [][]string // the elements of their paths
	ordered   []string   // the templates as given
}

func parseNames(templates []string) (names, error) {
	n := names{exact: make(map[string]bool)}
	for _, t := range templates {
		elements := strings.Split(t, "/")
		if len(elements) < 2 || elements[0] != "" {
			return n, badTemplate(t, "a path begins with /: write /jobs/{*}")
		}
		wild := false
		for _, e := range elements[1:] {
			switch stars := strings.Count(e, "{*}"); {
			case e == "":
				return n, badTemplate(t, "it has an empty element: remove the extra /")
			case stars > 1:
				return n, badTemplate(t, "an element has {*} twice: write it once, for all of the text")
			case stars == 0 && strings.ContainsAny(e, "{}*"):
				return n, badTemplate(t, "only {*} stands for any text")
			case stars == 1:
				wild = true
			}
		}
		if wild {
			n.templates = append(n.templates, elements)
			n.ordered = append(n.ordered, t)
		} else {
			n.exact[t] = true
		}
	}
	return n, nil
}

func badTemplate(t, why string) error {
	if len(t) > 100 {
		t = strings.ToValidUTF8(t[:100], "") + "…"
	}
	return fmt.Errorf("promholdfast: template %q: %s", t, why)
}

// labels returns all values that of can return.
func (n *names) labels() []string {
	all := append([]string{other}, n.ordered...)
	for name := range n.exact {
		all = append(all, name)
	}
	return all
}

// of returns the label of the lock at path.
func (n *names) of(path string) string {
	if n.exact[path] {
		return path
	}
	for i, t := range n.templates {
		if fits(t, path) {
			return n.ordered[i]
		}
	}
	return other
}

// fits reports whether path fits a template.
func fits(template []string, path string) bool {
	for i, e := range template {
		name, rest, more := strings.Cut(path, "/")
		if more == (i == len(template)-1) {
			return false
		}
		before, after, wild := strings.Cut(e, "{*}")
		switch {
		case !wild && name != e:
			return false
		case wild && (len(name) <= len(before)+len(after) || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after)):
			return false
		}
		path = rest
	}
	return true
}
