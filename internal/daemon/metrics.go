package daemon

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"holdfast/zkserver"
)

// Metrics serves the page /metrics. docs/reference/metrics.md documents the names. It does without Prometheus's
// library, because every holdfast process would initialise it: see ARCHITECTURE.md. It is safe for
// concurrent use.
type Metrics struct {
	stats   func() zkserver.Stats
	expires func() time.Time // when the certificate expires; nil without TLS
	build   Build
	started time.Time

	writing sync.Mutex // held while writing a page: a page opens files of the reserve
}

// A Build identifies the program.
type Build struct{ Version, Commit, Go string }

// NewMetrics returns the page of a server. expires is nil without TLS.
func NewMetrics(stats func() zkserver.Stats, expires func() time.Time, build Build) *Metrics {
	return &Metrics{stats: stats, expires: expires, build: build, started: time.Now()}
}

// ServeHTTP implements http.Handler.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", ExpositionType)
	_, _ = w.Write(m.page())
}

func (m *Metrics) page() []byte {
	m.writing.Lock()
	defer m.writing.Unlock()
	var e Exposition
	m.server(&e)
	goMetrics(&e)
	e.single("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", float64(m.started.UnixMilli())/1000)
	processMetrics(&e)
	return e.text
}

// A number is a metric that is one field of Stats.
type number struct {
	name, kind, help string
	of               func(*zkserver.Stats) float64
}

// numbers leaves out the last zxid, since a float has too few digits for it.
var numbers = [...]number{
	{"uptime_seconds", "gauge", "Time since the store was opened.", func(s *zkserver.Stats) float64 { return s.Uptime.Seconds() }},
	{"connections", "gauge", "Open connections, also those without a session yet.", func(s *zkserver.Stats) float64 { return float64(s.Connections) }},
	{"connections_limit", "gauge", "Most connections that the settings, the open files and the memory allow.", func(s *zkserver.Stats) float64 { return float64(s.ConnectionsMost) }},
	{"connections_accepted_total", "counter", "Connections accepted, without those refused at once.", func(s *zkserver.Stats) float64 { return float64(s.ConnectionsAccepted) }},
	{"sessions", "gauge", "Sessions, also those without a connection.", func(s *zkserver.Stats) float64 { return float64(s.Sessions) }},
	{"sessions_created_total", "counter", "Sessions created, without resumed ones.", func(s *zkserver.Stats) float64 { return float64(s.SessionsCreated) }},
	{"sessions_died_total", "counter", "Sessions ended because their processes are dead.", func(s *zkserver.Stats) float64 { return float64(s.SessionsDied) }},
	{"sessions_expired_total", "counter", "Sessions expired.", func(s *zkserver.Stats) float64 { return float64(s.SessionsExpired) }},
	{"logins_refused_total", "counter", "Wrong passwords, and requests without the login that they need.", func(s *zkserver.Stats) float64 { return float64(s.LoginsRefused) }},
	{"znodes", "gauge", "Nodes, with the built-in ones.", func(s *zkserver.Stats) float64 { return float64(s.Znodes) }},
	{"ephemeral_znodes", "gauge", "Ephemeral nodes: one for each lock that a client holds or waits for.", func(s *zkserver.Stats) float64 { return float64(s.Ephemerals) }},
	{"watches", "gauge", "Watches that clients have set.", func(s *zkserver.Stats) float64 { return float64(s.Watches) }},
	{"data_bytes", "gauge", "Size of all paths and data.", func(s *zkserver.Stats) float64 { return float64(s.DataBytes) }},
	{"journal_bytes", "gauge", "Size of the store's journals, which the server reads when it starts.", func(s *zkserver.Stats) float64 { return float64(s.JournalBytes) }},
	{"snapshot_bytes", "gauge", "Size of the store's snapshot, which the server reads when it starts.", func(s *zkserver.Stats) float64 { return float64(s.SnapshotBytes) }},
	{"snapshot_failures_total", "counter", "Attempts to make a snapshot, or the next journal, that failed. The server repeats them.", func(s *zkserver.Stats) float64 { return float64(s.SnapshotFailures) }},
	{"requests_received_total", "counter", "Requests received, with pings and connects.", func(s *zkserver.Stats) float64 { return float64(s.RequestsReceived) }},
	{"requests_answered_total", "counter", "Requests answered.", func(s *zkserver.Stats) float64 { return float64(s.RequestsAnswered) }},
	{"requests_committed_total", "counter", "Requests whose answers waited for a commit.", func(s *zkserver.Stats) float64 { return float64(s.RequestsCommitted) }},
	{"requests_waited_total", "counter", "Requests that waited for a later turn, because their connection sends much work.", func(s *zkserver.Stats) float64 { return float64(s.RequestsWaited) }},
	{"turns_waited_total", "counter", "Batches that the requests of requests_waited_total waited for.", func(s *zkserver.Stats) float64 { return float64(s.TurnsWaited) }},
	{"outstanding_requests", "gauge", "Requests that wait for an answer.", func(s *zkserver.Stats) float64 { return float64(s.Outstanding) }},
	{"notifications_total", "counter", "Events sent to watches.", func(s *zkserver.Stats) float64 { return float64(s.Notifications) }},
	{"received_bytes_total", "counter", "Bytes of requests received.", func(s *zkserver.Stats) float64 { return float64(s.BytesReceived) }},
	{"sent_bytes_total", "counter", "Bytes of answers and events sent.", func(s *zkserver.Stats) float64 { return float64(s.BytesSent) }},
	{"unsent_bytes", "gauge", "Bytes of answers that wait for the disk, or for clients to read them.", func(s *zkserver.Stats) float64 { return float64(s.BytesWaiting) }},
}

// server adds the metrics of the server, from one Stats.
func (m *Metrics) server(e *Exposition) {
	const prefix = "holdfast_server_"
	s := m.stats()
	for _, n := range numbers {
		e.single(prefix+n.name, n.kind, n.help, n.of(&s))
	}
	e.histogram(prefix+"commit_seconds", "Time to commit a batch of writes.", s.Commit)
	e.histogram(prefix+"request_seconds", "Time of a request in the server, with the wait for the disk.", s.Latency)
	e.Family(prefix+"limits_met_total", "counter", "How often clients exceeded a limit, by its name.")
	for _, limit := range slices.Sorted(maps.Keys(s.Refused)) {
		e.Sample(prefix+"limits_met_total", float64(s.Refused[limit]), "limit", string(limit))
	}
	e.Family(prefix+"build_info", "gauge", "Always 1. The labels identify the build.")
	e.Sample(prefix+"build_info", 1, "commit", m.build.Commit, "go", m.build.Go, "version", m.build.Version)
	if m.expires != nil {
		e.single(prefix+"tls_certificate_expiry_timestamp_seconds", "gauge", "When the certificate of --tls-cert expires, in seconds since 1970.", float64(m.expires().Unix()))
	}
}
