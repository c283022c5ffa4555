//go:build unix

package repotest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pages are the documents whose commands run in the tests.
var pages = []string{
	"docs/tutorial.md",
	"docs/howto/cron.md",
	"docs/howto/once.md",
	"docs/howto/schedulers.md",
	"docs/howto/stopping.md",
	"docs/howto/leader.md",
	"docs/howto/devices.md",
	"docs/howto/ui.md",
	"docs/howto/fencing.md",
	"docs/howto/moving.md",
	"docs/howto/tls.md",
	"docs/howto/terraform.md",
	"docs/howto/migrations.md",
	"docs/howto/certificates.md",
	"docs/howto/agents.md",
	"docs/reference/run.md",
	"docs/howto/ci.md",
	"docs/howto/metrics.md",
}

// patience is how long the output of a command may take before its page fails.
const patience = 60 * time.Second

// The blocks of a page run in their order, in one shell, as a newcomer types them:
//
//   - console: each line after "$ " is a command. The lines below it are its output, in which …
//     stands for any text.
//   - sh: a script that must succeed.
//   - crontab: each line is a command that must succeed, or sets a variable for those below it.
//   - go with a package clause: the file main.go, in the working directory.
//
// zk1:2181,zk2:2181,zk3:2181 is a server that the test starts, and 127.0.0.1:2181 and :2281 are free ports.
func TestPagesWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tool := range []string{"goose", "migrate", "atlas"} { // the pages run them under a lock
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The same for psql, whose pg_sleep a page kills. interop runs that page with PostgreSQL.
	psql := "#!/bin/sh\ncase $3 in 'SELECT pg_sleep'*) exec sleep 600;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "psql"), []byte(psql), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			runPage(t, page, bin)
		})
	}
}

