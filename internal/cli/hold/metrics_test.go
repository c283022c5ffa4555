package hold

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// ownMetrics are those that promholdfast does not have: they tell about one run of the command.
var ownMetrics = []string{
	"holdfast_run_start_timestamp_seconds", "holdfast_run_wait_seconds", "holdfast_run_end_timestamp_seconds",
	"holdfast_run_hold_seconds", "holdfast_run_exit_code", "holdfast_run_lost", "holdfast_run_outcome",
}

// allPages are all metrics of the command.
func allPages() string {
	m := newMetrics(nil)
	m.Expect("/l")
	status := RunStatus{Path: "/l", Outcome: outcomeExited}
	return string(m.page()) + string(heldMetrics("/l", time.Now(), time.Now())) + string(endedMetrics(&status, time.Now()))
}

// One dashboard fits both: the command has the names, kinds and help texts of promholdfast, or its own.
func TestMetricsOfTheCommandAreThoseOfPrograms(t *testing.T) {
	var source strings.Builder
	for _, file := range []string{"collector.go", "trace.go"} {
		b, err := os.ReadFile("../../../contrib/promholdfast/" + file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	kinds := make(map[string]string)
	for line := range strings.Lines(allPages()) {
		f := strings.Fields(line)
		switch {
		case f[0] == "#" && f[1] == "TYPE":
			kinds[f[2]] = f[3]
		case f[0] == "#" && !slices.Contains(ownMetrics, f[2]):
			help := strings.TrimSpace(strings.TrimPrefix(line, "# HELP "+f[2]))
			if !strings.Contains(source.String(), fmt.Sprintf("%q, Help: %q", f[2], help)) && !strings.Contains(source.String(), fmt.Sprintf("%q, %q", f[2], help)) {
				t.Errorf("promholdfast has no %s with the help %q", f[2], help)
			}
		}
	}
	for name := range kinds {
		if !slices.Contains(ownMetrics, name) && !strings.Contains(source.String(), `"`+name+`"`) {
			t.Errorf("%s is neither promholdfast's nor listed as our own", name)
		}
	}
	for _, name := range ownMetrics {
		if strings.Contains(source.String(), name) || kinds[name] != "gauge" {
			t.Errorf("%s is promholdfast's, or no gauge (%q)", name, kinds[name])
		}
	}
	page, err := os.ReadFile("../../../docs/reference/lock-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range kinds {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/lock-metrics.md does not mention %s", name)
		}
	}
}

// The values are those of what has happened.
func TestMetricsCountWhatHappens(t *testing.T) {
	for name, tt := range map[string]struct {
		story func(t *testing.T, srv *zktest.Server, m *holdfast.Mutex)
		want  []string
	}{
		"held": {func(t *testing.T, _ *zktest.Server, m *holdfast.Mutex) { mustLock(t, m); time.Sleep(time.Minute) },
			[]string{`holdfast_held{lock="/l"} 1`, `holdfast_hold_seconds_count{lock="/l"} 0`, `holdfast_wait_seconds_count{lock="/l",result="acquired"} 1`}},
		"released": {func(t *testing.T, _ *zktest.Server, m *holdfast.Mutex) {
			h := mustLock(t, m)
			time.Sleep(time.Minute)
			h.Unlock()
		}, []string{
			`holdfast_held{lock="/l"} 0`, `holdfast_hold_seconds_count{lock="/l"} 1`, `holdfast_hold_seconds_sum{lock="/l"} 60`,
			`holdfast_hold_seconds_bucket{lock="/l",le="30"} 0`, `holdfast_hold_seconds_bucket{lock="/l",le="60"} 1`, `holdfast_hold_seconds_bucket{lock="/l",le="+Inf"} 1`,
		}},
		"held for long": {func(t *testing.T, _ *zktest.Server, m *holdfast.Mutex) {
			h := mustLock(t, m)
			time.Sleep(3 * time.Hour)
			h.Unlock()
		}, []string{`holdfast_hold_seconds_bucket{lock="/l",le="7200"} 0`, `holdfast_hold_seconds_bucket{lock="/l",le="+Inf"} 1`}},
		"lost": {func(t *testing.T, srv *zktest.Server, m *holdfast.Mutex) {
			h := mustLock(t, m)
			srv.Expire(h.SessionID())
			<-h.Lost()
			synctest.Wait()
			h.Unlock()
		}, []string{`holdfast_lost_total{lock="/l",reason="session_expired"} 1`, `holdfast_held{lock="/l"} 0`, `holdfast_hold_seconds_count{lock="/l"} 1`}},
		"busy": {func(t *testing.T, srv *zktest.Server, m *holdfast.Mutex) {
			mustLock(t, holdfast.NewMutex(srv.Client(), "/l"))
			if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errWaitOver)
			defer cancel()
			if _, err := m.Lock(ctx); err == nil {
				t.Error("acquired")
			}
		}, []string{`holdfast_acquire_total{lock="/l",result="locked"} 1`, `holdfast_acquire_total{lock="/l",result="timeout"} 1`, `holdfast_waiters{lock="/l"} 0`, `holdfast_held{lock="/l"} 0`}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, err := zk.Dial(t.Context(), srv.Config())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				m := newMetrics(nil)
				tt.story(t, srv, holdfast.NewMutex(c, "/l", m.Observed()))
				synctest.Wait()
				page := string(m.page())
				for _, line := range tt.want {
					if !strings.Contains(page, line+"\n") {
						t.Errorf("no line %s in\n%s", line, regexp.MustCompile("(?m)^#.*\n").ReplaceAllString(page, ""))
					}
				}
			})
		})
	}
}

