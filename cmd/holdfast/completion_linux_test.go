package main

import (
	"strings"
	"testing"
)

const tab = "\t"

// evilLocks makes locks whose names a shell would execute, and two harmless ones. One is held.
const evilLocks = `for n in 1 2; do holdfast run 'evil/$(touch pwned)'$n true; holdfast run 'bad/` + "`touch pwned`" + `'$n true; done; holdfast run nightly true; holdfast lock db/migrate > held & while ! test -s held; do sleep 0.02; done; clear; echo rea""dy`

func TestCompletionInBash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	const library = "/usr/share/bash-completion/bash_completion"
	needPrograms(t, "bash", library)
	c := startShell(t, []string{"bash", "--norc", "--noprofile", "-i"}, "TERM=dumb", "PS1=$ ", "COLUMNS=200")
	c.enter(`source ` + library + `; source <(holdfast completion bash); bind 'set bell-style none'`)
	c.enter(evilLocks)
	c.expect(`\nready`)
	tryCompletion(c)
	// A second TAB lists what the first one leaves open, with the states.
	c.keys("holdfast status " + tab + tab)
	c.expect(`db/migrate +\(held by [^)]*\)`)
	c.expect(`nightly +\(free\)`)
	c.keys("d" + tab + "\n")
	c.expect(`db/migrate is held by`)
	// bash would insert what the names have in common, and evaluate it at the next TAB.
	c.keys("holdfast status evil/" + tab + tab + tab + "# \n")
	c.keys("holdfast status bad/" + tab + tab + tab + "# \n")
	c.enter(`ls -1; echo do""ne`)
	if shown := c.expect(`(?s).*\ndone`); strings.Contains(shown, "\npwned") {
		t.Errorf("a lock's name was executed:\n%s", shown)
	}
}

func TestCompletionInZsh(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	needPrograms(t, "zsh")
	c := startShell(t, []string{"zsh", "-f", "-i"}, "TERM=dumb", "PS1=$ ", "COLUMNS=200")
	c.enter(`autoload -U compinit; compinit -D; source <(holdfast completion zsh); unsetopt beep; setopt no_list_ambiguous; echo lo""aded`)
	c.expect(`\nloaded`)
	c.enter(evilLocks)
	c.expect(`\nready`)
	tryCompletion(c)
	c.keys("holdfast status " + tab)
	c.expect(`db/migrate +-- held by `)
	c.expect(`nightly +-- free`)
	c.keys("d" + tab + "\n")
	c.expect(`db/migrate is held by`)
	c.enter(`ls -1; echo do""ne`)
	if shown := c.expect(`(?s).*\ndone`); strings.Contains(shown, "\npwned") {
		t.Errorf("a lock's name was executed:\n%s", shown)
	}
}

// tryCompletion completes a command, a flag, a value and a name.
func tryCompletion(c *console) {
	c.t.Helper()
	c.keys("holdfast sta" + tab + "ni" + tab + "\n")
	c.expect(`nightly is free`)
	c.keys("holdfast ls --lay" + tab + "kaz" + tab + "db/; echo l=$?\n")
	c.expect(`\nl=0`)
	c.keys("holdfast status /holdfast/locks/ni" + tab + "\n")
	c.expect(`/holdfast/locks/nightly is free`)
	c.keys("holdfast help exit" + tab + "\n")
	c.expect(`did my command run`)
}

// fish answers what it would offer.
func TestCompletionInFish(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	needPrograms(t, "fish")
	c := startConsole(t, "TERM=dumb")
	c.enter(evilLocks)
	c.expect(`\nready`)
	c.enter(`HOME=$PWD fish --no-config -c 'holdfast completion fish | source; complete -C "holdfast status "; complete -C "holdfast run --layout ka"; complete -C "holdfast he"'; ls -1; echo do""ne`)
	shown := strings.ReplaceAll(c.expect(`(?s).*\ndone`), "\r", "")
	// The prompt of the shell may stand before the first line.
	for _, want := range []string{"db/migrate\theld by ", "\nnightly\tfree\n", "\nkazoo\n", "\nhelp\t"} {
		if !strings.Contains(shown, want) {
			t.Errorf("fish does not offer %q", want)
		}
	}
	if strings.Contains(shown, "\npwned") || t.Failed() {
		t.Errorf("it shows\n%s", shown)
	}
}