func runPage(t *testing.T, page, bin string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"sqlite3", "flock", "openssl", "python3", "curl"} {
		if _, err := exec.LookPath(program); err != nil && strings.Contains(string(text), program+" ") {
			if os.Getenv("CI") == "true" {
				t.Fatalf("install %s", program)
			}
			t.Skipf("%s needs %s", page, program)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	home, work := filepath.Join(dir, "home"), filepath.Join(dir, "work")
	state := filepath.Join(home, ".local", "state", "holdfast")
	for _, d := range []string{home, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range []string{"backup.sh", "report.sh", "deploy.sh", "scheduler"} {
		if err := os.WriteFile(filepath.Join(work, script), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(root, filepath.Join(dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS="}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOTOOLCHAIN"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() { endHost(t, state) })

	tls := freeAddress(t)
	here := []string{"127.0.0.1:2181", freeAddress(t), ":2281", tls[strings.LastIndex(tls, ":"):]}
	const ensemble = "zk1:2181,zk2:2181,zk3:2181"
	if strings.Contains(string(text), ensemble) {
		here = append(here, ensemble, serve(t, dir, env, "holdfast serve --log-level error --data-dir "+filepath.Join(dir, "ensemble")+" --listen 127.0.0.1:0"))
	}
	local := strings.NewReplacer(here...) // in one go: a free port may begin with 2281
	s := startShell(t, work, env)
	ran := 0
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		language, block := m[1], m[2]
		block = local.Replace(block)
		switch language {
		case "console":
			for _, c := range transcript(t, block) {
				s.run(c.command, c.output)
				ran++
			}
		case "sh":
			s.run("( set -e\n"+block+")", "…")
			s.succeeded(block)
			ran++
		case "crontab":
			for line := range strings.Lines(block) {
				line = strings.TrimSpace(line)
				if name, _, ok := strings.Cut(line, "="); ok && !strings.Contains(name, " ") {
					s.run("export '"+line+"'", "")
				} else if fields := strings.SplitN(line, " ", 6); len(fields) == 6 {
					s.run(fields[5], "…")
					s.succeeded(line)
					ran++
				}
			}
		case "go":
			if strings.HasPrefix(block, "package ") {
				if err := os.WriteFile(filepath.Join(work, "main.go"), []byte(block), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if ran == 0 {
		t.Errorf("%s has no commands", page)
	}
}

// freeAddress returns an address that is free now. Its port is below those that the kernel gives to
// other processes.
func freeAddress(t *testing.T) string {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}

type exchange struct{ command, output string }

// transcript splits a console block into commands and their outputs.
func transcript(t *testing.T, block string) []exchange {
	var all []exchange
	for line := range strings.Lines(block) {
		switch command, ok := strings.CutPrefix(line, "$ "); {
		case ok:
			all = append(all, exchange{command: command})
		case len(all) == 0:
			t.Fatalf("a console block begins with %q and not with a command", line)
		case strings.HasSuffix(all[len(all)-1].command, "\\\n"):
			all[len(all)-1].command += line
		default:
			all[len(all)-1].output += line
		}
	}
	return all
}

// A shell runs commands in one process, so variables and background jobs remain.
type shell struct {
	t  *testing.T
	in io.Writer

	mu     sync.Mutex // guards output
	output bytes.Buffer
}

func (s *shell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.Write(p)
}

func startShell(t *testing.T, dir string, env []string) *shell {
	s := &shell{t: t}
	cmd := exec.Command("sh")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, s, s
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.in = in
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // its background jobs, too
		in.Close()
		_ = cmd.Wait()
	})
	return s
}

var prompt = regexp.MustCompile(`\x01([0-9]+)\n`)

// run runs a command and waits until its output is the one wanted. The output of a background job
// may come after the next prompt.
func (s *shell) run(command, want string) {
	s.t.Helper()
	s.mu.Lock()
	s.output.Reset()
	s.mu.Unlock()
	fmt.Fprintf(s.in, "{ %s\n} </dev/null\nstatus=$?; printf '\\001%%s\\n' $status; (exit $status)\n", strings.TrimSpace(command))
	patterns := []*regexp.Regexp{wildcards(`^\s*`, want, `\s*$`)}
	if strings.HasSuffix(strings.TrimSpace(command), "&") {
		// stdout and stderr of a background job are in no order.
		patterns = nil
		for line := range strings.Lines(want) {
			patterns = append(patterns, wildcards(`(?m)^`, line, `$`))
		}
	}
	matches := func(got string) bool {
		return !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return !p.MatchString(got) })
	}
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		got = s.output.String()
		s.mu.Unlock()
		if prompt.MatchString(got) && matches(prompt.ReplaceAllString(got, "")) {
			return
		}
	}
	s.t.Fatalf("$ %sprinted\n%s\nwant\n%s", command, got, want)
}

// wildcards returns a pattern for text, in which … stands for any text.
func wildcards(before, text, after string) *regexp.Regexp {
	parts := strings.Split(strings.TrimSpace(text), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?s)" + before + strings.Join(parts, ".*") + after)
}

// succeeded fails unless the exit code of the last command is 0.
func (s *shell) succeeded(command string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := prompt.FindStringSubmatch(s.output.String()); m == nil || m[1] != "0" {
		s.t.Fatalf("%s\nfailed:\n%s", command, s.output.String())
	}
}

// Every block of Go in the documents is a whole program, which TestPagesWork compiles, or lines of an
// example that runs. A line with … stands for lines that are left out.
func TestGoInDocumentsIsAnExample(t *testing.T) {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	var examples []string
	for _, pattern := range []string{"*example*_test.go", "*/*example*_test.go", "contrib/*/*example*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			examples = append(examples, squeeze(string(text)))
		}
	}
	documents, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range append(documents, "docs/tutorial.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "go" || strings.HasPrefix(m[2], "package ") && slices.Contains(pages, page) {
				continue
			}
			blocks++
			parts := regexp.MustCompile(`(?m)^\s*// …\n`).Split(m[2], -1)
			if !slices.ContainsFunc(examples, func(example string) bool {
				for _, part := range parts {
					_, after, ok := strings.Cut(example, squeeze(part))
					if !ok {
						return false
					}
					example = after
				}
				return true
			}) {
				t.Errorf("%s: no example has these lines:\n%s", page, m[2])
			}
		}
	}
	if blocks == 0 {
		t.Error("no document has Go code")
	}
}
