package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// interactiveShells are shells with job control, and with the prompt "$ ".
var interactiveShells = map[string][]string{
	"bash": {"bash", "--norc", "--noprofile", "-i"},
	"dash": {"dash", "-i"},
}

// inShells runs f at the prompt of each shell, with holdfast and, for comparison, with what setlock does: it runs the
// command in its own process.
func inShells(t *testing.T, f func(t *testing.T, c *console, shell, run string)) {
	for name, shell := range interactiveShells {
		for _, run := range []string{"holdfast run job --", "env"} {
			t.Run(name+"/"+strings.Fields(run)[0], func(t *testing.T) {
				t.Parallel()
				// Nothing that is stopped by mistake continues by an alarm.
				f(t, startShellWithJob(t, shell, "HOLDFAST_SESSION_TIMEOUT=10m"), name, run)
			})
		}
	}
}

// startShellWithJob is startShell in a directory with the script job, which has a child. (A key that arrives while dash
// starts a child is lost, also without holdfast.)
func startShellWithJob(t *testing.T, shell []string, env ...string) *console {
	t.Helper()
	c := startShell(t, shell, env...)
	if err := os.WriteFile(filepath.Join(c.dir, "job"), []byte("#!/bin/sh\nsh -c 'echo ready; exec sleep 1000'\necho\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

// press presses a key that may end a script, and returns what the script shows next, or its exit code.
func (c *console) press(key string) string {
	c.t.Helper()
	before := c.seen
	c.keys(key)
	c.expect(`\$ `)
	if strings.Contains(c.out.String()[before:c.seen], "next") {
		return "next"
	}
	c.enter(`echo "rc""=$?"`)
	return c.expect(`rc=\d+`)
}

// ctrl-C ends the script or the loop around the command, too, as without holdfast.
func TestInterruptKeyEndsTheScript(t *testing.T) {
	t.Parallel()
	inShells(t, func(t *testing.T, c *console, shell, run string) {
		for _, script := range []string{"bash", "dash"} {
			c.enter(script + ` -c '` + run + ` ./job; echo ne""xt'`)
			c.expect("ready")
			if shown := c.press(ctrlC); shown != "rc=130" {
				t.Errorf("after ctrl-C, %s shows %q; want the code 130", script, shown)
			}
		}
		if shell == "bash" {
			c.enter(`for i in 1 2 3; do ` + run + ` ./job; echo "i""=$i"; done`)
			c.expect("ready")
			c.keys(ctrlC)
			c.enter(`echo pro""mpt`)
			if shown := c.expect(`i=\d|prompt`); shown != "prompt" {
				t.Errorf("after ctrl-C, the loop goes on: %q", shown)
			}
		}
	})
}

// So does ctrl-\ where the shell lets it: bash ignores that key.
func TestQuitKeyEndsTheScript(t *testing.T) {
	t.Parallel()
	inShells(t, func(t *testing.T, c *console, shell, run string) {
		for script, want := range map[string]string{"bash": "next", "dash": "rc=131"} {
			c.enter(script + ` -c '` + run + ` ./job; echo ne""xt'`)
			c.expect("ready")
			if shown := c.press("\x1c"); shown != want {
				t.Errorf("after ctrl-\\, %s shows %q; want %q", script, shown, want)
			}
		}
	})
}

// If the command handles the key and exits, bash goes on with the script. Others get the key as well, and end at once.
func TestInterruptKeyThatTheCommandHandlesIsForTheScript(t *testing.T) {
	t.Parallel()
	// bash ends at once if the key comes before it waits for the command.
	const awaitShell = "n=0; until grep -q wait /proc/${SHELL_PID:-$$}/wchan || test $((n=n+1)) = 20; do sleep 0.02; done\n"
	inShells(t, func(t *testing.T, c *console, shell, run string) {
		for name, script := range map[string]string{
			"handles": "#!/bin/sh\ntrap 'echo told; exit 4' INT\n" + awaitShell + "echo ready\nread line\n",
			"goes-on": "#!/bin/sh\ntrap 'echo told' INT\n" + awaitShell + "echo ready\nread line\necho \"got $line\"\nexit 5\n",
		} {
			if err := os.WriteFile(filepath.Join(c.dir, name), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c.enter(`bash -c 'export SHELL_PID=$$; ` + run + ` ./handles; echo rc""=$?; echo ne""xt'`)
		c.expect("ready")
		c.keys(ctrlC)
		c.expect(`told\s+rc=4\s+next`)
		for _, script := range []string{
			`dash -c '` + run + ` ./handles; echo ne""xt'`,
			`dash -c 'while :; do ` + run + ` ./handles; echo ne""xt; sleep 1; done'`,
			`python3 -c 'import subprocess; subprocess.run("` + run + ` ./handles".split()); print("ne" "xt")' 2>err`,
		} {
			c.enter(script)
			c.expect("ready")
			if shown := c.press(ctrlC); shown != "rc=130" {
				t.Errorf("after ctrl-C, %s shows %q; want the code 130", script, shown)
			}
		}
		// As with an editor or a shell. Each key is one signal, for the command and for the script.
		c.enter(`bash -c 'export SHELL_PID=$$; trap "echo script told" INT; ` + run + ` ./goes-on; echo rc""=$?; echo ne""xt'`)
		c.expect("ready")
		c.keys(ctrlC)
		c.expect(`told`)
		c.enter("")
		c.enter("typed")
		c.expect(`rc=5\s+next`)
	})
}

// The watchdog is in the command's process group while the command has the terminal. Signals to that group do it no harm.
func TestCommandSignalsItsGroupOnATerminal(t *testing.T) {
	t.Parallel()
	c := startShell(t, interactiveShells["bash"])
	for _, sig := range []string{"TERM", "INT", "QUIT", "HUP", "USR1", "ALRM", "VTALRM", "PROF", "IO", "PWR", "XCPU", "STKFLT", "RTMIN+3", "TSTP", "TTIN", "TTOU"} {
		// Handled by the command, which then goes on.
		c.enter(`holdfast run job -- bash -c 'trap "echo told" ` + sig + `; kill -` + sig + ` 0; sleep 0.1; exit 4'; echo "rc""=$?"`)
		c.expect(`told`)
		c.expect(`rc=4\s`)
	}
	c.enter(`holdfast run job -- sh -c 'setsid sleep 1000 & echo $! > pid; kill -KILL 0'; echo "rc""=$?"; test -e /proc/$(cat pid) && echo le""ft || echo go""ne`)
	c.expect(`rc=137\s`)
	c.expect(`gone`)
	// The watchdog is stopped, too, until its alarm rings.
	c.enter(`holdfast run job -- sh -c 'kill -STOP 0; echo went on; exit 4'`)
	c.expect(`Stopped`)
	c.enter(`fg; echo "rc""=$?"`)
	c.expect(`went on`)
	c.expect(`rc=4\s`)
	if strings.Contains(c.out.String(), "watchdog process does not") {
		t.Errorf("the terminal shows:\n%s", c.out.String())
	}
}

// ctrl-C ends the script around each subcommand that holds a lock, waits for one, or shows locks until the key is pressed.
func TestInterruptKeyEndsTheScriptAroundEachCommand(t *testing.T) {
	t.Parallel()
	c := startShellWithJob(t, interactiveShells["bash"])
	c.enter(`holdfast lock busy > held & while ! test -s held; do sleep 0.02; done; echo he""ld`)
	c.expect("held")
	for _, tt := range []struct{ command, shows string }{
		{`run busy -- true`, "waiting for busy"},
		{`elect busy -- true`, "waiting for busy"},
		{`lock busy`, "waiting for busy"},
		{`lock --detached busy`, "waiting for busy"},
		{`elect leader -- ./job`, "ready"},
		{`lock free`, "held free"},
		{`shard --count 1 all -- ./job`, "ready"},
		{`tf -- ./job`, "ready"},
		{`watch`, "holdfast: watching"},
		{`ls --watch`, "busy"},
		{`run --server zk://127.0.0.1:1 job -- true`, "refused"},
		{`watch --server zk://127.0.0.1:1`, "refused"},
		{`bench --server zk://127.0.0.1:1`, "refused"},
	} {
		for _, script := range []string{"bash", "dash"} {
			c.enter(script + ` -c 'holdfast ` + tt.command + `; echo ne""xt'`)
			c.expect(tt.shows)
			if shown := c.press(ctrlC); shown != "rc=130" {
				t.Errorf("%s: after ctrl-C, %s shows %q; want the code 130", tt.command, script, shown)
			}
		}
	}
	c.enter(`kill %1; wait; holdfast ls --no-headers; echo en""d`)
	c.expect("end")
}

// A key that the wrapped command has handled itself, a signal from elsewhere and another signal do not end the script.
func TestScriptGoesOnWithoutTheKey(t *testing.T) {
	t.Parallel()
	c := startShell(t, interactiveShells["bash"])
	for _, script := range []string{"bash", "dash"} {
		for command, code := range map[string]string{
			`kill -TERM \$\$`: "143", `kill -KILL \$\$`: "137", `exit 130`: "130", `trap : INT; kill -INT \$\$; exit 5`: "5",
			`kill -INT \${HOLDFAST_OWNER##*:}; exec sleep 1000`: "130", // to holdfast alone
		} {
			c.enter(script + ` -c 'holdfast run job -- sh -c "` + command + `"; echo rc""=$?'; echo "script""=$?"`)
			c.expect(`rc=` + code + `\s`)
			c.expect("script=0")
		}
	}
}

// A command that is killed does not leave the terminal without echo. bash restores the modes itself if the command died by
// the signal; dash does not.
func TestModesOfTheTerminalAreRestored(t *testing.T) {
	t.Parallel()
	for name, shell := range interactiveShells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startShellWithJob(t, shell)
			const modes = `stty -a | grep -q ' -echo ' && echo no""echo || echo ec""hoes`
			for _, end := range []string{ctrlC, "KILL", "lost"} {
				c.enter(`holdfast run job -- sh -c 'stty -echo -icanon; echo $$ > pid; echo $HOLDFAST_TOKEN > token; ./job'`)
				c.expect("ready")
				if end == ctrlC {
					c.keys(ctrlC)
				} else {
					command := "kill -KILL $(cat pid)"
					if end == "lost" {
						command = "holdfast break --yes --token $(cat token) job"
					}
					breaks := exec.Command("sh", "-c", command)
					breaks.Dir, breaks.Env = c.dir, c.env
					if out, err := breaks.CombinedOutput(); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				c.expect(`\$ `)
				c.enter(modes)
				if shown := c.expect(`noecho|echoes`); shown != "echoes" {
					t.Errorf("after %q: %s", end, shown)
				}
			}
			// A command that exits has meant it.
			c.enter(`holdfast run job -- stty -echo; ` + modes + `; stty echo`)
			c.expect("noecho")
		})
	}
}

// ctrl-Z is told to the shell as ctrl-Z.
func TestStopKeyIsToldToTheShell(t *testing.T) {
	t.Parallel()
	inShells(t, func(t *testing.T, c *console, shell, run string) {
		c.enter(run + ` ./job`)
		c.expect("ready")
		c.keys(ctrlZ)
		c.expect("Stopped")
		c.enter(`echo "rc""=$?"`)
		c.expect(`rc=148`)
		c.enter(`kill -KILL %1; wait; echo en""ded`)
		c.expect("ended")
	})
}

// A command in a substitution of an interactive shell can read the terminal, as without holdfast. bash makes it ignore
// the signal by which a process in the background asks for the terminal.
func TestCommandInASubstitutionReadsTheTerminal(t *testing.T) {
	t.Parallel()
	inShells(t, func(t *testing.T, c *console, shell, run string) {
		for name, script := range map[string]string{
			// With the modes of a prompt for a password. The second line tells that the modes are set.
			"ask": "#!/bin/sh\nold=$(stty -g < /dev/tty)\nstty -echo < /dev/tty\necho ready > /dev/tty\nread x < /dev/tty\nstty $old < /dev/tty\necho \"got $x $*\"\n",
		} {
			if err := os.WriteFile(filepath.Join(c.dir, name), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct{ substitution, want string }{
			{`$(` + run + ` ./ask)`, "got typed"},
			{`$(` + run + ` ./ask | cat)`, "got typed"},
			{`$(` + run + ` sh -c "echo rea\"\"dy > /dev/tty; read x < /dev/tty; echo got \$x")`, "got typed"},
			{`$(echo line | ` + run + ` sh -c "./ask; cat" | tr "\n" " ")`, "got typed  line"},
			{`$(` + run + ` echo line | ./ask $(cat))`, "got typed line"}, // the other end of a pipe, as with fzf
			{`$(` + run + ` sh -c "./ask; ./ask" | tr "\n" " ")`, "got typed  got typed"},
			{"`" + run + " ./ask`", "got typed"},
		} {
			c.enter(`v=` + tt.substitution + `; echo "v""=$v."`)
			for range strings.Count(tt.want, "typed") {
				c.expect("ready")
				c.enter("typed")
			}
			if got := c.expect(`v=[^\r\n]*|not found`); !strings.HasPrefix(got, "v="+tt.want) {
				t.Errorf("v=%s: %q; want %q", tt.substitution, got, tt.want)
			}
			c.enter(`stty -a | grep -q ' -echo ' && echo no""echo || echo ec""hoes`)
			if shown := c.expect(`noecho|echoes`); shown != "echoes" {
				t.Errorf("v=%s: then %s", tt.substitution, shown)
			}
		}
		// ctrl-C ends the substitution and the command line.
		for _, substitution := range []string{`$(` + run + ` ./job > /dev/tty)`, `$(` + run + ` ./ask)`} {
			c.enter(`v=` + substitution + `; echo ne""xt`)
			c.expect("ready")
			if shown := c.press(ctrlC); shown != "rc=130" {
				t.Errorf("v=%s: after ctrl-C: %q; want the code 130", substitution, shown)
			}
			c.enter("stty echo")
		}
	})
}
