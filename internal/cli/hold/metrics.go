package hold

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
)

// MetricsFlag is --metrics, the address at which Prometheus reads the metrics of this process's locks.
type MetricsFlag struct{ addr string }

// Register gives a command the flag.
func (f *MetricsFlag) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "metrics", "", "answer Prometheus here at /metrics: a port of 127.0.0.1, or a loopback address with a port; port 0 chooses a free port")
}

// MetricsHelp is what the help of the subcommands says about the flag.
const MetricsHelp = `With --metrics ADDRESS, it answers Prometheus at http://ADDRESS/metrics while it runs: waits, holds and losses
of its locks, and the time that is left of the lease. There is no login, so only loopback addresses are allowed.
The names are those of a Go program with holdfast/contrib/promholdfast. The label lock is the path of the lock.`

// Open listens at the address, and serves the metrics until close. Without --metrics it returns nil. label returns
// the value of the label lock for a path; nil stands for the path itself.
func (f *MetricsFlag) Open(cmd *cobra.Command, label func(path string) string) (*Metrics, error) {
	const hint = "give a port such as 9464, or an address such as 127.0.0.1:9464"
	if !cmd.Flags().Changed("metrics") {
		return nil, nil
	}
	if f.addr == "" {
		return nil, term.Usage(hint+", or leave --metrics out", "%s: --metrics is empty", cmd.Name())
	}
	addr, err := term.LocalAddress("--metrics", hint, f.addr)
	if err != nil {
		return nil, err
	}
	// The metrics contain the names of locks, and there is no login. A host name could resolve to another address.
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, term.Usage(hint+". For other machines, put a proxy with a login in front of it",
			"--metrics %s: the metrics have no login, so they are for this machine alone", term.Cut(f.addr, 80))
	}
	l, err := Listen("--metrics", f.addr, addr)
	if err != nil {
		return nil, err
	}
	m := newMetrics(label)
	m.server = Answer(l, m.handler())
	return m, nil
}

// Metrics are those of the locks of this process. Their names and labels are those of contrib/promholdfast. They
// are safe for concurrent use. The methods of nil do nothing.
type Metrics struct {
	label  func(path string) string
	server *Answering

	mu      sync.Mutex // guards the fields below
	locks   map[string]*lockCounts
	current map[*holdfast.Hold]*lockCounts // neither lost nor released
	contact *conn.Contact                  // nil before the first connection
}

// lockCounts are those of the locks with one value of the label lock.
type lockCounts struct {
	waiters, held int
	waits         map[string]*timeCounts // by result
	holds         timeCounts
	losses        map[string]int64 // by reason
}

// timeCounts are the counts of a histogram.
type timeCounts struct {
	buckets [14]int64
	count   int64
	sum     time.Duration
}

// histogramBounds are those of promholdfast.
var histogramBounds = []time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
}

func (h *timeCounts) add(d time.Duration) {
	if i, _ := slices.BinarySearch(histogramBounds, d); i < len(h.buckets) {
		h.buckets[i]++
	}
	h.count++
	h.sum += d
}

func newMetrics(label func(string) string) *Metrics {
	if label == nil {
		label = func(path string) string { return path }
	}
	return &Metrics{label: label, locks: make(map[string]*lockCounts), current: make(map[*holdfast.Hold]*lockCounts)}
}

// Close ends the answers.
func (m *Metrics) Close() {
	if m != nil {
		m.server.Close()
	}
}

// Announce says where the metrics are.
func (m *Metrics) Announce(say *term.Sayer) {
	if m != nil {
		say.Line("metrics at http://%s/metrics", m.server.Address)
	}
}

// Connected notes the connection whose state the metrics show.
func (m *Metrics) Connected(c *conn.Contact) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contact = c
}

// Expect shows the locks from the beginning, before the first call that acquires them.
func (m *Metrics) Expect(paths ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, path := range paths {
		m.of(path)
	}
}

// of returns the counts of the lock at path. m.mu must be held.
func (m *Metrics) of(path string) *lockCounts {
	label := m.label(path)
	l := m.locks[label]
	if l == nil {
		l = &lockCounts{waits: make(map[string]*timeCounts), losses: make(map[string]int64)}
		for _, r := range results {
			l.waits[r] = &timeCounts{}
		}
		for _, r := range lossReasons {
			l.losses[r] = 0
		}
		m.locks[label] = l
	}
	return l
}

