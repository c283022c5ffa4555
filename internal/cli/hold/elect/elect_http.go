package elect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/hold"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// httpFlag is --http, the address at which elect answers requests about the election.
type httpFlag struct{ addr string }

func (f *httpFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "http", "", "answer HTTP requests about the election here: a port of 127.0.0.1, or host:port. /leader is 200 if this process leads, else 503")
}

const (
	// mostStreams is how many readers of /events there are at a time. They leave half of the
	// connections to others.
	mostStreams = 16
	// streamStep is how often a stream looks for changes that no event reports, such as a lost
	// connection.
	streamStep = 250 * time.Millisecond
	// streamAlive is how often a stream without changes sends a comment, so that both ends notice a
	// lost connection.
	streamAlive = 15 * time.Second
)

// open listens at the address, and serves a page about the election. Without --http it returns nil.
func (f *httpFlag) open(election string) (*page, error) {
	if f.addr == "" {
		return nil, nil
	}
	addr, err := term.LocalAddress("--http",
		"give a port such as 4040, or an address such as 127.0.0.1:4040; 0.0.0.0:4040 answers other machines, too", f.addr)
	if err != nil {
		return nil, err
	}
	l, err := hold.Listen("--http", f.addr, addr)
	if err != nil {
		return nil, err
	}
	p := newPage(election)
	handler := p.handler()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		handler = daemon.OnlyLocalNames(handler)
	}
	p.server = hold.Answer(l, handler)
	return p, nil
}

// A page answers HTTP requests about an election. It answers from the state of this process and asks no
// server. It is safe for concurrent use. The methods of a nil page do nothing.
type page struct {
	election string
	server   *hold.Answering
	serving  sync.WaitGroup // the goroutine of follow
	ctx      context.Context
	stop     context.CancelFunc
	streams  chan struct{} // one token for each reader of /events

	mu      sync.Mutex    // guards the fields below
	changed chan struct{} // closed by the next change
	contact *conn.Contact // nil before the first connection
	session *zk.Session   // the one that has read the leader
	known   bool          // the session has read the leader
	leader  holdfast.Leader
	office  *office // nil while this process does not lead
}

// An office is a term of this process.
type office struct {
	hold  *holdfast.Hold
	value string
	since time.Time
	grace time.Duration // the command gets TERM this long before the hold's deadline
}

func newPage(election string) *page {
	ctx, stop := context.WithCancel(context.Background())
	return &page{election: election, ctx: ctx, stop: stop, streams: make(chan struct{}, mostStreams), changed: make(chan struct{})}
}

// close ends the answers.
func (p *page) close() {
	if p == nil {
		return
	}
	p.stop()
	p.server.Close()
	p.serving.Wait()
}

// announce says where the page is.
func (p *page) announce(say *term.Sayer) {
	if p != nil {
		say.Line("answering at http://%s", p.server.Address)
	}
}

// change changes the state, and wakes the streams.
func (p *page) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// lead records that this process leads. value is its value.
func (p *page) lead(h *holdfast.Hold, value string, grace time.Duration) {
	if p != nil {
		p.change(func() { p.office = &office{h, value, time.Now(), max(grace, supervise.KillMargin)} })
	}
}

// resign records that the term of this process ends.
func (p *page) resign() {
	if p != nil {
		p.change(func() { p.office = nil })
	}
}

// follow follows the election until close, through one session after the other.
func (p *page) follow(c *conn.Connection, e *holdfast.Election) {
	if p == nil {
		return
	}
	p.change(func() { p.contact = c.Contact })
	p.serving.Go(func() {
		for {
			s, err := c.Client.Session(p.ctx)
			if err != nil {
				return // the page or the client is closed
			}
			// A new session reads the leader before the page shows one.
			p.change(func() { p.session, p.known = s, false })
			p.followIn(s, e)
			select {
			case <-s.Context().Done():
			case <-time.After(time.Second): // an error, such as a missing permission
			case <-p.ctx.Done():
				return
			}
		}
	})
}

func (p *page) followIn(s *zk.Session, e *holdfast.Election) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	for l, err := range e.Leaders(ctx) {
		if err != nil {
			p.change(func() { p.known = false })
			return
		}
		p.change(func() { p.known, p.leader = true, l })
	}
}

