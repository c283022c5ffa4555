package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// console is an interactive shell on a pseudo-terminal.
type console struct {
	t      *testing.T
	master *os.File
	out    lockedBuffer
	seen   int // how much of out has matched
	dir    string
	env    []string
}

// startConsole starts sh with job control, the prompt "$ " and its own store.
func startConsole(t *testing.T, env ...string) *console {
	t.Helper()
	return startShell(t, []string{"sh", "-i"}, env...)
}

// startShell starts a shell as startConsole does.
func startShell(t *testing.T, shell []string, env ...string) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	_ = raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PS1=$ ", "ENV=", "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	c := &console{t: t, master: master, dir: dir, env: cmd.Env}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&c.out, master) // ends with EIO when the shell and its children have ended
	}()
	t.Cleanup(func() {
		master.Close() // sends HUP to the shell and to the foreground
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-ended
		hangUp(cmd.Process.Pid)
		// A holdfast that is about to exit may still start another host.
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			killHosts(dir)
			if os.RemoveAll(dir) == nil {
				return
			}
		}
	})
	c.expect(`\$ `)
	return c
}

// hangUp ends the processes of a session whose terminal is gone. The kernel tells only those in the foreground.
func hangUp(session int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 3 && fields[3] == strconv.Itoa(session) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGHUP)
				_ = syscall.Kill(pid, syscall.SIGCONT) // it may be stopped
			}
		}
	}
}

// enter types text and the return key.
func (c *console) enter(text string) { c.keys(text + "\n") }

func (c *console) keys(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.master, text); err != nil {
		c.t.Fatal(err)
	}
}

// expect waits until the terminal shows re after the previous match.
func (c *console) expect(re string) string {
	c.t.Helper()
	compiled := regexp.MustCompile(re)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		shown := c.out.String()
		if m := compiled.FindStringIndex(shown[c.seen:]); m != nil {
			start := c.seen
			c.seen += m[1]
			return shown[start+m[0] : start+m[1]]
		}
	}
	c.t.Fatalf("the terminal does not show %q but:\n%s", re, strings.ReplaceAll(c.out.String()[c.seen:], "\r", ""))
	return ""
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func TestTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter(`holdfast run job -- sh -c 'echo rea""dy; read line; echo "got $line"; exit 4'; echo "rc=$?"`)
	c.expect("ready")
	c.enter("hello")
	c.expect("got hello")
	c.expect("rc=4")
	// The terminal belongs to the shell again.
	c.enter(`read back; echo "shell got $back"`)
	c.enter("more")
	c.expect("shell got more")
}

func TestCommandStartsInTheForeground(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	// The command's process group gets the terminal at its start, though the command does not use it: some
	// programs only look.
	c.enter(`holdfast run job -- sh -c 'until set -- $(cat /proc/$$/stat); test $5 = $8; do sleep 0.1; done; echo fore""ground'`)
	c.expect("foreground")
}

func TestInterruptKeyReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter(`holdfast run job -- sh -c 'trap "echo int; n=\$((n+1))" INT; echo rea""dy; read x; read x; echo "n=$n"; exit 4'; echo "rc=$?"`)
	c.expect("ready")
	c.keys(ctrlC)
	c.expect("int")
	c.enter("")
	c.enter("")
	c.enter("")
	c.expect(`n=1\s`)
	c.expect("rc=4")
	// exec: a key that arrives while dash starts something is lost on both. That is so without holdfast,
	// too.
	c.enter(`holdfast run job -- sh -c 'echo rea""dy; exec sleep 1000'`)
	c.expect("ready")
	if shown := c.press(ctrlC); shown != "rc=130" {
		t.Error(shown)
	}
}

func TestInterruptKeyEndsTheWait(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter(`holdfast lock job > held &`)
	c.enter(`while ! test -s held; do sleep 0.02; done; echo he""ld`)
	c.expect("held")
	c.enter(`holdfast run job -- touch ran`)
	c.expect("waiting for job")
	if shown := c.press(ctrlC); shown != "rc=130" {
		t.Error(shown)
	}
	c.enter(`kill %1; wait; ls`)
	c.expect(`held`)
}

