package see

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/proc"
)

// processOf returns the process with the id, as nodes have it.
func processOf(t *testing.T, pid int) []byte {
	t.Helper()
	g, err := proc.Self()
	if err == nil {
		g, err = g.With(pid)
	}
	if err != nil {
		t.Skip(err)
	}
	g.IDs = g.IDs[1:]
	return g.Append(nil)
}

// The tables of ls, status and top say whose process is gone, and of nobody else.
func TestTablesSayWhoseProcessIsGone(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dies := processOf(t, cmd.Process.Pid)
	self, err := proc.Self()
	if err != nil {
		t.Skip(err)
	}
	place := func(owner string, process []byte, held bool, token int64) locks.Place {
		return locks.Place{Entry: holdfast.Entry{Owner: owner, Held: held, Token: token, Since: time.Now()}, Process: process}
	}
	lives := self.Append(nil)
	one := Lock{Path: "/one", Queue: []locks.Place{place("ann", dies, true, 1), place("bob", lives, false, 2), place("cid", dies, false, 3), place("dan", nil, false, 4)}}
	many := Lock{Path: "/many", Permits: &Permits{3, 3}, Queue: []locks.Place{
		place("eve", lives, true, 5), place("fay", dies, true, 6), place("fay", dies, true, 6), place("gil", nil, true, 7),
	}}
	tables := func() string {
		var b strings.Builder
		listing := Listing(func(path string) string { return path }, []Lock{one, many}, time.Now())
		grid := listing.Grid(false)
		if err := grid.Print(&b); err != nil {
			t.Fatal(err)
		}
		for _, l := range []Lock{one, many} {
			if err := l.Print(&b, &term.Printer{Format: "table"}, l.Path, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	if text := tables(); strings.Contains(text, "gone") {
		t.Errorf("a process that lives is gone:\n%s", text)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	text := tables()
	for want, n := range map[string]int{
		"ann, process gone": 2, "cid, process gone": 1, "eve +2, process gone: 1": 1, "fay, process gone": 2, "process gone": 7,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q is there %d times; want %d:\n%s", want, got, n, text)
		}
	}
}