// leads reports whether this process can prove at this moment that it leads, and until when. The answer
// is no from the moment at which the command gets TERM, and while no server answers. p.mu must be held.
func (p *page) leads() (yes bool, until time.Time) {
	o := p.office
	if o == nil || o.hold.Err() != nil || !p.connected() || p.known && p.leader.Term > o.hold.Token() {
		return false, time.Time{}
	}
	until = o.hold.Deadline().Add(-o.grace)
	return time.Until(until) > 0, until
}

// connected reports whether this process has a connection to a server. p.mu must be held.
func (p *page) connected() bool {
	if p.contact == nil {
		return false
	}
	down, _ := p.contact.State()
	return down.IsZero()
}

// LeaderDocument is the answer to GET / and GET /leader.
type LeaderDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Election   string `json:"election"`
	// Name is the leader's value. It is empty if nobody leads, or the leader is not known. The
	// leader-elector of Kubernetes answered with this field alone.
	Name  string     `json:"name"`
	Token string     `json:"token,omitempty"`
	Since *time.Time `json:"since,omitempty"` // when the leader became a candidate
	// IsLeader says that this process leads.
	IsLeader  bool `json:"is_leader"`
	Connected bool `json:"connected"`
	// AsOfMS is the age of the answer: the time since a server has last confirmed the session. It is
	// absent before the first session.
	AsOfMS *int64 `json:"as_of_ms,omitempty"`
}

// document returns the present state, the moment until which it may be sent if this process leads, and
// a channel that the next change closes.
func (p *page) document() (d LeaderDocument, until time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d = LeaderDocument{APIVersion: term.APIVersion, Kind: "Leader", Election: p.election, Connected: p.connected()}
	if p.session != nil {
		// The deadline is the last proof of the session plus its timeout.
		left := time.Until(p.session.Deadline())
		age := max(p.session.Timeout()-left, 0).Milliseconds()
		d.AsOfMS = &age
		if p.known && p.leader.Term != 0 && left > 0 {
			d.Name, d.Token = string(p.leader.Value), strconv.FormatInt(p.leader.Term, 10)
			since := p.leader.Since.UTC()
			d.Since = &since
		}
	}
	d.Connected = d.Connected && p.known
	if d.IsLeader, until = p.leads(); d.IsLeader {
		token := strconv.FormatInt(p.office.hold.Token(), 10)
		if d.Token != token {
			since := p.office.since.UTC().Truncate(time.Millisecond)
			d.Since = &since
		}
		d.Name, d.Token, d.Connected = p.office.value, token, true
	}
	return d, until, p.changed
}

func (p *page) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		d, until, _ := p.document()
		p.answer(w, d.Connected, d, until)
	})
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		d, until, _ := p.document()
		p.answer(w, d.IsLeader, d, until)
	})
	mux.HandleFunc("GET /events", p.events)
	return mux
}

// answer sends d, with 200 if ok, else 503.
func (p *page) answer(w http.ResponseWriter, ok bool, d LeaderDocument, until time.Time) {
	if d.IsLeader {
		// If this process is stopped before it has sent the answer, the answer is not sent later.
		_ = http.NewResponseController(w).SetWriteDeadline(earliest(until, time.Now().Add(hold.AnswerPatience)))
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = term.JSON(w, d) // the client is gone
}

// events sends the state and each change as server-sent events.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d streams are open, and there can be no more", mostStreams), http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	step := time.NewTicker(streamStep)
	defer step.Stop()
	var sent streamed
	var last time.Time
	for {
		d, until, changed := p.document()
		state := stateOfStream(d)
		limit := time.Now().Add(hold.AnswerPatience)
		if d.IsLeader {
			limit = earliest(limit, until)
		}
		_ = control.SetWriteDeadline(limit)
		switch {
		case state != sent:
			line, err := json.Marshal(d)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", line) // Flush reports the fault
			sent, last = state, time.Now()
		case time.Since(last) >= streamAlive:
			_, _ = io.WriteString(w, ":\n\n")
			last = time.Now()
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-step.C:
		case <-r.Context().Done():
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// streamed is what a stream compares to find changes: everything but the age. It is no text, since a leader's value can
// have 1 MiB.
type streamed struct {
	LeaderDocument
	since time.Time
}

func stateOfStream(d LeaderDocument) streamed {
	s := streamed{LeaderDocument: d}
	if d.Since != nil {
		s.since = *d.Since
	}
	s.AsOfMS, s.Since = nil, nil
	return s
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
