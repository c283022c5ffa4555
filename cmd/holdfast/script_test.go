//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
)

// TestScripts runs testdata/script. Each script has its own file:// store in $WORK/store, whose host is
// killed at the end. The commands besides those of testscript are
//
//	exits CODE COMMAND…     run the command and compare its exit code
//	start NAME COMMAND…     run the command in the background
//	signal SIGNAL NAME      send a signal to NAME
//	finish NAME CODE        wait for the end of NAME and compare its exit code; stdout and stderr
//	                        then check its output
//	wait-line NAME TEXT     wait until a line of its output matches
//	wait-file FILE          wait until the file exists and is not empty
//	wait-held LOCK          wait until the lock is held
//	wait-free LOCK          wait until the lock is free
//	wait-queued LOCK N      wait until the lock has N waiters
//	wait-gone FILE          wait until the process with the id in the file has ended
//	use-server NAME [tls]   set HOLDFAST_SERVER to the TCP (or TLS) address that serve NAME printed
//	get NAME PATH [CODE]    print the answer of serve NAME on its --admin address, or of elect NAME on its
//	                        --http address; wait until the answer has the code
//	browse NAME PATH [CODE] open the address that ui NAME printed, and print the page at PATH; the code of the answer
//	                        is CODE or 200. Further calls are from the same browser
//	silent                  fail if the last command wrote to stderr. News of a server that takes more than a second to
//	                        answer is allowed, since a busy machine starts a host slowly
//	make-ca NAME            an authority: NAME.pem and NAME.key
//	make-cert CA NAME [expired]
//	                        a certificate for 127.0.0.1: NAME.pem and NAME.key
//
// The condition unshare holds if the machine allows new namespaces, and root if root runs the test.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			store := filepath.Join(env.WorkDir, "store")
			env.Setenv("HOLDFAST_SERVER", "file://"+store)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_STATE_HOME", "")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			running := &background{processes: map[string]*process{}}
			env.Values[backgroundKey{}] = running
			env.Defer(func() {
				running.killAll()
				killHosts(env.WorkDir)
			})
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if condition == "root" {
				return os.Geteuid() == 0, nil
			}
			if condition != "unshare" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			return exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").Run() == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       exits,
			"start":       start,
			"signal":      sendSignal,
			"finish":      finish,
			"wait-line":   waitLine,
			"wait-file":   waitFile,
			"browse":      browse,
			"wait-held":   func(ts *testscript.TestScript, _ bool, args []string) { waitState(ts, args[0], true, -1) },
			"wait-free":   func(ts *testscript.TestScript, _ bool, args []string) { waitState(ts, args[0], false, -1) },
			"wait-queued": waitQueued,
			"wait-gone":   waitGone,
			"use-server":  useServer,
			"get":         getAdmin,
			"silent":      silent,
			"make-ca":     makeAuthority,
			"make-cert":   makeCertificate,
		},
	})
}

// patience is how long a script waits for an event before it fails.
const patience = 30 * time.Second

type backgroundKey struct{}

type background struct {
	processes map[string]*process
}

type process struct {
	browser  *http.Client // of browse
	cmd      *exec.Cmd
	out, err lockedBuffer
	done     chan struct{}
}

// lockedBuffer is written by exec and read by the script.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (b *background) killAll() {
	for _, p := range b.processes {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// killHosts kills the detached hosts of the stores below dir.
func killHosts(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.Name() != "host.pid" {
			return nil
		}
		text, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			for !gone(pid) { // otherwise it would write into a directory that is being removed
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
}

// gone reports whether the process has ended. A zombie has ended.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && (rest[0] == 'Z' || rest[0] == 'X')
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return -1
	}
	return codeOf(exit.ProcessState)
}

// codeOf returns the exit code as a shell does, for the signals of the keys of a terminal. No other one may kill holdfast
// itself: -1.
func codeOf(state *os.ProcessState) int {
	if sig := state.Sys().(syscall.WaitStatus).Signal(); sig == syscall.SIGINT || sig == syscall.SIGQUIT {
		return term.ExitSignal + int(sig)
	}
	return state.ExitCode()
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if err := ts.Exec(args[1], args[2:]...); exitStatus(err) != want {
		ts.Fatalf("exit code %d (%v); want %d", exitStatus(err), err, want)
	}
}

func start(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value(backgroundKey{}).(*background)
	// Look it up as the script does: its PATH is the test binary's.
	file, err := exec.LookPath(args[1])
	ts.Check(err)
	p := &process{cmd: exec.Command(file, args[2:]...), done: make(chan struct{})}
	p.cmd.Args[0] = args[1]
	p.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "XDG_STATE_HOME", "HOLDFAST_SERVER", "HOLDFAST_NAMESPACE", "HOLDFAST_SESSION_TIMEOUT", "GOCOVERDIR", "GORACE"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	ts.Check(p.cmd.Start())
	if b.processes[args[0]] != nil {
		ts.Fatalf("%s was started before", args[0])
	}
	b.processes[args[0]] = p
	go func() {
		_ = p.cmd.Wait() // finish looks at its state
		close(p.done)
	}()
}

func named(ts *testscript.TestScript, name string) *process {
	p := ts.Value(backgroundKey{}).(*background).processes[name]
	if p == nil {
		ts.Fatalf("no process named %s was started", name)
	}
	return p
}

