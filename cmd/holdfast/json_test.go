package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/bench"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/doctor"
	"holdfast/internal/cli/graph"
	"holdfast/internal/cli/history"
	"holdfast/internal/cli/hold"
	"holdfast/internal/cli/hold/elect"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/sessions"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/version"
	"holdfast/internal/cli/watch"
	"holdfast/internal/deed"
	"holdfast/once"
	"holdfast/reserve"
)

// schemas are the sections of docs/reference/json.md, and the structs that they describe.
var schemas = map[string]any{
	"LockList": see.ListDocument{}, "Lock": show.Document{}, "Permits": show.Permits{}, "Holder": show.Holding{}, "Waiter": show.Waiting{},
	"Reservation": show.Reserved{}, "Run": show.Run{}, "LockEvent": watch.Event{}, "LockHistory": history.Document{}, "HistoryEvent": history.Event{}, "LockLogs": history.LogDocument{}, "LogEvent": history.LogEvent{},
	"SessionList": sessions.List{}, "Session": sessions.Document{}, "SessionPlace": sessions.Place{},
	"WaitGraph": graph.Document{}, "GraphOwner": graph.Owner{}, "GraphPlace": graph.Place{}, "Cycle": graph.Cycle{}, "Step": graph.Step{},
	"Diagnosis": doctor.Diagnosis{}, "Finding": doctor.Finding{}, "Config": conn.ConfigDocument{}, "ConfigFile": conn.FileDocument{}, "Setting": conn.SettingDocument{},
	"RunStatus": hold.RunStatus{}, "RunCommand": hold.CommandStatus{}, "Successor": hold.SuccessorStatus{}, "Leader": elect.LeaderDocument{},
	"Benchmark": bench.Document{}, "Percentiles": bench.Percentiles{},
	"Version": version.Document{}, "AuditLog": deed.Log{}, "AuditEntry": deed.Entry{}, "AuditPlace": deed.Place{}, "Message": term.MessageDocument{},
}

// typeName returns how the page calls a type.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t.Kind() == reflect.Slice:
		return "list of " + typeName(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of " + typeName(t.Elem())
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Uint64:
		return "integer"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	for name, v := range schemas {
		if reflect.TypeOf(v) == t {
			return name
		}
	}
	return t.String()
}

// docs/reference/json.md has every field of every document.
func TestEveryFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string][]string)
	for section := range strings.SplitSeq(string(page), "\n## ") {
		name, text, _ := strings.Cut(section, "\n")
		for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|").FindAllStringSubmatch(text, -1) {
			sections[name] = append(sections[name], fmt.Sprintf("%s: %s, always: %s", m[1], m[2], m[3]))
		}
	}
	for name, v := range schemas {
		var want []string
		for f := range fields(reflect.TypeOf(v)) {
			tag, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			always := "yes"
			if strings.Contains(rest, "omitempty") {
				always = "no"
			}
			want = append(want, fmt.Sprintf("%s: %s, always: %s", tag, typeName(f.Type), always))
		}
		if got := sections[name]; !slices.Equal(got, want) {
			t.Errorf("docs/reference/json.md, %s, has\n  %s\nand the struct has\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		delete(sections, name)
	}
	for name, rows := range sections {
		if len(rows) > 0 {
			t.Errorf("docs/reference/json.md describes %s, which does not exist", name)
		}
	}
	// Every kind that the command prints has a section.
	here, _ := filepath.Glob("*.go")
	below, _ := filepath.Glob("../../internal/cli/*/*.go")
	sources := append(here, below...)
	if len(below) == 0 {
		t.Fatal("no sources of internal/cli: the test looks in the wrong place")
	}
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\b(?:Kind:\s*|apiVersion, )"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			if schemas[m[1]] == nil && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s prints the kind %s: describe it in docs/reference/json.md, and add it to schemas and to TestDocumentsAreStable", name, m[1])
			}
		}
	}
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// The documents are those of the files in testdata/golden, and keep the contract. -write writes the files, and
// refuses to take a field away.
func TestDocumentsAreStable(t *testing.T) {
	for _, bad := range []string{
		`{"heldMs": 1}`, `{"held_ms": "1"}`, `{"p50_us": 1.5}`, `{"p50_us": null}`, `{"session": 17}`, `{"session": "17"}`, `{"sessions": ["17"]}`,
		`{"holder": {"token": 17}}`, `{"items": [{"at": "2026-11-20T09:30:00+01:00"}]}`, `{"since": 1795000000}`,
	} {
		if got := breaches(t, []byte(bad)); len(got) != 1 {
			t.Errorf("%s breaks the contract once, and these breaches were found: %q", bad, got)
		}
	}
	for name, v := range samples(t) {
		var got bytes.Buffer
		if err := term.JSON(&got, v); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "golden", name+".json")
		want, err := os.ReadFile(file)
		if *writeReference && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			for _, path := range jsonPaths(t, want) {
				if !slices.Contains(jsonPaths(t, got.Bytes()), path) {
					t.Fatalf("%s: %s is gone. Within %s, fields are only added", file, path, term.APIVersion)
				}
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			err = os.WriteFile(file, got.Bytes(), 0o666)
			want = got.Bytes()
		}
		if err != nil || got.String() != string(want) {
			t.Errorf("%s (%v) has\n%s\nand the command prints\n%s", file, err, want, got.String())
		}
		for _, breach := range breaches(t, got.Bytes()) {
			t.Errorf("%s: %s", name, breach)
		}
		// One line has the same.
		var one bytes.Buffer
		if err := term.JSONLine(&one, v); err != nil || strings.Count(one.String(), "\n") != 1 || !slices.Equal(jsonPaths(t, one.Bytes()), jsonPaths(t, got.Bytes())) {
			t.Errorf("%s in one line (%v):\n%s", name, err, one.String())
		}
	}
}

