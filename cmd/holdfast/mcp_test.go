//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/cli/term"
)

// A scriptedAgent is a process of holdfast mcp with a client that sends what the test says.
type scriptedAgent struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	pipe    io.Closer // of out
	out     *bufio.Reader
	id      int
	answers map[int]json.RawMessage // to requests that nobody has asked about yet
	stray   []string                // notifications that came before an answer
}

// agentStore returns the environment of agents of one store.
func agentStore(t *testing.T) []string {
	dir := t.TempDir()
	t.Cleanup(func() { killHosts(dir) })
	return append(os.Environ(), "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"), "HOME="+dir, "XDG_STATE_HOME=")
}

func startAgent(t *testing.T, env []string, dir string, args ...string) *scriptedAgent {
	t.Helper()
	a := &scriptedAgent{t: t, answers: make(map[int]json.RawMessage), cmd: exec.Command("holdfast", append([]string{"mcp"}, args...)...)}
	a.cmd.Env, a.cmd.Dir, a.cmd.Stderr = env, dir, t.Output()
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.in, a.pipe, a.out = in, out, bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	})
	a.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`)
	a.hear(0)
	a.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

func (a *scriptedAgent) say(line string) {
	a.t.Helper()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		a.t.Fatal(err)
	}
}

// soon kills the server if the caller has not called done for patience.
func (a *scriptedAgent) soon() (done func() bool) {
	return time.AfterFunc(patience, func() { _ = a.cmd.Process.Kill() }).Stop
}

// hear returns the answer to a request, and collects the notifications before it. Answers come in any order.
func (a *scriptedAgent) hear(id int) (result json.RawMessage) {
	a.t.Helper()
	defer a.soon()()
	for {
		if result, ok := a.answers[id]; ok {
			return result
		}
		line, err := a.out.ReadString('\n')
		if err != nil {
			a.t.Fatalf("no answer to %d: %v", id, err)
		}
		var m struct {
			ID            *int
			Method        string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			a.t.Fatalf("%v in %s", err, line)
		}
		switch {
		case m.Method != "":
			a.stray = append(a.stray, line)
		case m.ID == nil || m.Error != nil:
			a.t.Fatalf("%s; want the result of %d", line, id)
		default:
			a.answers[*m.ID] = m.Result
		}
	}
}

// ask sends a call and does not wait for the answer.
func (a *scriptedAgent) ask(tool, arguments string) (id int) {
	a.t.Helper()
	a.id++
	a.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%[1]d}}}`, a.id, tool, arguments))
	return a.id
}

func (a *scriptedAgent) answer(id int) string {
	a.t.Helper()
	var r struct {
		Content           []struct{ Text string }
		StructuredContent struct{ Text string }
		IsError           bool
	}
	if err := json.Unmarshal(a.hear(id), &r); err != nil || len(r.Content) != 1 {
		a.t.Fatalf("%v, %+v", err, r)
	}
	if r.IsError {
		return "error: " + r.Content[0].Text
	}
	if r.StructuredContent.Text != r.Content[0].Text { // some clients show the model nothing else
		a.t.Errorf("the data have the text %q; want %q", r.StructuredContent.Text, r.Content[0].Text)
	}
	return r.Content[0].Text
}

func (a *scriptedAgent) call(tool, arguments string) string {
	a.t.Helper()
	return a.answer(a.ask(tool, arguments))
}

func (a *scriptedAgent) want(begin, tool, arguments string) string {
	a.t.Helper()
	got := a.call(tool, arguments)
	if !strings.HasPrefix(got, begin) {
		a.t.Errorf("%s %s: %q; want %q…", tool, arguments, got, begin)
	}
	return got
}

// awaitProgress waits until a call that waits has told how it gets on, which is after it has joined the queue.
func (a *scriptedAgent) awaitProgress() string {
	a.t.Helper()
	defer a.soon()()
	for {
		line, err := a.out.ReadString('\n')
		if err != nil {
			a.t.Fatal(err)
		}
		if strings.Contains(line, "held by") {
			return line
		}
	}
}