func mustLock(t *testing.T, m *holdfast.Mutex) *holdfast.Hold {
	t.Helper()
	h, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A reader never sees a part of the file.
func TestMetricsFileIsReplacedAtOnce(t *testing.T) {
	f := metricsFile{path: t.TempDir() + "/job.prom"}
	texts := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<16)}
	if err := f.write([]byte(texts[0])); err != nil {
		t.Fatal(err)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 100 {
			if err := f.write([]byte(texts[i%2])); err != nil {
				t.Error(err)
			}
		}
	})
	for range 1000 {
		b, err := os.ReadFile(f.path)
		if err != nil || !slices.Contains(texts, string(b)) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	writer.Wait()
}

// The metrics have no login, so nothing but this machine can read them.
func TestMetricsAreForThisMachineAlone(t *testing.T) {
	for _, tt := range []struct {
		addr string
		ok   bool
	}{
		{"0", true}, {":0", true}, {"127.0.0.1:0", true}, {"localhost:0", true}, {"127.0.0.2:0", true},
		{"0.0.0.0:0", false}, {"[::]:0", false}, {"192.0.2.1:0", false}, {"localhost.example.org:0", false}, {"127.0.0.1.example.org:0", false}, {"", false},
	} {
		var f MetricsFlag
		cmd := &cobra.Command{Use: "lock"}
		f.Register(cmd)
		if err := cmd.Flags().Set("metrics", tt.addr); err != nil {
			t.Fatal(err)
		}
		m, err := f.Open(cmd, nil)
		if (err == nil) != tt.ok {
			t.Errorf("--metrics %q: %v", tt.addr, err)
		}
		m.Close()
	}
	m := newMetrics(nil)
	for host, want := range map[string]int{"127.0.0.1:9464": 200, "localhost": 200, "evil.example": 403} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		m.handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("a request for %s: %d; want %d", host, w.Code, want)
		}
	}
}

// node_exporter can be another user, and reads the result of a run long after it.
func TestMetricsFileOfARun(t *testing.T) {
	f := metricsFile{path: t.TempDir() + "/job.prom"}
	began := time.Now()
	if err := f.held("/l", began, began.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := f.ended(&RunStatus{Path: "/l", Outcome: outcomeLost, HeldMS: 1500, ExitCode: 79, EndedAt: began}, began); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v; want mode 0644", info.Mode(), err)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`holdfast_held{lock="/l"} 0`, `holdfast_run_lost{lock="/l"} 1`, `holdfast_run_hold_seconds{lock="/l"} 1.5`, `holdfast_run_exit_code{lock="/l"} 79`,
		`holdfast_run_outcome{lock="/l",outcome="lost"} 1`, `holdfast_run_outcome{lock="/l",outcome="exited"} 0`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}
