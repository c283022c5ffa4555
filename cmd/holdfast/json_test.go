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
	"holdfast/internal/lockwatch"
)

// schemas are the sections of docs/reference/json.md, and the structs that they describe.
var schemas = map[string]any{
	"LockList": lockList{}, "Lock": lockDocument{}, "Permits": permitsDocument{}, "Holder": holderDocument{}, "Waiter": waiterDocument{},
	"LockEvent": eventDocument{}, "LockHistory": historyDocument{}, "HistoryEvent": historyEvent{}, "Version": versionDocument{},
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
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "integer"
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
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bKind:\s*"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
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

// The documents are those of the files in testdata/golden. -write writes the files, and refuses to take a field
// away.
func TestDocumentsAreStable(t *testing.T) {
	for name, v := range samples() {
		var got bytes.Buffer
		if err := document(&got, v); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "golden", name+".json")
		want, err := os.ReadFile(file)
		if *writeReference && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			for _, path := range jsonPaths(t, want) {
				if !slices.Contains(jsonPaths(t, got.Bytes()), path) {
					t.Fatalf("%s: %s is gone. Within %s, fields are only added", file, path, apiVersion)
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
		// One line has the same.
		var one bytes.Buffer
		if err := line(&one, v); err != nil || strings.Count(one.String(), "\n") != 1 || !slices.Equal(jsonPaths(t, one.Bytes()), jsonPaths(t, got.Bytes())) {
			t.Errorf("%s in one line (%v):\n%s", name, err, one.String())
		}
	}
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
func samples() map[string]any {
	t0 := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	now := t0.Add(90 * time.Second)
	g := &globals{namespace: "/holdfast/locks"}
	held := located{path: "/holdfast/locks/db/migrate", queue: []holdfast.Entry{
		{Path: "/holdfast/locks/db/migrate/_c_a-lock-0000000004", Held: true, Token: 9007199254740993, Session: 0x100200a0001, Since: t0, HeldSince: t0.Add(2 * time.Second), Owner: "ann@web1:100", Reason: "schema 42"},
		{Path: "/holdfast/locks/db/migrate/_c_b-lock-0000000005", Token: 9007199254740995, Session: 0x100200a0002, Since: t0.Add(time.Minute), Owner: "bob@web2:7"},
	}}
	pool := located{path: "/holdfast/locks/pool", permits: &permits{2, 3}, queue: []holdfast.Entry{
		{Name: "leases/_c_a-lease-0000000001", Held: true, Shared: true, Token: 21, Session: 0xa, Since: t0, Owner: "ann@web1:100"},
		{Name: "leases/_c_a-lease-0000000002", Held: true, Shared: true, Token: 22, Session: 0xb, Since: t0, Owner: "bob@web2:7"},
	}}
	free := located{path: "/elsewhere/job"}
	l := g.listing([]located{held, pool, free}, now)
	w := &eventWriter{globals: g}
	event := lockwatch.Event{
		At: now, Lock: held.path, Node: held.queue[0].Path, Known: true, Owner: "ann@web1:100", Reason: "schema 42",
		Session: 0x100200a0001, Token: 9007199254740993, Took: 1500 * time.Millisecond, Waiters: 1,
	}
	typed := func(e lockwatch.Event, t lockwatch.Type) any {
		e.Type = t
		return w.document(e)
	}
	return map[string]any{
		"LockList": l.whole(),
		"Lock":     l.line(held), "Lock-semaphore": l.line(pool), "Lock-free": l.line(free),
		"LockEvent-acquired": typed(event, lockwatch.Acquired), "LockEvent-released": typed(event, lockwatch.Released),
		"LockEvent-unknown": typed(lockwatch.Event{At: now, Lock: held.path, Node: held.queue[0].Path}, lockwatch.Left),
		"LockEvent-gap":     typed(lockwatch.Event{At: now, Lock: held.path, Why: "clients came and went meanwhile"}, lockwatch.Gap),
		"LockHistory": historyDocument{
			APIVersion: apiVersion, Kind: "LockHistory", Name: "db/migrate", Path: held.path, Since: &t0, Joined: 12, Present: 2, AsOf: now,
			Events: []historyEvent{
				{Type: "joined", At: t0, Owner: "ann@web1:100", Why: "schema 42", Session: "0x100200a0001", Token: "9007199254740993"},
				{Type: "acquired", At: t0, AtLeast: true, Owner: "ann@web1:100", Why: "schema 42", Session: "0x100200a0001", Token: "9007199254740993"},
				{Type: "break", At: t0.Add(-time.Hour), Owner: "cem@web3:1", Why: "stuck", Token: "3", By: "ops@web1:9", Outcome: "done"},
			},
		},
		"Version": versionDocument{APIVersion: apiVersion, Kind: "Version", Version: "v0.1.0", Commit: "0123abc", Go: "go1.26.0", OS: "linux", Arch: "amd64"},
	}
}