// holdfastOutput runs a command of holdfast and returns its output and exit code.
func holdfastOutput(env []string, args ...string) (string, int) {
	cmd := exec.Command("holdfast", args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	return string(out), exitStatus(err)
}

func TestAgentsAndCommandsShareALock(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	first, second := startAgent(t, env, t.TempDir(), "--who", "first"), startAgent(t, env, t.TempDir())
	first.want("HELD: lock db, id 1, fencing token ", "acquire", `{"lock":"db","why":"schema 9"}`)
	first.want("NOT HELD: you hold db already, as id 1", "acquire", `{"lock":"db","wait_seconds":3600}`) // at once
	second.want(`NOT HELD: db: held by first ("schema 9") for `, "acquire", `{"lock":"db","wait_seconds":0}`)
	if out, code := holdfastOutput(env, "run", "--try", "db", "--", "true"); code != term.ExitBusy {
		t.Errorf("run --try: %d, %s", code, out)
	}
	waiting := second.ask("acquire", `{"lock":"db","wait_seconds":60}`)
	if got := second.awaitProgress(); !strings.Contains(got, `waiting for db, held by first (\"schema 9\") for `) || !strings.Contains(got, `"progressToken":2`) {
		t.Errorf("progress %s", got)
	}
	first.want("db: held by first", "list", `{}`)
	first.want("Released db (id 1).", "release", `{"id":"1"}`)
	if got := second.answer(waiting); !strings.HasPrefix(got, "HELD: lock db, id 1") {
		t.Error(got)
	}
	first.want("Id 1 is not held any more.", "release", `{"id":"1"}`)
	first.want("You hold nothing.", "release", `{"id":"all"}`)
	second.want("HELD: lock r, id 2", "acquire", `{"lock":"r","shared":true}`)
	first.want("HELD: lock r, id 2", "acquire", `{"lock":"r","shared":true}`)
	second.want("Released db (id 1).\nReleased r (id 2).", "release", `{"id":"all"}`)
	if out, code := holdfastOutput(env, "run", "--try", "db", "--", "true"); code != 0 {
		t.Errorf("run --try after the release: %d, %s", code, out)
	}
}

// list and blockers know the locks of all libraries, and locks in a tree by the names that were typed.
func TestAgentsSeeLocksOfAllLayouts(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	a := startAgent(t, env, t.TempDir())
	for _, args := range [][]string{{"--layout", "kazoo", "kaz"}, {"--tree", "repo/src"}, {"--of", "2", "sem"}, {"--node", "one"}} {
		held := filepath.Join(t.TempDir(), "held")
		cmd := exec.Command("holdfast", append(append([]string{"run", "--who", "bob"}, args...), "--", "sh", "-c", `touch "$0"; exec sleep 60`, held)...)
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		})
		for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(held); err == nil {
				break
			} else if time.Now().After(until) {
				t.Fatalf("%v is not held", args)
			}
		}
	}
	list := "\n" + a.call("list", `{}`)
	for _, want := range []string{"\nkaz: held by bob for ", "\nrepo/src: held by bob for ", "\nsem: held by bob for ", "; 1 of 2 permits in use", "\none: held by bob for "} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in %s", want, list)
		}
	}
	if got := a.call("blockers", `{"lock":"kaz"}`); !strings.HasPrefix(got, "bob 0x") || !strings.HasSuffix(got, " holds kaz") {
		t.Errorf("blockers: %s", got)
	}
	if got := a.call("acquire", `{"lock":"kaz","wait_seconds":0}`); !strings.HasPrefix(got, "error: kaz: ") {
		t.Errorf("acquire: %s", got)
	}
	a.want("repo/src: held by bob", "list", `{"prefix":"repo/"}`)
}

func TestLeasesExcludeWhatIsAboveAndBelow(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "src"), 0o755), os.Symlink("src", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	first, second := startAgent(t, env, dir), startAgent(t, env, dir)
	first.want("HELD: lease files/", "lease", `{"path":"src/a","why":"parser"}`)
	for path, free := range map[string]bool{
		"src/a": false, "src/a/deep/file.go": false, "src": false, ".": false, "/": false, "link/a": false, "src/../src/a": false,
		"src/ab": true, "src/b": true, "doc": true, filepath.Join(dir, "src"): false,
	} {
		arguments, _ := json.Marshal(map[string]any{"path": path, "wait_seconds": 0})
		got := second.call("lease", string(arguments))
		if strings.HasPrefix(got, "HELD") != free || !free && !strings.HasPrefix(got, "NOT HELD: files") {
			t.Errorf("%s: %s; free: %v", path, got, free)
		}
		second.call("release", `{"id":"all"}`)
	}
	first.want("NOT HELD: you hold files/", "lease", `{"path":"src/a/b"}`)
	first.want("NOT HELD: you hold files/", "lease", `{"path":"src"}`)
	first.want("HELD: lock src/a", "acquire", `{"lock":"src/a"}`) // another name
	first.want("error: path is empty", "lease", `{"path":""}`)

	// A lease of which only the first part is held is no holder in the list.
	waiting := second.ask("lease", `{"path":"src/a/b","wait_seconds":60}`)
	second.awaitProgress()
	list := first.call("list", `{"prefix":"files/"}`)
	for line := range strings.Lines(list) {
		if strings.Contains(line, "src/a/b") == strings.Contains(line, "held by") {
			t.Errorf("list says %s", list)
		}
	}
	first.call("release", `{"id":"all"}`)
	if got := second.answer(waiting); !strings.HasPrefix(got, "HELD") {
		t.Error(got)
	}
	first.want("files/", "list", `{"prefix":"files"}`)
	first.want("Nobody holds anything or waits.", "list", `{"prefix":"filesystem"}`)
}

