//go:build linux

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/interop/peers"
)

var writeShellLocks = flag.Bool("write-shell-locks", false, "write the table of docs/reference/shell-locks.md")

const (
	shellLocksPage = "../docs/reference/shell-locks.md"
	// The session timeouts of holdfast and etcdctl. A program that has not reacted within patience does not react.
	shellSession = 4 * time.Second
	patience     = 3 * shellSession
)

// A shellLock is a program that runs a command under a lock. A nil flag is one that the program does not have.
type shellLock struct {
	try, wait, shared []string
	separator         []string // before a command with flags
	argv              func(flags []string, lock string, command ...string) []string
	env               []string
	remove            func(lock string) []string // removes the lock under its holder
	waiting           []string                   // succeeds when somebody waits; nil: a signal ends the program at any time
	stop, resume      func() error               // of the server; nil: there is none
}

// shellLocks are the programs that are measured, each with a server of its own. dir is for files.
var shellLocks = []struct {
	name  string
	start func(t *testing.T, dir string) shellLock
}{
	{"holdfast run", func(t *testing.T, dir string) shellLock {
		server, err := peers.StartHoldfast(t.Context(), holdfastBin(t), filepath.Join(dir, "server"))
		closing(t, server, err)
		return shellLock{
			try: []string{"--try"}, wait: []string{"--wait", "1"}, shared: []string{"--shared"},
			argv: func(flags []string, lock string, command ...string) []string {
				return slices.Concat([]string{holdfastBin(t), "run", "--session-timeout", shellSession.String()}, flags, []string{lock}, command)
			},
			env: []string{"HOLDFAST_SERVER=" + server.URL(), "HOME=" + dir},
			remove: func(lock string) []string {
				return []string{"sh", "-c", `exec "$0" break --yes --token "$(cat token)" "$1"`, holdfastBin(t), lock}
			},
			waiting: []string{"sh", "-c", `"$0" ls --waiting -o name | grep -q .`, holdfastBin(t)},
			stop:    server.Stop, resume: server.Continue,
		}
	}},
	{"flock", func(t *testing.T, dir string) shellLock {
		return shellLock{
			try: []string{"-n"}, wait: []string{"-w", "1"}, shared: []string{"-s"},
			argv: func(flags []string, lock string, command ...string) []string {
				return slices.Concat([]string{"flock"}, flags, []string{filepath.Join(dir, lock)}, command)
			},
			remove: func(lock string) []string { return []string{"rm", filepath.Join(dir, lock)} },
		}
	}},
	{"setlock", func(t *testing.T, dir string) shellLock {
		need(t, peers.NeedCommand("setlock", "daemontools"))
		return shellLock{
			try: []string{"-n"},
			argv: func(flags []string, lock string, command ...string) []string {
				return slices.Concat([]string{"setlock"}, flags, []string{filepath.Join(dir, lock)}, command)
			},
			remove: func(lock string) []string { return []string{"rm", filepath.Join(dir, lock)} },
		}
	}},
	{"etcdctl lock", func(t *testing.T, dir string) shellLock {
		need(t, peers.NeedCommand("etcdctl", "etcd-client"))
		server, err := peers.StartEtcd(t.Context(), dir)
		closing(t, server, err)
		signal := func(s syscall.Signal) func() error { return func() error { return syscall.Kill(server.Pid(), s) } }
		return shellLock{
			argv: func(flags []string, lock string, command ...string) []string {
				return slices.Concat([]string{"etcdctl", "lock", fmt.Sprintf("--ttl=%d", shellSession/time.Second)}, flags, []string{lock}, command)
			},
			separator: []string{"--"},
			env:       []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + server.Addr()},
			remove:    func(lock string) []string { return []string{"etcdctl", "del", "--prefix", lock + "/"} },
			waiting:   []string{"sh", "-c", `test "$(etcdctl get --prefix --keys-only lock/ | grep -c .)" -ge 2`},
			stop:      signal(syscall.SIGSTOP), resume: signal(syscall.SIGCONT),
		}
	}},
}