// breaches returns the names and values in a document that docs/reference/json.md rules out.
func breaches(t *testing.T, text []byte) (all []string) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		want := ""
		switch {
		case strings.HasSuffix(name, "_ms"), strings.HasSuffix(name, "_us"):
			want = `^[0-9]+$`
		case name == "session", name == "sessions":
			want = `^"(0x[0-9a-f]+)?"$` // empty for a detached lock
		case name == "token":
			want = `^"[0-9]+"$`
		case slices.Contains([]string{"as_of", "at", "ended_at", "expires", "held_since", "measured_from", "since", "time", "until"}, name):
			want = `^"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"$`
		}
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if name != "apiVersion" && !regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`).MatchString(name) {
					all = append(all, name+" is not in snake_case")
				}
				walk(name, value)
			}
		case []any:
			for _, value := range v {
				walk(name, value)
			}
		default:
			got, err := json.Marshal(v)
			if v == nil || err != nil || !regexp.MustCompile(want).Match(got) {
				all = append(all, fmt.Sprintf("%s is %s (%v); want %s, or no such field", name, got, err, want))
			}
		}
	}
	walk("", v)
	return all
}

// A field that is taken away is noticed.
func TestPathsOfADocument(t *testing.T) {
	got := jsonPaths(t, []byte(`{"a": 1, "b": {"c": "x"}, "d": [{"e": null}, {"f": true}]}`))
	if want := []string{"a number", "b.c string", "d[].e null", "d[].f boolean"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// jsonPaths returns the paths of all values, with their types.
func jsonPaths(t *testing.T, text []byte) []string {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]bool)
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				walk(strings.TrimPrefix(at+"."+name, "."), value)
			}
		case []any:
			for _, value := range v {
				walk(at+"[]", value)
			}
		case nil:
			paths[at+" null"] = true
		case string:
			paths[at+" string"] = true
		case bool:
			paths[at+" boolean"] = true
		default:
			paths[at+" number"] = true
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(paths))
}

// samples are documents with every field.
func samples(t *testing.T) map[string]any {
	t0 := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	now := t0.Add(90 * time.Second)
	g := &conn.Flags{Namespace: "/holdfast/locks"}
	held := see.Lock{Path: "/holdfast/locks/db/migrate", Queue: placed([]holdfast.Entry{
		{Path: "/holdfast/locks/db/migrate/_c_a-lock-0000000004", Held: true, Token: 9007199254740993, Session: 0x100200a0001, Since: t0, HeldSince: t0.Add(2 * time.Second), Owner: "ann@web1:100", Reason: "schema 42", Labels: map[string]string{"team": "data"}},
		{Path: "/holdfast/locks/db/migrate/_c_b-lock-0000000005", Token: 9007199254740995, Session: 0x100200a0002, Since: t0.Add(time.Minute), Owner: "bob@web2:7", Labels: map[string]string{"team": "web"}},
	})}
	pool := see.Lock{Path: "/holdfast/locks/pool", Permits: &see.Permits{InUse: 2, Limit: 3}, Queue: placed([]holdfast.Entry{
		{Name: "leases/_c_a-lease-0000000001", Held: true, Shared: true, Token: 21, Session: 0xa, Since: t0, Owner: "ann@web1:100"},
		{Name: "leases/_c_a-lease-0000000002", Held: true, Shared: true, Token: 22, Session: 0xb, Since: t0, Owner: "bob@web2:7"},
	})}
	free := see.Lock{Path: "/elsewhere/job"}
	detached := see.Lock{Path: "/holdfast/locks/deploy", Queue: placed([]holdfast.Entry{{
		Held: true, Token: 30, Since: t0, HeldSince: t0, Owner: "ann@web1:100", Reason: "window",
		Detached: true, ID: "JBSWY3DPEHPK3PXP", Expires: t0.Add(time.Hour),
	}})}
	reserved := show.Describe("report", "/holdfast/locks/report", nil, now)
	reserved.APIVersion, reserved.AsOf = term.APIVersion, see.AsOf(now)
	reserved.Reserve(&reserve.Reservation{Path: reserved.Path, Owner: "ann@web1:100", Token: 31, From: t0, Until: t0.Add(time.Hour)})
	reserved.LastRun = see.RunOf(&once.Result{Owner: "ann@web1:100", Token: 31, Began: t0, At: t0.Add(time.Minute)})
	l := see.Listing(g.LockName, []see.Lock{held, pool, free}, now)
	all := map[string]any{
		"LockList": l.Whole(),
		"Lock":     l.Line(held), "Lock-semaphore": l.Line(pool), "Lock-free": l.Line(free),
		"Lock-detached": l.Line(detached), "Lock-reserved": reserved,
		"LockHistory": history.Document{
			APIVersion: term.APIVersion, Kind: "LockHistory", Name: "db/migrate", Path: held.Path, Since: &t0, Joined: 12, Present: 2, AsOf: now,
			Events: []history.Event{
				{Type: "joined", At: t0, Owner: "ann@web1:100", Why: "schema 42", Session: "0x100200a0001", Token: "9007199254740993"},
				{Type: "acquired", At: t0, AtLeast: true, Owner: "ann@web1:100", Why: "schema 42", Session: "0x100200a0001", Token: "9007199254740993"},
				{Type: "break", At: t0.Add(-time.Hour), Owner: "cem@web3:1", Why: "stuck", Token: "3", By: "ops@web1:9", Outcome: "done"},
			},
		},
		"Version": version.Document{APIVersion: term.APIVersion, Kind: "Version", Version: "v0.1.0", Commit: "0123abc", Go: "go1.26.0", OS: "linux", Arch: "amd64"},
		"SessionList": sessions.List{APIVersion: term.APIVersion, Kind: "SessionList", AsOf: now, Items: []sessions.Document{{
			Kind: "Session", Session: "0x100200a0001", Owner: "ann@web1:100", Held: 1, Waiting: 1, Places: []sessions.Place{
				{Name: "db/migrate", Path: held.Path, State: "waiting", Token: "9007199254740993", Owner: "ann@web1:100", Why: "schema 42", Since: t0.Add(time.Minute)},
				{Name: "pool", Path: pool.Path, State: "held", Shared: true, Token: "22", Owner: "ann@web1:100", Since: t0},
			},
		}}},
		"Leader": elect.LeaderDocument{
			APIVersion: term.APIVersion, Kind: "Leader", Election: "scheduler", Name: "10.0.0.5:8080", Token: "42", Since: &t0, IsLeader: true, Connected: true, AsOfMS: new(int64(120)),
		},
		"Leader-unknown": elect.LeaderDocument{APIVersion: term.APIVersion, Kind: "Leader", Election: "scheduler"},
		"Diagnosis": doctor.Diagnosis{
			APIVersion: term.APIVersion, Kind: "Diagnosis", Server: "zk://zk1:2181,zk2:2181", Problems: 1, Warnings: 0, Reached: true, TookMS: 350, AsOf: now,
			Items: []doctor.Finding{
				{Check: "environment", State: "ok", Found: "the server is from --server"},
				{Check: "server", State: "problem", Found: "zk2:2181: connection refused", Hint: "start the server, or take it out of --server"},
			},
		},
		"Config": conn.ConfigDocument{
			APIVersion: term.APIVersion, Kind: "Config",
			Files: []conn.FileDocument{{Path: "/home/ann/.config/holdfast/config.yaml", Layer: conn.LayerUser, Found: true}, {Path: "/etc/holdfast/config.yaml", Layer: conn.LayerSystem}},
			Settings: []conn.SettingDocument{
				{Name: "server", Value: "zk://zk1:2181", Layer: conn.LayerProfile, Origin: "/home/ann/.config/holdfast/config.yaml:4 (profile laptop)"},
				{Name: "session-timeout", Value: "10s", Layer: "default", Origin: "default"},
			},
		},
		"AuditLog": deed.Log{APIVersion: term.APIVersion, Kind: "AuditLog", Items: []deed.Entry{
			deed.Entry{ID: "JBSWY3DPEHPK3PXP", At: t0, Action: "sessions end", Session: "0x100200a0001", By: "ops@web1:9", Reason: "host is gone", Outcome: "done"}.Of(held.Path, held.Queue[0].Entry),
		}},
		"Message": term.MessageDocument{Time: now, Level: "ERROR", Msg: "no server of zk://zk1:2181 answered", Hint: "start a server"},
	}
	// The packages of these compare the files with what they print.
	for _, name := range []string{"LockEvent-acquired", "LockEvent-released", "LockEvent-unknown", "LockEvent-gap"} {
		all[name] = golden[watch.Event](t, name)
	}
	all["WaitGraph"] = golden[graph.Document](t, "WaitGraph")
	maps.Copy(all, sampleRuns(t0))
	maps.Copy(all, sampleBenchmarks(t0))
	return all
}

// golden returns the document in a file of testdata/golden.
func golden[T any](t *testing.T, name string) (d T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sampleRuns are status files.
func sampleRuns(t0 time.Time) map[string]any {
	of := func(outcome string, code int, ended time.Time) hold.RunStatus {
		return hold.RunStatus{
			APIVersion: term.APIVersion, Kind: "RunStatus", Lock: "nightly", Path: "/holdfast/locks/nightly", Outcome: outcome, ExitCode: code, ExitedBy: "holdfast",
			Owner: "ann@web1:100", Why: "backup", Labels: map[string]string{"team": "data"}, WaitedMS: 1000, EndedAt: ended,
		}
	}
	held := func(outcome string, code int, command hold.CommandStatus) hold.RunStatus {
		s := of(outcome, code, t0.Add(62100*time.Millisecond))
		s.Ran, s.Command, s.Token, s.Session, s.WaitedMS, s.HeldMS = true, &command, "9007199254740993", "0x100200a0001", 2000, 60_000
		return s
	}
	exited, lost := held("exited", 3, hold.CommandStatus{ExitCode: new(3)}), held("lost", term.ExitLost, hold.CommandStatus{Signal: 15})
	exited.ExitedBy, lost.Error = "command", "nightly: the lock was lost while the command ran (it ended with code 143)"
	interrupted := of("interrupted", term.ExitSignal+2, t0.Add(time.Second))
	interrupted.Signal = 2
	return map[string]any{"RunStatus-exited": exited, "RunStatus-lost": lost, "RunStatus-interrupted": interrupted}
}

// sampleBenchmarks are the results of bench with cycles and without.
func sampleBenchmarks(t0 time.Time) map[string]any {
	times := func(p50, p90, p99, p999, last int64) bench.Percentiles {
		return bench.Percentiles{Samples: 1000, P50: &p50, P90: &p90, P99: &p99, P999: &p999, Max: &last}
	}
	d := bench.Document{
		APIVersion: term.APIVersion, Kind: "Benchmark", Server: "zk://zk1:2181", Mode: "mutex", Clients: 8, Locks: 2, HoldMS: 5, TookMS: 10_000,
		Cycles: 1234, PerSecond: 123.4, Wait: times(499_122, 901_775, 989_855, 998_244, 999_000), Handoff: times(499, 901, 991, 999, 999),
		Violations: 1, LostUpdates: 2, Refused: 3, Lost: 1, Errors: 2, FirstError: "connection loss", MeasuredFrom: t0,
	}
	none := bench.Document{
		APIVersion: term.APIVersion, Kind: "Benchmark", Server: "zk://zk1:2181", Mode: "mutex", Clients: 8, Locks: 2, HoldMS: 5, TookMS: 1000,
		Interrupted: true, MeasuredFrom: t0,
	}
	return map[string]any{"Benchmark": d, "Benchmark-none": none}
}
