package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"holdfast/zkserver"
)

// newMetrics is all that /metrics shows. The names are documented in docs/serve.md. expires
// is when the certificate ends; nil without TLS.
func newMetrics(stats func() zkserver.Stats, expires func() time.Time) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(statsCollector{stats}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := buildInfo()
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "holdfast_server_build_info",
		Help:        "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go},
	}, func() float64 { return 1 }))
	if expires != nil {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_server_tls_certificate_expiry_timestamp_seconds",
			Help: "When the certificate of --tls-cert ends, in seconds since 1970.",
		}, func() float64 { return float64(expires().Unix()) }))
	}
	return r
}

// statsCollector shows one Stats per scrape, so that there is nothing to keep up to date.
type statsCollector struct {
	stats func() zkserver.Stats
}

// A number is a metric that is one field of Stats.
type number struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(zkserver.Stats) float64
}

func counter(name, help string, of func(zkserver.Stats) int64) number {
	return number{newDesc(name, help), prometheus.CounterValue, func(s zkserver.Stats) float64 { return float64(of(s)) }}
}

func gauge(name, help string, of func(zkserver.Stats) float64) number {
	return number{newDesc(name, help), prometheus.GaugeValue, of}
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_server_"+name, help, labels, nil)
}

// The last zxid is not among them: a float has too few digits for it.
var numbers = []number{
	gauge("uptime_seconds", "Time since the store was opened.", func(s zkserver.Stats) float64 { return s.Uptime.Seconds() }),
	gauge("connections", "Open connections, with those that have no session yet.", func(s zkserver.Stats) float64 { return float64(s.Connections) }),
	counter("connections_accepted_total", "Connections, without those that were refused at once.", func(s zkserver.Stats) int64 { return s.ConnectionsAccepted }),
	gauge("sessions", "Sessions, also those without a connection.", func(s zkserver.Stats) float64 { return float64(s.Sessions) }),
	counter("sessions_created_total", "Sessions that were created, without those that were resumed.", func(s zkserver.Stats) int64 { return s.SessionsCreated }),
	counter("sessions_expired_total", "Sessions that ended by silence.", func(s zkserver.Stats) int64 { return s.SessionsExpired }),
	counter("logins_refused_total", "Wrong passwords, and requests without the login that they need.", func(s zkserver.Stats) int64 { return s.LoginsRefused }),
	gauge("znodes", "Nodes, with those that every server has.", func(s zkserver.Stats) float64 { return float64(s.Znodes) }),
	gauge("ephemeral_znodes", "Nodes that end with a session: each lock held or waited for has one.", func(s zkserver.Stats) float64 { return float64(s.Ephemerals) }),
	gauge("watches", "Watches that clients have set.", func(s zkserver.Stats) float64 { return float64(s.Watches) }),
	gauge("data_bytes", "Size of all paths and data.", func(s zkserver.Stats) float64 { return float64(s.DataBytes) }),
	counter("requests_received_total", "Requests, with pings and connects.", func(s zkserver.Stats) int64 { return s.RequestsReceived }),
	counter("requests_answered_total", "Requests that were answered.", func(s zkserver.Stats) int64 { return s.RequestsAnswered }),
	gauge("outstanding_requests", "Requests that wait for their answer.", func(s zkserver.Stats) float64 { return float64(s.Outstanding) }),
	counter("notifications_total", "Events sent to watches.", func(s zkserver.Stats) int64 { return s.Notifications }),
	counter("received_bytes_total", "Bytes of requests.", func(s zkserver.Stats) int64 { return s.BytesReceived }),
	counter("sent_bytes_total", "Bytes of answers and events that the network has taken.", func(s zkserver.Stats) int64 { return s.BytesSent }),
	gauge("unsent_bytes", "Bytes of answers that wait for the disk, or for clients to take them.", func(s zkserver.Stats) float64 { return float64(s.BytesWaiting) }),
}

var (
	limitsMet      = newDesc("limits_met_total", "How often a client met a limit, by its name.", "limit")
	commitSeconds  = newDesc("commit_seconds", "Time to make a batch of writes durable.")
	requestSeconds = newDesc("request_seconds", "Time of a request in the server, the wait for the disk included.")
)

// Describe implements prometheus.Collector.
func (c statsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, n := range numbers {
		out <- n.desc
	}
	for _, d := range []*prometheus.Desc{limitsMet, commitSeconds, requestSeconds} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c statsCollector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	for _, n := range numbers {
		out <- prometheus.MustNewConstMetric(n.desc, n.kind, n.of(s))
	}
	for limit, count := range s.Refused {
		out <- prometheus.MustNewConstMetric(limitsMet, prometheus.CounterValue, float64(count), string(limit))
	}
	out <- constHistogram(commitSeconds, s.Commit)
	out <- constHistogram(requestSeconds, s.Latency)
}

// constHistogram is h with its buckets added up, as Prometheus has them.
func constHistogram(desc *prometheus.Desc, h zkserver.Histogram) prometheus.Metric {
	below := make(map[float64]uint64)
	var sum uint64
	for i, bound := range zkserver.HistogramBounds() {
		sum += uint64(h.Buckets[i])
		below[bound.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(desc, uint64(h.Count), h.Sum.Seconds(), below)
}
