package daemon

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"holdfast/zkserver"
)

func TestHealthIsThatOfTheServer(t *testing.T) {
	server, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	admin := NewAdmin(server, NewMetrics(server.Stats, nil, Build{}), false, slog.New(slog.DiscardHandler))
	get := func(host, path string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = host
		admin.Handler.ServeHTTP(w, r)
		return w.Code
	}
	check := func(host, path string, want int) {
		t.Helper()
		if got := get(host, path); got != want {
			t.Errorf("%s at %s: %d; want %d", path, host, got, want)
		}
	}
	check("localhost:9181", "/healthz", 200)
	check("127.0.0.1", "/readyz", 200)
	check("[::1]:9181", "/metrics", 200)
	check("127.0.0.1:9181", "/debug/pprof/", 200)
	check("127.0.0.1:9181", "/", 404)
	check("attacker.example:9181", "/debug/pprof/", 403)
	check("192.0.2.1", "/metrics", 403)
	admin = NewAdmin(server, NewMetrics(server.Stats, nil, Build{}), true, slog.New(slog.DiscardHandler))
	check("zk.example:9181", "/metrics", 200)
	server.Close()
	check("127.0.0.1", "/healthz", 503)
	check("127.0.0.1", "/readyz", 503)
	check("127.0.0.1", "/metrics", 200)
}