// Agents with copies of a repository share its paths with --tree.
func TestLeasesOfATreeCountFromTheRepository(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	var agents []*scriptedAgent
	for range 2 {
		dir := t.TempDir()
		below := filepath.Join(dir, "below")
		if err := errors.Join(os.Mkdir(filepath.Join(dir, ".git"), 0o755), os.Mkdir(below, 0o755)); err != nil {
			t.Fatal(err)
		}
		agents = append(agents, startAgent(t, env, below, "--tree", "shop"))
	}
	agents[0].want("HELD: lease shop/src/a, id 1", "lease", `{"path":"src/a"}`)
	agents[1].want("NOT HELD: shop", "lease", `{"path":"src","wait_seconds":0}`)
	agents[1].want("HELD: lease shop/doc, id 1", "lease", `{"path":"doc"}`)
	agents[1].want("Released shop/doc", "release", `{"id":"1"}`)
	agents[1].want("NOT HELD: shop", "lease", `{"path":".","wait_seconds":0}`)
	if got := agents[0].call("lease", `{"path":"../x"}`); !strings.HasPrefix(got, "error: ../x is not below ") {
		t.Error(got)
	}
	if got := agents[0].call("lease", `{"path":"/etc/passwd"}`); !strings.HasPrefix(got, "error: /etc/passwd is not below ") {
		t.Error(got)
	}
}

// However an agent ends, its locks are free: after kill -9 when its session ends.
func TestAnAgentThatEndsReleasesItsLocks(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*scriptedAgent) int{
		"the client ends": func(a *scriptedAgent) int { a.in.Close(); return exitStatus(a.cmd.Wait()) },
		"the client ends and reads no answer": func(a *scriptedAgent) int {
			a.pipe.Close()
			a.say(`{"jsonrpc":"2.0","id":99,"method":"ping"}`)
			a.in.Close()
			return exitStatus(a.cmd.Wait())
		},
		"TERM": func(a *scriptedAgent) int { a.cmd.Process.Signal(syscall.SIGTERM); return exitStatus(a.cmd.Wait()) },
		"INT":  func(a *scriptedAgent) int { a.cmd.Process.Signal(syscall.SIGINT); return exitStatus(a.cmd.Wait()) },
		// The terminal of the agent is gone.
		"HUP":     func(a *scriptedAgent) int { a.cmd.Process.Signal(syscall.SIGHUP); return exitStatus(a.cmd.Wait()) },
		"QUIT":    func(a *scriptedAgent) int { a.cmd.Process.Signal(syscall.SIGQUIT); return exitStatus(a.cmd.Wait()) },
		"USR1":    func(a *scriptedAgent) int { a.cmd.Process.Signal(syscall.SIGUSR1); return exitStatus(a.cmd.Wait()) },
		"kill -9": func(a *scriptedAgent) int { a.cmd.Process.Kill(); a.cmd.Wait(); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := "60s"
			if name == "kill -9" {
				timeout = "4s"
			}
			env := append(agentStore(t), "HOLDFAST_SESSION_TIMEOUT="+timeout)
			first, second := startAgent(t, env, t.TempDir()), startAgent(t, env, t.TempDir())
			first.want("HELD", "acquire", `{"lock":"db"}`)
			first.want("HELD", "lease", `{"path":"/a"}`)
			second.want("HELD", "acquire", `{"lock":"theirs"}`)
			first.ask("acquire", `{"lock":"theirs","wait_seconds":60}`)
			first.awaitProgress() // so there is an answer to come
			lock, lease := second.ask("acquire", `{"lock":"db","wait_seconds":60}`), 0
			second.awaitProgress()
			if code := end(first); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if got := second.answer(lock); !strings.HasPrefix(got, "HELD: lock db") {
				t.Error(got)
			}
			lease = second.ask("lease", `{"path":"/","wait_seconds":60}`)
			if got := second.answer(lease); !strings.HasPrefix(got, "HELD: lease files") {
				t.Error(got)
			}
		})
	}
}

