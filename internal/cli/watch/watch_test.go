package watch

import (
	"holdfast/internal/cli/conn"
	"holdfast/internal/lockwatch"
	"os"
	"strings"
	"testing"
	"time"
)

// An owner of another library can be longer than an environment variable may be. The command of watch --exec runs all
// the same.
func TestLongOwnersAreCutForTheCommand(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\x00", 1<<20), strings.Repeat("é", 1<<20)} {
		if got := forVariable(s); len(got) > 65<<10 || strings.Contains(got, "\x00") {
			t.Errorf("%d bytes for a variable", len(got))
		}
	}
	if got := forVariable("ann@host:7"); got != "ann@host:7" {
		t.Errorf("got %q", got)
	}
}

// An event is printed as docs/reference/json.md has it.
func TestDocumentsOfEvents(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 31, 30, 0, time.UTC)
	const path = "/holdfast/locks/db/migrate"
	node := path + "/_c_a-lock-0000000004"
	known := lockwatch.Event{
		At: now, Lock: path, Node: node, Known: true, Owner: "ann@web1:100", Reason: "schema 42",
		Session: 0x100200a0001, Token: 9007199254740993, Took: 1500 * time.Millisecond, Waiters: 1,
	}
	for _, tt := range []struct {
		name string
		what lockwatch.Type
		e    lockwatch.Event
	}{
		{"acquired", lockwatch.Acquired, known},
		{"released", lockwatch.Released, known},
		{"unknown", lockwatch.Left, lockwatch.Event{At: now, Lock: path, Node: node}},
		{"gap", lockwatch.Gap, lockwatch.Event{At: now, Lock: path, Why: "clients came and went meanwhile"}},
	} {
		want, err := os.ReadFile("../../../cmd/holdfast/testdata/golden/LockEvent-" + tt.name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		w := &eventWriter{Flags: &conn.Flags{Namespace: "/holdfast/locks"}, out: &got, format: "json"}
		tt.e.Type = tt.what
		if err := w.print(w.document(tt.e)); err != nil || got.String() != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got.String(), want)
		}
	}
}