func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("no signal %s", args[0])
	}
	p := named(ts, args[1]).cmd.Process
	ts.Check(p.Signal(sig))
	if sig == syscall.SIGSTOP { // on a busy machine, its threads go on for a moment
		until(ts, args[1]+" is stopped", func() bool { return !runs(p.Pid) })
	}
}

// runs reports whether a thread of the process runs or sleeps, where /proc tells.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, _ := os.ReadFile(thread)
		if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok && !strings.ContainsRune("TtZX", rune(rest[0])) {
			return true
		}
	}
	return false
}

func finish(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s does not end; stdout:\n%s\nstderr:\n%s", args[0], p.out.String(), p.err.String())
	}
	fmt.Fprint(ts.Stdout(), p.out.String())
	fmt.Fprint(ts.Stderr(), p.err.String())
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	got := codeOf(p.cmd.ProcessState)
	if got != want {
		ts.Fatalf("%s: exit code %d (%v); want %d; stderr:\n%s", args[0], got, p.cmd.ProcessState, want, p.err.String())
	}
}

// until polls, since most events happen in other processes.
func until(ts *testscript.TestScript, what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func waitLine(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	re := regexp.MustCompile("(?m)" + args[1])
	defer func() {
		if !re.MatchString(p.out.String()) && !re.MatchString(p.err.String()) {
			ts.Logf("%s has printed\n%s\nand on stderr\n%s", args[0], p.out.String(), p.err.String())
		}
	}()
	until(ts, args[1], func() bool { return re.MatchString(p.out.String()) || re.MatchString(p.err.String()) })
}

func waitFile(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0], func() bool {
		info, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil && info.Size() > 0
	})
}

func waitState(ts *testscript.TestScript, lock string, held bool, waiters int) {
	until(ts, lock, func() bool {
		cmd := exec.Command("holdfast", "status", "-o", "json", lock)
		cmd.Env = append(os.Environ(), "HOLDFAST_SERVER="+ts.Getenv("HOLDFAST_SERVER"), "HOLDFAST_NAMESPACE="+ts.Getenv("HOLDFAST_NAMESPACE"))
		out, err := cmd.Output()
		if err != nil {
			return false // the server may be restarting
		}
		var d show.Document
		ts.Check(json.Unmarshal(out, &d))
		return (d.State == "held") == held && (waiters < 0 || len(d.Waiters) == waiters)
	})
}

func waitQueued(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	waitState(ts, args[0], true, n)
}

func waitGone(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	until(ts, fmt.Sprintf("the end of process %d", pid), func() bool { return gone(pid) })
}

func getAdmin(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	form := regexp.MustCompile(`(?m)^(?:listening admin |holdfast: answering at http://|holdfast: metrics at http://)(\S+?)(?:/metrics)?$`)
	var m []string
	until(ts, "the address for HTTP of "+args[0], func() bool {
		m = form.FindStringSubmatch(p.out.String() + p.err.String())
		return m != nil
	})
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	want := http.StatusOK
	if len(args) > 2 {
		var err error
		want, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	var body []byte
	until(ts, fmt.Sprintf("the code %d of GET %s", want, args[1]), func() bool {
		resp, err := client.Get("http://" + m[1] + args[1])
		ts.Check(err)
		defer resp.Body.Close()
		body, err = io.ReadAll(resp.Body)
		ts.Check(err)
		return resp.StatusCode == want
	})
	fmt.Fprintf(ts.Stdout(), "%s", body)
}

var slowServer = regexp.MustCompile(`(?m)^holdfast: (waiting for a server: .*: no answer yet|a server answers)\n`)

func silent(ts *testscript.TestScript, _ bool, _ []string) {
	if text := slowServer.ReplaceAllString(ts.ReadFile("stderr"), ""); text != "" {
		ts.Fatalf("stderr has\n%s", text)
	}
}

func browse(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	form := regexp.MustCompile(`(?m)^(http://\S+?/)\?t=\S+$`)
	until(ts, "the address of "+args[0], func() bool { return form.MatchString(p.out.String()) })
	m := form.FindStringSubmatch(p.out.String())
	if p.browser == nil {
		jar, err := cookiejar.New(nil)
		ts.Check(err)
		p.browser = &http.Client{Timeout: patience, Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := p.browser.Get(m[0])
		ts.Check(err)
		_ = resp.Body.Close()
	}
	want := http.StatusOK
	if len(args) > 2 {
		var err error
		want, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	resp, err := p.browser.Get(m[1] + strings.TrimPrefix(args[1], "/"))
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode != want {
		ts.Fatalf("GET %s: code %d; want %d\n%s", args[1], resp.StatusCode, want, body)
	}
	fmt.Fprintf(ts.Stdout(), "%s", body)
}

func useServer(ts *testscript.TestScript, _ bool, args []string) {
	protocol, scheme := "tcp", "zk://"
	if len(args) > 1 {
		protocol, scheme = "tls", "zks://"
	}
	re := regexp.MustCompile(`(?m)^listening ` + protocol + ` (\S+)$`)
	m := re.FindStringSubmatch(named(ts, args[0]).out.String())
	if m == nil {
		ts.Fatalf("%s has printed no %s address", args[0], protocol)
	}
	ts.Setenv("HOLDFAST_SERVER", scheme+m[1])
}
