package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// saysIgnored is a process that prints the signals that it ignores, and those that it does when it heeds signals.
const saysIgnored = "says what it ignores"

func sayIgnored() {
	fmt.Println(listIgnored())
	Heed()
	fmt.Println(listIgnored())
	os.Exit(0)
}

func listIgnored() string {
	var names []string
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if signal.Ignored(sig) {
			names = append(names, SignalName(sig))
		}
	}
	return strings.Join(names, " ")
}

// The signals that this process was started to ignore are known, though Go's runtime has changed what they do.
func TestSignalsIgnoredAtTheStartAreKnown(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "HUP", "INT QUIT", "HUP QUIT ABRT USR1 USR2 PIPE ALRM TERM XFSZ PWR 40 64"} {
		cmd := exec.Command("bash", "-c", `for sig in $1; do trap '' $sig; done; exec "$0"`, exe, want)
		cmd.Env = append(slices.Clone(os.Environ()), shapeVariable+"="+saysIgnored)
		out, err := cmd.CombinedOutput()
		if got, _, _ := strings.Cut(string(out), "\n"); err != nil || got != want {
			t.Errorf("of %q, these are known: %q, %v", want, got, err)
		} else if string(out) != want+"\n\n" {
			t.Errorf("a process that heeds signals goes on ignoring some: %q", out)
		}
	}
}

// The command ignores what the caller of this process ignores, and nothing else.
func TestCommandIgnoresWhatTheCallerIgnores(t *testing.T) {
	const ignored = `sh -c 'grep SigIgn /proc/$$/status'`
	for _, trap := range []string{"", "trap '' TERM; ", "trap '' HUP INT QUIT USR1 USR2 PIPE ALRM TERM XFSZ PWR TSTP TTIN TTOU; "} {
		want, err := exec.Command("bash", "-c", trap+"exec "+ignored).Output()
		if err != nil {
			t.Fatal(err)
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// As superviseMain, whose parent is a shell.
		cmd := exec.Command("bash", "-c", trap+`exec "$0" 1s `+ignored+` 3</dev/null 4>/dev/null`, exe)
		cmd.Env = append(slices.Clone(os.Environ()), superviseVariable+"=1", "GORACE=atexit_sleep_ms=0")
		cmd.Stderr = t.Output()
		if got, err := cmd.Output(); err != nil || string(got) != string(want) {
			t.Errorf("%q: the command has %q, %v; want %q", trap, got, err, want)
		}
	}
}
