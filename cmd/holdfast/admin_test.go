//go:build unix

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"holdfast/zkserver"
)

func getAdmin(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(`(?m)^listening admin (\S+)$`).FindStringSubmatch(named(ts, args[0]).out.String())
	if m == nil {
		ts.Fatalf("%s has printed no admin address", args[0])
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + m[1] + args[1])
	ts.Check(err)
	defer resp.Body.Close()
	want := http.StatusOK
	if len(args) > 2 {
		want, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode != want {
		ts.Fatalf("GET %s: %s; want %d\n%s", args[1], resp.Status, want, body)
	}
	fmt.Fprintf(ts.Stdout(), "%s", body)
}

func TestHealthIsThatOfTheServer(t *testing.T) {
	server, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	admin := newAdmin(server, newMetrics(server.Stats, nil), false, slog.New(slog.DiscardHandler))
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
	admin = newAdmin(server, newMetrics(server.Stats, nil), true, slog.New(slog.DiscardHandler))
	check("zk.example:9181", "/metrics", 200)
	server.Close()
	check("127.0.0.1", "/healthz", 503)
	check("127.0.0.1", "/readyz", 503)
	check("127.0.0.1", "/metrics", 200)
}
