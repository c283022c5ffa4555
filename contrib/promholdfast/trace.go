package promholdfast

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/zk"
)

// The values of the label state of holdfast_session_state.
const (
	connected    = "connected"
	disconnected = "disconnected"
)

// clientMetrics are those of the ZooKeeper clients.
type clientMetrics struct {
	requests *prometheus.CounterVec
	times    *prometheus.HistogramVec // classic: an observation costs a third of one in a native histogram
	state    *prometheus.Desc

	operations map[string]*operationMetrics // guarded by events.folding

	mu       sync.Mutex
	sessions map[sessionKey]string // their states; guarded by mu
}

// A sessionKey is a session. Two ensembles can have the same id.
type sessionKey struct {
	client *zk.Trace
	id     int64
}

type operationMetrics struct {
	ok    prometheus.Counter
	times prometheus.Observer
}

func newClientMetrics() *clientMetrics {
	return &clientMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_requests_total", Help: "Requests of the ZooKeeper client, by operation and result."}, []string{"operation", "result"}),
		times:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "holdfast_request_seconds", Help: "Time of requests of the ZooKeeper client, by operation.", Buckets: shortBuckets}, []string{"operation"}),
		state:    prometheus.NewDesc("holdfast_session_state", "ZooKeeper sessions of this process, by state.", []string{"state"}, nil),
		sessions: make(map[sessionKey]string),

		operations: make(map[string]*operationMetrics),
	}
}

// Trace returns hooks for the Trace of a [zk.Config]. Call it once for each client. Without it, there are no
// metrics of requests, sessions and handoffs. Clients with different servers or chroots need a Collector each if
// they use the same paths, since a handoff is known by the path.
func (c *Collector) Trace() *zk.Trace {
	t := &zk.Trace{}
	set := func(session int64, state string) {
		c.client.mu.Lock()
		defer c.client.mu.Unlock()
		// The connection of a session can end after the session.
		if key := (sessionKey{t, session}); c.client.sessions[key] != "" {
			c.client.sessions[key] = state
		}
	}
	// A session that attaches again on purpose (Reattaching) stays connected.
	t.SessionCreated = func(session int64, _ time.Duration) {
		c.client.mu.Lock()
		defer c.client.mu.Unlock()
		c.client.sessions[sessionKey{t, session}] = connected
	}
	t.SessionResumed = func(session int64) { set(session, connected) }
	t.Disconnected = func(session int64, _ error) { set(session, disconnected) }
	t.SessionOver = func(session int64, _ error) {
		c.client.mu.Lock()
		defer c.client.mu.Unlock()
		delete(c.client.sessions, sessionKey{t, session})
	}
	t.RequestDone = func(ctx context.Context, op, path string, took time.Duration, err error) {
		e := event{kind: requested, name: op, failed: err != nil, took: took}
		switch {
		case err != nil:
			e.outcome = requestResult(ctx, err)
		case op == "delete":
			e.kind, e.name, e.at = deleted, path, tick()
		}
		c.note(&e)
	}
	return t
}

// requestDone folds the end of a request.
func (m *clientMetrics) requestDone(op string, e *event) {
	o := m.operations[op]
	if o == nil {
		o = &operationMetrics{ok: m.requests.WithLabelValues(op, "ok"), times: m.times.WithLabelValues(op)}
		m.operations[op] = o
	}
	o.times.Observe(e.took.Seconds())
	if e.failed {
		m.requests.WithLabelValues(op, requestResults[e.outcome].label).Inc()
		return
	}
	o.ok.Inc()
}

func (m *clientMetrics) collect(ch chan<- prometheus.Metric) {
	states := map[string]int{connected: 0, disconnected: 0}
	m.mu.Lock()
	for state := range maps.Values(m.sessions) {
		states[state]++
	}
	m.mu.Unlock()
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(m.state, prometheus.GaugeValue, float64(n), state)
	}
}

// requestResults are values of the label result of holdfast_requests_total, with the errors that they stand for.
// Success is "ok". A server can send any number as an error, so all other errors share the value "error".
var requestResults = []struct {
	label string
	err   error
}{
	canceled:     {"canceled", context.Canceled},
	timeout:      {"timeout", context.DeadlineExceeded},
	anotherError: {"error", nil},

	{"no_node", zk.ErrNoNode},
	{"node_exists", zk.ErrNodeExists},
	{"bad_version", zk.ErrBadVersion},
	{"not_empty", zk.ErrNotEmpty},
	{"no_auth", zk.ErrNoAuth},
	{"throttled", zk.ErrThrottled},
	{"quota_exceeded", zk.ErrQuotaExceeded},
	{"connection_loss", zk.ErrConnectionLoss},
	{"session_expired", zk.ErrSessionExpired},
	{"client_closed", zk.ErrClosed},
	{"auth_failed", zk.ErrAuthFailed},
}

// Indices of requestResults.
const (
	canceled = iota
	timeout
	anotherError
)

// requestResult returns the index of err in requestResults.
func requestResult(ctx context.Context, err error) uint8 {
	for i, r := range slices.Backward(requestResults) {
		if errors.Is(err, r.err) {
			return uint8(i)
		}
	}
	// The error of a call whose context has ended is the context's cause, which can be anything.
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeout
	case ctx.Err() != nil:
		return canceled
	}
	return anotherError
}
