package top

import (
	"os/exec"
	"strings"
	"testing"

	"holdfast/internal/proc"
)

// The table of locks and the queue of the selected one say that a process is gone.
func TestTopSaysThatAProcessIsGone(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g, err := proc.Self()
	if err == nil {
		g, err = g.With(cmd.Process.Pid)
	}
	if err != nil {
		t.Skip(err)
	}
	g.IDs = g.IDs[1:]
	l := topLock("/l/a", 10, "ann", "bob")
	l.Queue[0].Process = g.Append(nil)
	m, _ := newTestTop(100, 20)
	m.give(l)
	if screen := m.drawn(); strings.Contains(screen, "gone") {
		t.Errorf("the process lives:\n%s", screen)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	m.mustShow(t, "> a", "── a is held by ann for 1m, process gone", "holder    ann, process gone  ") // without another reading
	if screen := m.drawn(); strings.Contains(screen, "bob, process gone") {
		t.Errorf("nothing is known of bob:\n%s", screen)
	}
}