func TestAnAgentIsToldOfALossAndOfARequest(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	a := startAgent(t, env, t.TempDir())
	token := func(answer string) string {
		_, token, _ := strings.Cut(answer, "fencing token ")
		token, _, _ = strings.Cut(token, ".")
		return token
	}
	db := token(a.want("HELD", "acquire", `{"lock":"db"}`))
	web := token(a.want("HELD", "acquire", `{"lock":"web"}`))
	if out, code := holdfastOutput(env, "revoke", "web", "--yes", "--token", web); code != 0 {
		t.Fatalf("revoke: %d, %s", code, out)
	}
	if got := a.awaitLog(); !strings.Contains(got, `"level":"warning"`) || !strings.Contains(got, "ASKED FOR: somebody asks for web (id 2)") {
		t.Error(got)
	}
	a.want("ASKED FOR: somebody asks for web (id 2). Release it as soon as you can.\n", "list", `{}`)
	if out, code := holdfastOutput(env, "break", "db", "--yes", "--token", db); code != 0 {
		t.Fatalf("break: %d, %s", code, out)
	}
	if got := a.awaitLog(); !strings.Contains(got, `"level":"error"`) {
		t.Error(got)
	}
	a.want("error: LOST: db (id 1) is no longer held, and another may hold it now: ", "acquire", `{}`) // an error has the news, too
	if got := a.want("web: held by", "list", `{}`); strings.Contains(got, "db: held") || strings.Contains(got, "LOST") {
		t.Error(got)
	}
	a.want("Id 1 is not held any more.", "release", `{"id":"1"}`)
}

func (a *scriptedAgent) awaitLog() string {
	a.t.Helper()
	defer a.soon()()
	for {
		line, err := a.out.ReadString('\n')
		if err != nil {
			a.t.Fatal(err)
		}
		if strings.Contains(line, "notifications/message") {
			return line
		}
	}
}