const noOption = "no such option"

// shellBehaviours are the rows of the table. The last two columns are read from the documentation and source of consul
// lock and zk-flock, which Debian does not have.
var shellBehaviours = []struct {
	what            string
	probe           func(*shellProbe) string
	consul, zkflock string
}{
	{"The lock is busy, do not wait", func(p *shellProbe) string { return p.busy(p.tool.try) }, noOption, "exit 0"},
	{"The lock is busy, wait for a second", func(p *shellProbe) string { return p.busy(p.tool.wait) }, "exit 1", ""},
	{"Two readers at once", (*shellProbe).readers, noOption, noOption},
	{"The command exits with 7", func(p *shellProbe) string { return p.code(p.run(nil, "sh", "-c", "exit 7")) }, "exit 0; on request 2", "exit 0"},
	{"KILL ends the command", func(p *shellProbe) string { return p.code(p.run(nil, "sh", "-c", "kill -KILL $$")) }, "exit 0; on request 2", "exit 0"},
	{"The command does not exist", func(p *shellProbe) string { return p.code(p.run(nil, filepath.Join(p.dir, "none"))) }, "", ""},
	{"The command has flags, no `--` before it", (*shellProbe).flags, "", "one quoted argument"},
	{"Standard input", (*shellProbe).stdin, "closed; on request passed on", ""},
	{"The command is told a fencing token", (*shellProbe).token, "no", "no"},
	{"TERM reaches the program while it waits", (*shellProbe).termWaiting, "", ""},
	{"TERM reaches the program while the command runs", (*shellProbe).termRunning, "passed on to the shell", "the lock is released first"},
	{"KILL ends the program while the command runs", (*shellProbe).killed, "", ""},
	{"The command ends and leaves a process behind", (*shellProbe).leftover, "", ""},
	{"Somebody removes the lock (node, file, key)", (*shellProbe).removed, "", ""},
	{"The server stops answering", (*shellProbe).stalled, "the command is stopped, later than the lock", ""},
}

