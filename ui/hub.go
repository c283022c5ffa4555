package ui

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"holdfast/internal/htpasswd"
)

const (
	// mostTabs is how many tabs have a stream at a time. The browser with most of them gives way to further ones: its tabs
	// reload by themselves.
	mostTabs = 256
	// tabPatience is how long a tab may take to read a mark. A slower tab is dropped, and connects again.
	tabPatience = 5 * time.Second
	// streamAlive is the longest time between two marks. A tab that gets none for three times as long says so.
	streamAlive = 2 * time.Second
)

// markEvery is the least time between two marks.
const markEvery = time.Second

// A hub tells the tabs that the state has changed, all at the same moment, so that they can share what they read. Each
// tab has one pending mark at most, so a slow tab costs nothing.
type hub struct {
	mu     sync.Mutex // guards the fields below
	tabs   map[chan struct{}]bool
	marked time.Time   // when the tabs got their last mark
	due    time.Time   // when the timer gives the next one; zero if it does not run
	timer  *time.Timer // runs until due
	closed chan struct{}
	over   bool
}

func newHub() *hub {
	return &hub{tabs: make(map[chan struct{}]bool), closed: make(chan struct{})}
}

// mark gives each tab a mark, now or, if there was one within the last second, after that second.
func (h *hub) mark() { h.markAt(time.Now()) }

// markAt gives each tab a mark at a time. If a mark is due before, that one is enough: the request of a
// tab that gets an old page then calls markAt again.
func (h *hub) markAt(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if next := h.marked.Add(markEvery); at.Before(next) {
		at = next
	}
	switch {
	case h.over || !h.due.IsZero() && !at.Before(h.due):
	case !at.After(now):
		h.send(now)
	default:
		if h.timer != nil {
			h.timer.Stop()
		}
		h.due = at
		h.timer = time.AfterFunc(at.Sub(now), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if now := time.Now(); !h.over && h.due.Equal(at) {
				h.send(now)
			}
		})
	}
}

// send gives each tab a mark. h.mu is held.
func (h *hub) send(now time.Time) {
	h.marked, h.due = now, time.Time{}
	if h.timer != nil {
		h.timer.Stop()
	}
	for tab := range h.tabs {
		select {
		case tab <- struct{}{}:
		default:
		}
	}
}

func (h *hub) join() (tab chan struct{}, leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, nil, false
	}
	tab = make(chan struct{}, 1)
	tab <- struct{}{}
	h.tabs[tab] = true
	return tab, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.tabs, tab)
	}, true
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tabs)
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		if h.timer != nil {
			h.timer.Stop()
		}
		close(h.closed)
	}
}

// events sends the marks of the hub as server-sent events. After a mark, the tab reads its page again.
func (u *UI) events(w http.ResponseWriter, r *http.Request) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	use := u.streams.Enter(end, append(clientOf(r), "address "+htpasswd.AddressOf(r))...)
	defer use.Leave()
	if !use.Grow(1) {
		http.Error(w, fmt.Sprintf("%d tabs are open, and most of them are of this user or address", mostTabs), http.StatusServiceUnavailable)
		return
	}
	tab, leave, ok := u.state.hub.join()
	if !ok {
		http.Error(w, "the page ends", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx holds answers back otherwise
	alive := time.NewTicker(streamAlive)
	defer alive.Stop()
	for {
		what := "alive"
		select {
		case <-tab:
			what = "change"
		case <-alive.C:
		case <-ctx.Done():
			return
		case <-u.state.hub.closed:
			return
		}
		_ = control.SetWriteDeadline(time.Now().Add(tabPatience))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %d\n\n", what, time.Now().UnixMilli()); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
	}
}