func TestBlockersFollowTheChain(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	dir := t.TempDir()
	first, second, third := startAgent(t, env, dir, "--who", "first"), startAgent(t, env, dir, "--who", "second"), startAgent(t, env, dir, "--who", "third")
	third.want("a is free.", "blockers", `{"lock":"a"}`)
	first.want("HELD", "acquire", `{"lock":"a"}`)
	second.want("HELD", "acquire", `{"lock":"b"}`)
	first.ask("acquire", `{"lock":"b","wait_seconds":60}`)
	first.awaitProgress()
	got := third.call("blockers", `{"lock":"a"}`)
	lines := strings.Split(got, "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "first 0x") || !strings.HasSuffix(lines[0], " holds a") ||
		!strings.HasPrefix(lines[1], "first 0x") || !strings.Contains(lines[1], " waits for b, held by second 0x") {
		t.Errorf("%q", got)
	}
	if got := second.call("blockers", `{"lock":"a"}`); !strings.Contains(got, " waits for b, held by you\nDEADLOCK if you wait") {
		t.Errorf("%q", got)
	}

	third.want("HELD", "lease", `{"path":"src/a"}`)
	if got := second.call("blockers", `{"path":"src"}`); !strings.HasPrefix(got, "third 0x") || !strings.HasSuffix(got, "/src") {
		t.Errorf("%q", got)
	}
	if got := third.call("blockers", `{"path":"src/a"}`); !strings.HasSuffix(got, "/src/a is held (you, id 1).") {
		t.Errorf("%q", got)
	}
	if got := second.call("blockers", `{"path":"src/a/b"}`); !strings.HasPrefix(got, "third 0x") {
		t.Errorf("%q", got)
	}
	second.want("files", "blockers", `{"path":"doc"}`)
	second.want("error: give lock or path", "blockers", `{}`)
	second.want("error: give lock or path", "blockers", `{"lock":"a","path":"a"}`)
}

// A client that has cancelled a call does not know that it holds the lock, so it does not hold it.
func TestACancelledAcquireHoldsNothing(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	first, second := startAgent(t, env, t.TempDir()), startAgent(t, env, t.TempDir())
	first.want("HELD", "acquire", `{"lock":"db"}`)
	id := second.ask("acquire", `{"lock":"db","wait_seconds":60}`)
	second.awaitProgress()
	second.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	second.want("db: held by", "list", `{}`)
	first.want("Released", "release", `{"id":"all"}`)
	first.want("HELD: lock db, id 2", "acquire", `{"lock":"db","wait_seconds":60}`)
	second.want("error: no id \"1\": you hold nothing", "release", `{"id":"1"}`)
}

// Two calls for one lock, as sub-agents make them, wait in one session. One acquires the lock, the other is told so.
func TestTwoCallsOfAnAgentForOneLock(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	other, a := startAgent(t, env, t.TempDir()), startAgent(t, env, t.TempDir())
	other.want("HELD", "acquire", `{"lock":"db"}`)
	long := a.ask("acquire", `{"lock":"db","wait_seconds":60}`)
	a.awaitProgress()
	short := a.ask("acquire", `{"lock":"db","wait_seconds":4}`) // behind the other call
	other.want("Released", "release", `{"id":"all"}`)
	if got := a.answer(long); !strings.HasPrefix(got, "HELD: lock db, id 1") {
		t.Error(got)
	}
	if got := a.answer(short); !strings.HasPrefix(got, "NOT HELD: you hold db already, as id 1") {
		t.Error(got)
	}
}

func TestAgentsGetClearErrors(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	a := startAgent(t, env, t.TempDir())
	a.want("error: the lock's name is empty", "acquire", `{}`)
	a.want("error: lock name \"a//b\"", "acquire", `{"lock":"a//b"}`)
	a.want("error: wait_seconds is -1", "acquire", `{"lock":"a","wait_seconds":-1}`)
	a.want("error: wait_seconds is 3601", "lease", `{"path":"a","wait_seconds":3601}`)
	a.want("error: arguments: unknown field", "release", `{"lock":"a"}`)
	a.want("HELD", "acquire", `{"lock":"a"}`)
	a.want("error: no id \"7\": you hold 1 (a)", "release", `{"id":"7"}`)
	a.want("error: arguments: cannot unmarshal", "list", `{"prefix":1}`)
	for _, args := range [][]string{{"--tree", "a/b"}, {"--tree", "lock-0000000001"}, {"extra"}, {"--who", strings.Repeat("x", 300)}} {
		if out, code := holdfastOutput(env, append([]string{"mcp"}, args...)...); code != term.ExitUsage {
			t.Errorf("%v: %d, %s", args, code, out)
		}
	}
	unreachable := startAgent(t, append(env, "HOLDFAST_SERVER=zk://127.0.0.1:1", "HOLDFAST_SESSION_TIMEOUT=1s"), t.TempDir())
	unreachable.want("error: cannot reach zk://127.0.0.1:1", "acquire", `{"lock":"a"}`)
}

// An agent in a deadlock is told whom it waits for, and what to release first. With --on-deadlock fail, the youngest call
// gives up, and the other agent gets its lock.
func TestAnAgentInADeadlockIsTold(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	first, second := startAgent(t, env, t.TempDir(), "--who", "first", "--on-deadlock", "fail"), startAgent(t, env, t.TempDir(), "--who", "second", "--on-deadlock", "fail")
	third, fourth := startAgent(t, env, t.TempDir(), "--who", "third"), startAgent(t, env, t.TempDir(), "--who", "fourth")
	for _, pair := range []struct {
		older, younger *scriptedAgent
		fail           bool
	}{{first, second, true}, {third, fourth, false}} {
		pair.older.want("HELD", "lease", `{"path":"/a"}`)
		pair.younger.want("HELD", "acquire", `{"lock":"b"}`)
		older := pair.older.ask("acquire", `{"lock":"b","wait_seconds":60}`)
		pair.older.awaitProgress()
		got := pair.younger.call("lease", `{"path":"/a/c","wait_seconds":5}`)
		if !strings.HasPrefix(got, "NOT HELD: ") || !strings.Contains(got, "DEADLOCK: you wait for files/a, ") || !strings.Contains(got, "Release id 1 (b) first: ") || strings.Contains(got, "timed out") == pair.fail {
			t.Errorf("%q", got)
		}
		pair.younger.want("Released", "release", `{"id":"1"}`)
		if got := pair.older.answer(older); !strings.HasPrefix(got, "HELD: lock b") {
			t.Error(got)
		}
		pair.older.want("Released", "release", `{"id":"all"}`)
	}
}