// TestShellLocks measures what holdfast run and others do, and compares it with docs/reference/shell-locks.md.
// With -write-shell-locks it writes the page.
func TestShellLocks(t *testing.T) {
	cells := make([][]string, len(shellBehaviours))
	var mu sync.Mutex // guards cells
	t.Run("cells", func(t *testing.T) {
		for i, row := range shellBehaviours {
			cells[i] = make([]string, len(shellLocks))
			for j, tool := range shellLocks {
				t.Run(strings.ReplaceAll(tool.name+"/"+row.what, " ", "_"), func(t *testing.T) {
					t.Parallel()
					text := row.probe(newShellProbe(t, tool.start))
					mu.Lock()
					defer mu.Unlock()
					cells[i][j] = text
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	var table strings.Builder
	table.WriteString("| |")
	for _, tool := range shellLocks {
		fmt.Fprintf(&table, " `%s` |", tool.name)
	}
	table.WriteString(" `consul lock` (read) | `zk-flock` (read) |\n" + strings.Repeat("|---", 3+len(shellLocks)) + "|\n")
	for i, row := range shellBehaviours {
		fmt.Fprintf(&table, "| %s |", row.what)
		for _, cell := range append(cells[i], row.consul, row.zkflock) {
			if cell == "" {
				cell = "–"
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteByte('\n')
	}
	if *writeShellLocks {
		must(t, replaceMeasured(shellLocksPage, "shell locks", table.String()))
		return
	}
	page, err := os.ReadFile(shellLocksPage)
	must(t, err)
	for line := range strings.Lines(table.String()) {
		if !strings.Contains(string(page), line) {
			t.Errorf("%s does not have the measured line\n%s", shellLocksPage, line)
		}
	}
}

// A shellProbe tries one behaviour of one program.
//
// The commands share the file guard. Each holds a flock of it for as long as it or a child of it lives, so a command
// knows by the kernel's word whether another still runs.
type shellProbe struct {
	t    *testing.T
	ctx  context.Context
	dir  string
	tool shellLock
}

func newShellProbe(t *testing.T, start func(*testing.T, string) shellLock) *shellProbe {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	t.Cleanup(cancel)
	dir := t.TempDir()
	return &shellProbe{t: t, ctx: ctx, dir: dir, tool: start(t, dir)}
}

// start starts the program with a command.
func (p *shellProbe) start(flags []string, command ...string) *peers.Process {
	p.t.Helper()
	argv := p.tool.argv(append(flags, p.tool.separator...), "lock", command...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), p.tool.env...)
	cmd.Dir = p.dir
	process, err := peers.Start(cmd)
	must(p.t, err)
	p.t.Cleanup(func() { _ = process.Kill() })
	return process
}

// run runs the program to its end.
func (p *shellProbe) run(flags []string, command ...string) *peers.Process {
	p.t.Helper()
	process := p.start(flags, command...)
	p.ended(process, stepTime)
	return process
}

// ended waits until the program has ended.
func (p *shellProbe) ended(process *peers.Process, within time.Duration) bool {
	p.t.Helper()
	select {
	case <-process.Done():
		return true
	case <-time.After(within):
		if within == stepTime {
			p.t.Fatal("the program does not end")
		}
		return false
	}
}

// code returns the exit code as a shell shows it.
func (p *shellProbe) code(process *peers.Process) string {
	var exit *exec.ExitError
	switch err := process.Err(); {
	case err == nil:
		return "exit 0"
	case errors.As(err, &exit):
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return fmt.Sprintf("exit %d", 128+status.Signal())
		}
		return fmt.Sprintf("exit %d", status.ExitStatus())
	default:
		p.t.Fatal(err)
		return ""
	}
}

// told returns the lines that the commands have written into the file out.
func (p *shellProbe) told() []string {
	text, err := os.ReadFile(filepath.Join(p.dir, "out"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// await returns the first of the lines that a command has written, or "".
func (p *shellProbe) await(within time.Duration, lines ...string) string {
	p.t.Helper()
	for giveUp := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		for _, line := range p.told() {
			if slices.Contains(lines, line) {
				return line
			}
		}
		if time.Now().After(giveUp) {
			if within == stepTime {
				p.t.Fatalf("the commands wrote %q; want one of %q", p.told(), lines)
			}
			return ""
		}
	}
}

// first starts the program with a command that runs until a signal ends it, and waits until it runs. On TERM, the
// command writes term and exits with 3.
func (p *shellProbe) first(flags ...string) *peers.Process {
	p.t.Helper()
	process := p.start(flags, "sh", "-c", `exec 9>guard; flock 9; echo $$ >pid; echo "$HOLDFAST_TOKEN" >token; trap 'echo term >>out; kill $!; exit 3' TERM; sleep 60 & echo first >>out; wait`)
	p.await(stepTime, "first")
	return process
}

// isCommand reports whether the program has become the command that first has started, as exec does.
func (p *shellProbe) isCommand(program *peers.Process) bool {
	pid, err := os.ReadFile(filepath.Join(p.dir, "pid"))
	must(p.t, err)
	return strings.TrimSpace(string(pid)) == strconv.Itoa(program.Pid())
}

// second starts the program with a command that writes alone or together: whether the first still runs.
func (p *shellProbe) second() *peers.Process {
	p.t.Helper()
	return p.start(nil, "sh", "-c", `exec 9>guard; if flock -n 9; then echo alone >>out; else echo together >>out; fi`)
}

// free reports whether no process of the first command lives.
func (p *shellProbe) free() bool {
	return p.do([]string{"flock", "-n", "guard", "true"}) == nil
}

// do runs a command of the test itself.
func (p *shellProbe) do(argv []string) error {
	cmd := exec.CommandContext(p.ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = append(os.Environ(), p.tool.env...), p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", argv, err, out)
	}
	return nil
}

func (p *shellProbe) busy(flags []string) string {
	if flags == nil {
		return noOption
	}
	p.first()
	return p.code(p.run(flags, "true"))
}

func (p *shellProbe) readers() string {
	if p.tool.shared == nil {
		return noOption
	}
	p.first(p.tool.shared...)
	if got := p.code(p.run(p.tool.shared, "true")); got != "exit 0" {
		return got
	}
	return "yes"
}

func (p *shellProbe) flags() string {
	p.tool.separator = nil
	code := p.code(p.run(nil, "sh", "-c", "echo ran >>out"))
	if len(p.told()) == 0 {
		return "refused, " + code
	}
	return "passed on"
}

func (p *shellProbe) stdin() string {
	argv := p.tool.argv(nil, "lock", "cat")
	cmd := exec.CommandContext(p.ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = append(os.Environ(), p.tool.env...), p.dir, strings.NewReader("input")
	out, err := cmd.Output()
	must(p.t, err)
	if !strings.Contains(string(out), "input") {
		return "empty"
	}
	return "passed on"
}

func (p *shellProbe) token() string {
	p.run(nil, "sh", "-c", "env >out")
	for _, line := range p.told() {
		if name, _, _ := strings.Cut(line, "="); name == "HOLDFAST_TOKEN" || name == "ETCD_LOCK_REV" {
			return "`" + name + "`"
		}
	}
	return "no"
}

func (p *shellProbe) termWaiting() string {
	p.first()
	waiter := p.second()
	for p.tool.waiting != nil && p.do(p.tool.waiting) != nil && p.ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	must(p.t, waiter.Signal(syscall.SIGTERM))
	if !p.ended(waiter, patience) {
		return "ignored"
	}
	return p.code(waiter)
}

func (p *shellProbe) termRunning() string {
	program := p.first()
	is := p.isCommand(program)
	must(p.t, program.Signal(syscall.SIGTERM))
	switch {
	case !p.ended(program, patience):
		return "ignored"
	case is:
		return "the program is the command, " + p.code(program)
	case slices.Contains(p.told(), "term"):
		return "passed on, " + p.code(program)
	case p.free():
		return "the command is killed, " + p.code(program)
	}
	return p.code(program) + ", the command runs on"
}

// next returns what becomes of the lock whose first command the test has left in an odd state.
func (p *shellProbe) next(stopped, kept string) string {
	p.t.Helper()
	p.second()
	switch p.await(patience, "alone", "together") {
	case "alone":
		return stopped
	case "together":
		return "**two run at once**"
	}
	if p.free() {
		p.t.Error("no command runs, and the next does not start")
	}
	return kept
}

func (p *shellProbe) killed() string {
	program := p.first()
	kept := "the command runs on and keeps the lock"
	if p.isCommand(program) {
		kept = "the program is the command: it is killed, and a process that it left keeps the lock"
	}
	must(p.t, program.Kill())
	return p.next("the command is killed", kept)
}

func (p *shellProbe) leftover() string {
	p.run(nil, "sh", "-c", `exec 9>guard; flock 9; sleep 60 </dev/null >/dev/null 2>&1 & echo first >>out`)
	p.await(stepTime, "first")
	return p.next("it is killed", "it keeps the lock")
}

func (p *shellProbe) removed() string {
	program := p.first()
	must(p.t, p.do(p.tool.remove("lock")))
	stopped := p.next("the command is stopped", "nothing happens")
	if stopped == "the command is stopped" {
		p.ended(program, stepTime)
		stopped += ", " + p.code(program)
	}
	return stopped
}

func (p *shellProbe) stalled() string {
	if p.tool.stop == nil {
		return "no server"
	}
	program := p.first()
	must(p.t, p.tool.stop())
	defer func() { must(p.t, p.tool.resume()) }()
	if !p.ended(program, patience) && !p.free() {
		return "**the command runs on**"
	}
	return "the command is stopped, " + p.code(program)
}
