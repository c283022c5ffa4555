//go:build unix

package repotest

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// readmeBlocks returns the README's code blocks in one language.
func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(string(readme), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("README.md has no block of %s", language)
	}
	return blocks
}

// Every command of the README runs as written, with an empty home. Only names of hosts and ports are
// replaced by those of a server that the README's own `holdfast serve` started.
func TestReadmeCommandsWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	home, work := t.TempDir(), t.TempDir()
	t.Cleanup(func() { endHost(t, filepath.Join(home, "state", "holdfast")) })
	for _, script := range []string{"backup.sh", "migrate.sh", "report.sh", "train.sh", "copy.sh", "scheduler"} {
		if err := os.WriteFile(filepath.Join(work, script), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	goEnv := func(key string) string {
		out, err := exec.Command("go", "env", key).Output()
		if err != nil {
			t.Fatal(err)
		}
		return key + "=" + strings.TrimSpace(string(out))
	}
	env := append(os.Environ(), goEnv("GOCACHE"), goEnv("GOMODCACHE"), goEnv("GOPATH"), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"),
		"GOBIN="+filepath.Join(home, "bin"), "PATH="+filepath.Join(home, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	run := func(t *testing.T, dir, line string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s\n%v\n%s", line, err, out)
		}
	}

	blocks := readmeBlocks(t, "sh")
	var address string
	for _, pass := range []string{"build", "serve", "rest"} {
		for _, block := range blocks {
			for line := range strings.Lines(block) {
				line = strings.TrimSpace(line)
				building := strings.HasPrefix(line, "go ") || strings.HasPrefix(line, "sh test.sh")
				serving := strings.HasPrefix(line, "holdfast serve")
				switch {
				case pass == "build" && line == "sh test.sh":
					run(t, ".", "sh -n test.sh") // to run it here would be to run ourselves
				case pass == "build" && building:
					run(t, ".", line)
				case pass == "serve" && serving:
					address = serve(t, work, env, strings.ReplaceAll(line, "127.0.0.1:2181", "127.0.0.1:0"))
				case pass == "rest" && !building && !serving:
					run(t, work, strings.ReplaceAll(line, "zk1:2181,zk2:2181,zk3:2181", address))
				}
			}
		}
	}
	if address == "" {
		t.Error("the README has no command that serves")
	}
	for _, block := range readmeBlocks(t, "crontab") {
		for line := range strings.Lines(block) {
			fields := strings.SplitN(strings.TrimSpace(line), " ", 6) // five fields of the time, then the command
			run(t, work, fields[5])
		}
	}
	t.Run("queue", func(t *testing.T) { showsTheQueue(t, env) })
}

// showsTheQueue types the README's picture of a queue, and compares it with what the commands print: ids, tokens, times and
// widths of columns may differ.
func showsTheQueue(t *testing.T, env []string) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "migrate.sh"), []byte("#!/bin/sh\necho migrating\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	varies := regexp.MustCompile(`0x[0-9a-f]+|[0-9]+m?s\b|[0-9]{9,}|  +`)
	s := startShell(t, dir, env)
	for _, block := range readmeBlocks(t, "console") {
		for _, c := range transcript(t, block) {
			s.run(c.command, varies.ReplaceAllString(c.output, "…"))
		}
	}
}

// The README is for the first five minutes.
func TestReadmeIsShort(t *testing.T) {
	if n := words(t, "README.md"); n > 1000 {
		t.Errorf("README.md has %d words; want at most 1,000", n)
	}
}

// Each how-to begins with what the reader has, and ends with how to see that it works. Reference is elsewhere.
func TestHowTosAreShort(t *testing.T) {
	files, err := filepath.Glob("docs/howto/*.md")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range files {
		total += words(t, file)
		paragraphs := strings.Split(read(t, file), "\n\n")
		if len(paragraphs) < 2 || !strings.HasPrefix(paragraphs[1], "You ") {
			t.Errorf("%s does not begin with what the reader has", file)
		}
		headings := regexp.MustCompile(`(?m)^## .*$`).FindAllString(read(t, file), -1)
		if len(headings) == 0 || headings[len(headings)-1] != "## See that it works" {
			t.Errorf("%s does not end with how to see that it works", file)
		}
	}
	if total > 9000 {
		t.Errorf("the how-tos have %d words; want at most 9,000", total)
	}
}

// words counts as wc -w does.
func words(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return len(strings.Fields(string(text)))
}

// Every link between the documents leads to a file, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"docs", "docs/*", "chaos", "interop"} {
		more, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	links := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := filepath.Join(filepath.Dir(file), target)
			if target == "" {
				to = file
			}
			there, err := os.ReadFile(to)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			found := anchor == ""
			for _, h := range heading.FindAllStringSubmatch(string(there), -1) {
				slug := strings.ReplaceAll(strings.ToLower(h[1]), " ", "-")
				found = found || regexp.MustCompile(`[^\pL\pN_-]`).ReplaceAllString(slug, "") == anchor
			}
			if !found {
				t.Errorf("%s: %s has no heading #%s", file, to, anchor)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links found: this test looks in the wrong place", links)
	}
}

// serve runs line and returns the server's address. At the end of the test, the server is interrupted and
// must exit with 0.
func serve(t *testing.T, dir string, env []string, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = dir, env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, errs.String())
		}
	})
	var address string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if a, ok := strings.CutPrefix(lines.Text(), "listening tcp "); ok {
			address = a
		}
		if lines.Text() == "ready" {
			go io.Copy(io.Discard, out)
			return address
		}
	}
	t.Fatalf("%s: not ready\n%s", line, errs.String())
	return ""
}

// endHost ends the detached host that the commands have started, instead of letting it linger.
// It waits until the host has given up its directory.
func endHost(t *testing.T, dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "host.pid"))
	if err != nil {
		return // the host has ended
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Errorf("host.pid: %v", err)
		return
	}
	lock, err := os.Open(filepath.Join(dir, "host.lock"))
	if err != nil {
		t.Error(err)
		return
	}
	defer lock.Close()
	syscall.Kill(pid, syscall.SIGINT)
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Error(err)
	}
}

// The README's Go code is the package's example, which runs.
func TestReadmeCodeIsTheExample(t *testing.T) {
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, block := range readmeBlocks(t, "go") {
		want := squeeze(strings.ReplaceAll(block, `zk.Config{Servers: []string{"127.0.0.1:2181"}}`, "srv.Config()"))
		if !strings.Contains(squeeze(string(example)), want) {
			t.Errorf("not in example_test.go:\n%s", want)
		}
	}
}

// The README says how many modules the first go install downloads.
func TestReadmeCountsTheModules(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/holdfast")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := make(map[string]bool)
	for path := range strings.FieldsSeq(string(out)) {
		modules[path] = true
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("downloads %d modules", len(modules)); !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say that the first go install %s: %q", want, slices.Sorted(maps.Keys(modules)))
	}
}