// Observed returns the option by which a lock reports to m.
func (m *Metrics) Observed() holdfast.Option {
	if m == nil {
		return holdfast.WithObserver(nil)
	}
	over := func(e holdfast.Event, lost bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if lost {
			m.of(e.Path).losses[e.Outcome]++
		}
		if l := m.current[e.Hold]; l != nil {
			delete(m.current, e.Hold)
			l.held--
			l.holds.add(e.Took)
		}
	}
	return holdfast.WithObserver(&holdfast.Observer{
		Queued: func(_ context.Context, e holdfast.Event) context.Context {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.of(e.Path).waiters++
			return nil
		},
		Acquired: func(_ context.Context, e holdfast.Event) {
			m.mu.Lock()
			defer m.mu.Unlock()
			l := m.of(e.Path)
			l.waiters--
			l.waits[e.Outcome].add(e.Took)
			if e.Hold != nil {
				l.held++
				m.current[e.Hold] = l
			}
		},
		Lost:     func(_ context.Context, e holdfast.Event) { over(e, true) },
		Released: func(_ context.Context, e holdfast.Event) { over(e, false) },
	})
}

// The values of the labels result and reason, as in promholdfast.
var results, lossReasons = holdfast.Outcomes(), holdfast.Losses()

// handler answers GET /metrics.
func (m *Metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", daemon.ExpositionType)
		_, _ = w.Write(m.page())
	})
	return daemon.OnlyLocalNames(mux)
}

// page returns the metrics as text.
func (m *Metrics) page() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var e daemon.Exposition
	labels := slices.Sorted(maps.Keys(m.locks))
	each := func(f func(lock string, l *lockCounts)) {
		for _, lock := range labels {
			f(lock, m.locks[lock])
		}
	}
	e.Family("holdfast_acquire_total", "counter", "Calls that acquire a lock, by result.")
	each(func(lock string, l *lockCounts) {
		for _, r := range results {
			e.Sample("holdfast_acquire_total", float64(l.waits[r].count), "lock", lock, "result", r)
		}
	})
	e.Family("holdfast_wait_seconds", "histogram", "Time of calls that acquire a lock, by result.")
	each(func(lock string, l *lockCounts) {
		for _, r := range results {
			if h := l.waits[r]; h.count > 0 || r == "acquired" {
				e.Buckets("holdfast_wait_seconds", histogramBounds, h.buckets[:], h.count, h.sum, "lock", lock, "result", r)
			}
		}
	})
	e.Family("holdfast_hold_seconds", "histogram", "Time from the acquisition of a lock to its release or loss.")
	each(func(lock string, l *lockCounts) {
		e.Buckets("holdfast_hold_seconds", histogramBounds, l.holds.buckets[:], l.holds.count, l.holds.sum, "lock", lock)
	})
	e.Family("holdfast_held", "gauge", "Holds at present.")
	each(func(lock string, l *lockCounts) { e.Sample("holdfast_held", float64(l.held), "lock", lock) })
	e.Family("holdfast_waiters", "gauge", "Calls at present that acquire a lock.")
	each(func(lock string, l *lockCounts) { e.Sample("holdfast_waiters", float64(l.waiters), "lock", lock) })
	e.Family("holdfast_lost_total", "counter", "Holds that were lost, by reason.")
	each(func(lock string, l *lockCounts) {
		for _, r := range lossReasons {
			e.Sample("holdfast_lost_total", float64(l.losses[r]), "lock", lock, "reason", r)
		}
	})
	m.leases(&e, each)
	m.connection(&e)
	return e.Text()
}

// leases adds the time that is left of the holds. m.mu must be held.
func (m *Metrics) leases(e *daemon.Exposition, each func(func(lock string, l *lockCounts))) {
	least := make(map[*lockCounts]time.Duration)
	for h, l := range m.current {
		left := time.Until(h.Deadline())
		if shortest, ok := least[l]; !ok || left < shortest {
			least[l] = left
		}
	}
	e.Family("holdfast_lease_remaining_seconds", "gauge", "Time until the first of the present holds is lost if no server answers.")
	each(func(lock string, l *lockCounts) {
		if left, ok := least[l]; ok {
			e.Sample("holdfast_lease_remaining_seconds", left.Seconds(), "lock", lock)
		}
	})
}

// connection adds the state of the session. m.mu must be held.
func (m *Metrics) connection(e *daemon.Exposition) {
	var up, down float64
	if m.contact != nil {
		if since, _ := m.contact.State(); since.IsZero() {
			up = 1
		} else {
			down = 1
		}
	}
	e.Family("holdfast_session_state", "gauge", "ZooKeeper sessions of this process, by state.")
	e.Sample("holdfast_session_state", up, "state", "connected")
	e.Sample("holdfast_session_state", down, "state", "disconnected")
}
