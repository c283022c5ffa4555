//go:build linux

package daemon

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/zkserver"
)

// A family is a metric as a scraper reads it.
type family struct {
	kind, help string
	samples    []sample
}

type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) ([a-z_]+) (.+)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-z_]+)="((?:[^"\\]|\\[\\n"])*)"(?:,|$)`)
)

// parse reads the text format. It fails the test if a scraper would refuse the text.
func parse(t *testing.T, page []byte) map[string]*family {
	t.Helper()
	families := make(map[string]*family)
	var name string
	seen := make(map[string]bool)
	if !strings.HasSuffix(string(page), "\n") {
		t.Errorf("the last line does not end with a newline")
	}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		if m := headLine.FindStringSubmatch(line); m != nil {
			switch m[1] {
			case "HELP":
				if name = m[2]; families[name] != nil {
					t.Errorf("%s occurs twice", name)
				}
				families[name] = &family{help: m[3]}
			case "TYPE":
				if m[2] != name || families[name].kind != "" || !slices.Contains([]string{"counter", "gauge", "histogram", "summary"}, m[3]) {
					t.Errorf("%s", line)
				}
				families[name].kind = m[3]
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || name == "" || seen[m[1]+m[2]] {
			t.Fatalf("not a sample, or a repeated one: %q", line)
		}
		seen[m[1]+m[2]] = true
		f, s := families[name], sample{name: m[1], labels: make(map[string]string)}
		suffix, ours := strings.CutPrefix(s.name, name)
		switch {
		case !ours, f.kind == "",
			suffix != "" && f.kind != "histogram" && f.kind != "summary",
			!slices.Contains([]string{"", "_bucket", "_sum", "_count"}, suffix):
			t.Errorf("%s among the samples of %s, a %s", s.name, name, f.kind)
		}
		for rest := m[2]; rest != ""; {
			pair := labelPair.FindStringSubmatch(rest)
			if pair == nil {
				t.Fatalf("labels: %q", line)
			}
			s.labels[pair[1]] = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`).Replace(pair[2])
			rest = rest[len(pair[0]):]
		}
		var err error
		if s.value, err = strconv.ParseFloat(m[3], 64); err != nil {
			t.Error(err)
		}
		f.samples = append(f.samples, s)
	}
	for name, f := range families {
		if len(f.samples) == 0 || f.kind == "counter" != strings.HasSuffix(name, "_total") {
			t.Errorf("%s, a %s, has %d samples", name, f.kind, len(f.samples))
		}
		if f.kind == "histogram" {
			checkBuckets(t, name, f.samples)
		}
	}
	return families
}

func checkBuckets(t *testing.T, name string, samples []sample) {
	t.Helper()
	bound, count := -1.0, 0.0
	for _, s := range samples {
		switch s.name {
		case name + "_bucket":
			le, err := strconv.ParseFloat(s.labels["le"], 64)
			if err != nil || le <= bound || s.value < count {
				t.Errorf("%s: bucket %q of %v after %v of %v", name, s.labels["le"], s.value, bound, count)
			}
			bound, count = le, s.value
		case name + "_count":
			if s.value != count || bound < 1e300 {
				t.Errorf("%s: count %v; the last bucket is %v of %v", name, s.value, bound, count)
			}
		}
	}
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
			buckets[3], buckets[5], buckets[len(buckets)-1] = int64(n), 100_000, 1_000_000 // per bucket, not cumulative: 101 000 and more
			*field = zkserver.Histogram{Count: int64(n) + 1_100_000, Sum: time.Duration(n+20_000) * time.Second, Buckets: buckets}
			want[n+1_100_000], want[n+20_000], want[n+100_000] = name+" count", name+" sum", name+" second bucket, with the first"
		default:
			t.Fatalf("%s: no metric for a %s", name, v.Field(i).Type())
		}
		want[n] = name
	}
	var got []float64
	families := parse(t, NewMetrics(func() zkserver.Stats { return stats }, func() time.Time { return time.Unix(5, 0) }, Build{Version: "v1", Commit: "abc", Go: "go1"}).page())
	for name, f := range families {
		for _, s := range f.samples {
			if strings.HasPrefix(name, "holdfast_server_") {
				got = append(got, s.value)
			}
		}
	}
	for n, name := range want {
		if !slices.Contains(got, n) && name != "LastZxid" {
			t.Errorf("no metric has the value %s", name)
		}
	}
	if !slices.Contains(got, 5) {
		t.Error("no metric has the end of the certificate")
	}
}

// The golden file has the metrics of Prometheus's library, whose names dashboards use, and later ones.
func TestMetricsKeepTheirNames(t *testing.T) {
	server, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	page := string(NewMetrics(server.Stats, func() time.Time { return time.Unix(5, 0) }, Build{Version: "v1", Commit: "abc", Go: "go1"}).page())
	var got []string
	for line := range strings.Lines(page) {
		if line[0] == '#' {
			got = append(got, line)
		}
	}
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(strings.Fields(a)[2], strings.Fields(b)[2]) })
	golden, err := os.ReadFile("testdata/metrics.golden")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	if text := strings.Join(got, ""); text != string(golden) {
		t.Errorf("got:\n%s", text)
	}
}

func TestMetricsOfTheProcess(t *testing.T) {
	families := parse(t, NewMetrics(func() zkserver.Stats {
		return zkserver.Stats{Refused: map[zkserver.Limit]int64{zkserver.LimitFrame: 0}, Commit: noTimes(), Latency: noTimes()}
	}, nil, Build{}).page())
	value := func(name string) float64 {
		f := families[name]
		if f == nil || len(f.samples) != 1 {
			t.Fatalf("%s: %+v", name, f)
		}
		return f.samples[0].value
	}
	now := float64(time.Now().Unix())
	for name, between := range map[string][2]float64{
		"process_open_fds":                     {3, 1000},
		"process_max_fds":                      {10, 1e9},
		"process_resident_memory_bytes":        {1 << 20, value("process_virtual_memory_bytes")},
		"process_cpu_seconds_total":            {0, 3600},
		"process_start_time_seconds":           {now - 3600, now + 1},
		"process_network_receive_bytes_total":  {0, 1e18},
		"process_network_transmit_bytes_total": {0, 1e18},
		"go_goroutines":                        {1, 10000},
		"go_gc_gogc_percent":                   {100, 100},
		"go_memstats_heap_inuse_bytes":         {1 << 16, value("go_memstats_sys_bytes")},
	} {
		if v := value(name); v < between[0] || v > between[1] {
			t.Errorf("%s %v; want %v to %v", name, v, between[0], between[1])
		}
	}
}

func noTimes() zkserver.Histogram {
	return zkserver.Histogram{Buckets: make([]int64, len(zkserver.HistogramBounds())+1)}
}

func TestLabelsAreEscaped(t *testing.T) {
	var e Exposition
	labels := map[string]string{"a": "back\\slash, \"quotes\"", "b": "two\nlines"}
	e.Family("x", "gauge", "Help.")
	e.Sample("x", 0.25, "a", labels["a"], "b", labels["b"])
	want := "# HELP x Help.\n# TYPE x gauge\n" + `x{a="back\\slash, \"quotes\"",b="two\nlines"} 0.25` + "\n"
	if string(e.text) != want {
		t.Errorf("%s; want %s", e.text, want)
	}
	if s := parse(t, e.text)["x"].samples[0]; !maps.Equal(s.labels, labels) {
		t.Error(fmt.Sprint(s))
	}
}
