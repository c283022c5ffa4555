//go:build unix

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// gathered are the metrics' names and all values of those of our own.
func gathered(t *testing.T, r *prometheus.Registry) (names []string, values []float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "holdfast_") {
			continue
		}
		names = append(names, f.GetName())
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			values = append(values, m.GetGauge().GetValue(), m.GetCounter().GetValue(), h.GetSampleSum(), float64(h.GetSampleCount()))
			for _, b := range h.GetBucket() {
				values = append(values, float64(b.GetCumulativeCount()))
			}
		}
	}
	return names, values
}

func TestMetricsShowEveryStatistic(t *testing.T) {
	stats := zkserver.Stats{Refused: map[zkserver.Limit]int64{}}
	v := reflect.ValueOf(&stats).Elem()
	want := make(map[float64]string)
	for i := range v.NumField() {
		name, n := v.Type().Field(i).Name, float64(1000+i)
		switch field := v.Field(i).Addr().Interface().(type) {
		case *time.Duration:
			*field = time.Duration(n) * time.Second
		case *int:
			*field = int(n)
		case *int64:
			*field = int64(n)
		case *map[zkserver.Limit]int64:
			*field = map[zkserver.Limit]int64{zkserver.LimitWatches: int64(n)}
		case *zkserver.Histogram:
			buckets := make([]int64, len(zkserver.HistogramBounds())+1)
			buckets[3], buckets[5] = int64(n), 100_000 // in a bucket as they come: 101 000 and more
			*field = zkserver.Histogram{Count: int64(n) + 10_000, Sum: time.Duration(n+20_000) * time.Second, Buckets: buckets}
			want[n+10_000], want[n+20_000], want[n+100_000] = name+" count", name+" sum", name+" second bucket, with the first"
		default:
			t.Fatalf("%s: no metric for a %s", name, v.Field(i).Type())
		}
		want[n] = name
	}
	_, got := gathered(t, newMetrics(func() zkserver.Stats { return stats }, func() time.Time { return time.Unix(5, 0) }))
	for n, name := range want {
		if !slices.Contains(got, n) && name != "LastZxid" {
			t.Errorf("%s is in no metric", name)
		}
	}
	if !slices.Contains(got, 5) {
		t.Error("the certificate's end is in no metric")
	}
}

func TestMetricNamesAreWellFormed(t *testing.T) {
	server, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(statsCollector{server.Stats})
	names, _ := gathered(t, r)
	for _, name := range names {
		if !strings.HasPrefix(name, "holdfast_server_") {
			t.Errorf("%s", name)
		}
	}
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
