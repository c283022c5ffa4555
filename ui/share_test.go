package ui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/zktest"
)

// A stream is the answer with the events of a tab.
type stream struct {
	*httptest.ResponseRecorder
	begun chan struct{} // closed with the first event or the refusal
	done  chan struct{} // closed at the end
}

func (s *stream) Write(b []byte) (int, error) {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	return len(b), nil
}

// Flush leaves the recorder alone: the test reads it while the stream goes on.
func (s *stream) Flush() {}

func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// One browser with 256 streams takes none of another one's, although both are of the same user at the same address.
func TestOneBrowserKeepsNoOtherFromItsEvents(t *testing.T) {
	server := zktest.NewServer()
	defer server.Close()
	var tokens []string
	access, err := NewAccess(AccessConfig{Addr: home, Owner: "me", Announce: func(path string) { tokens = append(tokens, path) }})
	if err != nil {
		t.Fatal(err)
	}
	u, err := New(Config{Client: server.Client(), Access: access})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	enter := func() string { return cookieOf(t, send(u, "GET", tokens[len(tokens)-1], nil)) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(cookie string) *stream {
		r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:7480/events", nil)
		r.RemoteAddr = "127.0.0.1:50000"
		r.Header.Set("Cookie", cookie[len("Cookie: "):])
		s := &stream{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		go func() {
			defer close(s.done)
			u.ServeHTTP(s, r)
		}()
		<-s.begun
		return s
	}
	crowd, honest := enter(), enter()
	var all []*stream
	for range mostTabs {
		all = append(all, open(crowd))
	}
	if s := open(crowd); s.Code != http.StatusServiceUnavailable {
		t.Errorf("a stream too many: %d", s.Code)
	}
	one := open(honest)
	if one.Code != http.StatusOK {
		t.Fatalf("the other browser: %d", one.Code)
	}
	<-all[mostTabs-1].done // it has given way
	select {
	case <-one.done:
		t.Error("the stream of the other browser has ended")
	case <-all[0].done:
		t.Error("the first stream of the large browser has ended")
	default:
	}
	cancel()
	for _, s := range append(all, one) {
		<-s.done
	}
}
