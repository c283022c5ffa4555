package promholdfast_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"holdfast"
	"holdfast/contrib/promholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cfg := context.Background(), srv.Config()

	metrics, err := promholdfast.New("/jobs/{*}")
	if err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(metrics)
	// OpenMetrics has exemplars, which lead from a slow wait to its trace.
	http.Handle("/metrics", promhttp.HandlerFor(prometheus.DefaultGatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))

	cfg.Trace = metrics.Trace()
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	m := holdfast.NewMutex(c, "/jobs/nightly", holdfast.WithObserver(metrics.Observer()))
	h, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()

	scrape := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.HasPrefix(line, "holdfast_held{") {
			fmt.Print(line)
		}
	}
	// Output:
	// holdfast_held{lock="/jobs/{*}"} 1
	// holdfast_held{lock="other"} 0
}

func ExampleCollector() {
	srv := zktest.NewServer()
	defer srv.Close()
	metrics, err := promholdfast.New("/jobs/{*}", "/jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"/jobs/nightly", "/jobs/weekly", "/accounts/17"} {
		m := holdfast.NewMutex(srv.Client(), path, holdfast.WithObserver(metrics.Observer()))
		if _, err := m.Lock(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP holdfast_held Holds at present.
# TYPE holdfast_held gauge
holdfast_held{lock="/jobs/nightly"} 1
holdfast_held{lock="/jobs/{*}"} 1
holdfast_held{lock="other"} 1
`), "holdfast_held"))
	// Output: <nil>
}

// The how-to shows lines of the example, and the reference lists every metric.
func TestTheHowToShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], "promholdfast.") {
			shown++
			if !strings.Contains(string(source), m[1]) {
				t.Errorf("example_test.go does not have these lines of the how-to:\n%s", m[1])
			}
		}
	}
	if shown == 0 {
		t.Error("the how-to shows no line of the example")
	}

	col, err := promholdfast.New()
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 100)
	col.Describe(descs)
	close(descs)
	listed := make(map[string]bool)
	reference, err := os.ReadFile("../../docs/reference/lock-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, _, found := strings.Cut(string(reference), "\n## The command\n") // which has metrics of its own
	if !found {
		t.Error("the reference has no section about the command")
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(holdfast_\\w+)`").FindAllStringSubmatch(ours, -1) {
		listed[m[1]] = true
	}
	named := regexp.MustCompile(`fqName: "(\w+)"`)
	for d := range descs {
		name := named.FindStringSubmatch(d.String())[1]
		if !listed[name] {
			t.Errorf("the reference does not list %s", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("the reference lists %s, which does not exist", name)
	}
}