// The end of the terminal ends a wait, with and without a server. The run leaves the queue first.
func TestHangUpEndsTheWait(t *testing.T) {
	t.Parallel()
	stop, url := startServer(t)
	defer stop()
	startHolder(t, url, "job")
	for _, tt := range []struct{ name, server, shows string }{
		{"in the queue", url, `waiting for job: held by`},
		{"without a server", "zk://127.0.0.1:1", `connecting for \d+s: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := startConsole(t, "HOLDFAST_SERVER="+tt.server, "TERM=xterm")
			status := filepath.Join(t.TempDir(), "s.json")
			c.enter(`holdfast run --status-file ` + status + ` job -- true`)
			c.expect(tt.shows)
			c.master.Close()
			var text []byte
			for end := time.Now().Add(patience); len(text) == 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the run goes on without its terminal")
				}
				text, _ = os.ReadFile(status)
			}
			if !strings.Contains(string(text), `"interrupted"`) || !strings.Contains(string(text), `"signal": 1,`) {
				t.Errorf("the status file is %s", text)
			}
			if tt.server == url {
				if out, err := exec.Command("holdfast", "status", "--server", url, "-o", "json", "job").CombinedOutput(); err != nil || !strings.Contains(string(out), `"waiters": []`) {
					t.Errorf("status: %v, %s", err, out)
				}
			}
		})
	}
}

// No process of a console outlives it, also not one in the background that waits for a server.
func TestNothingOutlivesAConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("console", func(t *testing.T) {
		c := startConsole(t, "HOLDFAST_SERVER=zk://127.0.0.1:1", "TERM=xterm")
		c.enter(`holdfast run --status-file ` + dir + `/s.json job -- true & echo $! > ` + dir + `/pid`)
		c.expect(`waiting for a server: `)
	})
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(filepath.Join(dir, "s.json")); strings.Contains(string(text), `"interrupted"`) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the run goes on without its terminal")
		}
	}
}

func TestStopKeyStopsAndFgContinues(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	// One process ignores ctrl-Z. It must not continue without its lock either.
	c.enter(`holdfast run job -- sh -c 'sh -c "trap \"\" TSTP; echo \$\$ > pid; exec sleep 1000" & while ! test -s pid; do sleep 0.02; done; echo rea""dy; read line; echo "got $line"; exit 4'; echo "rc=$?"`)
	c.expect("ready")
	c.keys(ctrlZ)
	c.expect(`Stopped`)
	c.enter(`cut -d " " -f 3 /proc/$(cat pid)/stat; echo shell is ba""ck`)
	c.expect(`T\s+shell is back`)
	c.enter(`fg; echo "rc=$?"`)
	c.expect(`fg`)
	c.enter("hello")
	c.expect("got hello")
	c.expect("rc=4")
}

func TestCommandStoppedForTooLongIsNotContinued(t *testing.T) {
	t.Parallel()
	// The test needs its own server: the server of file:// grants no session timeout so short.
	server, url := startServer(t)
	defer server()
	c := startConsole(t, "HOLDFAST_SERVER="+url, "HOLDFAST_SESSION_TIMEOUT=1s")
	c.enter(`holdfast run job -- sh -c 'echo rea""dy; read line; echo went""on'; echo "rc=$?"`)
	c.expect("ready")
	c.keys(ctrlZ)
	c.expect(`Stopped`)
	// The next one acquires the lock, as if the first had been killed.
	c.enter(`holdfast run job -- echo mi""ne`)
	// Its deadline woke the first one, which ended.
	const lost = "job: the lock was lost while the command ran"
	c.expect("(?s)mine.*" + lost + "|" + lost + ".*mine")
	// It says so before it exits, so the shell may still see a stopped job.
	c.enter(`while jobs > list; grep -q Stop list; do sleep 0.02; done; cat list`)
	c.expect(`Done\(79\)`)
	if strings.Contains(c.out.String(), "wenton") {
		t.Errorf("the command continued without the lock:\n%s", c.out.String())
	}
}

func TestPipelineKeepsTheTerminalOfItsOtherEnd(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	// As with a pager: the right end reads the terminal, the left one does not. If the key
	// killed it while it was exiting, the console would skip the command after ";".
	c.enter(`holdfast run job -- sh -c 'echo out; exec sleep 1000' | sh -c 'trap "" INT; read a; echo "$a rea""dy"; read b < /dev/tty; echo "key $b"'; echo "rc=$?"`)
	c.expect("out ready")
	c.enter("q")
	c.expect("key q")
	c.keys(ctrlC)
	c.expect("rc=")
}

func TestCommandInAPipelineGetsTheTerminalWhenItAsks(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	// ssh reads a password like this.
	c.enter(`holdfast run job -- sh -c 'echo pass""word? > /dev/tty; read x < /dev/tty; echo "got $x"' | cat; echo "rc=$?"`)
	c.expect("password")
	c.enter("secret")
	c.expect("got secret")
	c.expect("rc=0")
}

func TestStopKeyStopsAPipeline(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	// A shell that starts a process when the key arrives swallows the key (dash's vfork), even without
	// holdfast. So this shell only reads.
	c.enter(`mkfifo go; holdfast run job -- sh -c 'exec 3<>go; echo $$ > pid; echo rea""dy; read x <&3; echo went""on' | cat`)
	c.expect("ready")
	c.keys(ctrlZ)
	c.expect(`Stopped`)
	c.enter(`cut -d " " -f 3 /proc/$(cat pid)/stat; echo > go`)
	c.expect(`T\s`)
	c.enter("fg")
	c.expect("wenton")
}

func TestBackgroundJobLeavesTheTerminalAlone(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter(`holdfast run job -- sh -c 'sleep 0.1; echo > started; sleep 1000' &`)
	c.enter(`while ! test -s started; do sleep 0.02; done; read x; echo "shell got $x"`)
	c.enter("it")
	c.expect("shell got it")
	c.enter(`kill %1; wait %1; echo "rc=$?"`)
	c.expect("rc=143")
}

// startServer starts holdfast serve with short sessions, and with more flags.
func startServer(t *testing.T, flags ...string) (stop func(), url string) {
	t.Helper()
	cmd := exec.Command("holdfast", append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "served"), "--listen", "127.0.0.1:0", "--tick", "100ms"}, flags...)...)
	var out lockedBuffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	re := regexp.MustCompile(`listening tcp (\S+)\n(?s:.*)ready\n`)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := re.FindStringSubmatch(out.String()); m != nil {
			return stop, "zk://" + m[1]
		}
	}
	stop()
	t.Fatalf("serve is not ready: %s", out.String())
	return nil, ""
}
