package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tests is a run of go test.
type tests struct {
	step string
	dir  string
	args []string // of go test
	out  io.Writer

	packages map[string]*ran
	all      int               // packages; 0 if that is not known
	over     int               // packages
	builds   map[string]string // what the compiler said, by package
}

// A ran is what is known of the tests of one package.
type ran struct {
	result
	over    bool
	seed    string
	built   bool
	logs    map[string]*bytes.Buffer // by test; "" is the package's own
	running map[string]bool
	failed  []string // tests, and subtests
}

// An event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// run runs the tests, repeats those that fail, and returns a result for each package.
func (ts *tests) run() []result {
	began := time.Now()
	ts.packages, ts.builds = make(map[string]*ran), make(map[string]string)
	ts.all = ts.count()
	err := ts.read(exec.Command("go", append([]string{"test", "-json"}, ts.args...)...))
	if len(ts.packages) == 0 {
		r := result{Step: ts.step, Seconds: time.Since(began).Seconds(), Failed: err != nil}
		for _, said := range ts.builds {
			fmt.Fprint(ts.out, said)
		}
		if err != nil {
			r.Why = []string{"go test " + strings.Join(ts.args, " ") + ": " + err.Error()}
		}
		return []result{r}
	}
	var results []result
	for _, p := range ts.packages {
		if !p.over { // go test itself has ended
			p.Failed = true
		}
		if p.Failed {
			ts.judge(p)
		}
		results = append(results, p.result)
	}
	slices.SortFunc(results, func(a, b result) int { return strings.Compare(a.Package, b.Package) })
	return results
}

// count returns the number of packages that the run has.
func (ts *tests) count() int {
	list := []string{"list"}
	for _, arg := range ts.args {
		if strings.HasPrefix(arg, ".") {
			list = append(list, arg)
		}
	}
	cmd := exec.Command("go", list...)
	cmd.Dir = ts.dir
	out, err := cmd.Output()
	if err != nil {
		return 0 // go test says what is wrong
	}
	return bytes.Count(out, []byte("\n"))
}

// verbose reports whether the logs of tests that pass are printed, too.
func (ts *tests) verbose() bool { return slices.Contains(ts.args, "-v") }

// read runs a command and follows its events. Lines that are no event, such as an error of go test itself, are
// printed.
func (ts *tests) read(cmd *exec.Cmd) error {
	cmd.Dir = ts.dir
	var errout bytes.Buffer
	cmd.Stderr = io.MultiWriter(&errout, ts.out)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			ts.out.Write(line)
		default:
			ts.follow(e)
		}
		if err != nil {
			break
		}
	}
	return cmd.Wait()
}

var (
	shuffleLine = regexp.MustCompile(`^-test\.shuffle (\d+)\n$`)
	packageLine = regexp.MustCompile(`^(ok  |FAIL|\?   )\t`)
	statusLine  = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME|ATTR)|--- (PASS|SKIP|FAIL): )`)
)

func (ts *tests) follow(e event) {
	switch e.Action {
	case "build-output":
		ts.builds[e.ImportPath] += e.Output
		return
	case "build-fail":
		return
	}
	p := ts.packages[e.Package]
	if p == nil {
		p = &ran{result: result{Step: ts.step, Package: e.Package}, built: true, logs: make(map[string]*bytes.Buffer), running: make(map[string]bool)}
		ts.packages[e.Package] = p
	}
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "run":
		p.running[e.Test] = true
	case "output":
		ts.note(p, e)
	case "pass", "skip", "fail":
		if e.Test == "" {
			p.over, p.Seconds, p.Failed = true, e.Elapsed, e.Action == "fail"
			if e.FailedBuild != "" {
				p.built = false
				fmt.Fprint(ts.out, ts.builds[e.FailedBuild])
			}
			return
		}
		delete(p.running, e.Test)
		switch {
		case e.Action == "fail":
			p.failed = append(p.failed, e.Test)
		case e.Action == "skip":
			p.LeftOut = append(p.LeftOut, e.Test+": "+p.reason(e.Test))
		case top:
			p.Passed++
		}
		if e.Action == "fail" && !ts.verbose() {
			ts.out.Write(p.log(e.Test).Bytes())
		} else if e.Action != "fail" {
			delete(p.logs, e.Test)
		}
	}
}

// note keeps the output of a test, and prints what is to be seen at once.
func (ts *tests) note(p *ran, e event) {
	if m := shuffleLine.FindStringSubmatch(e.Output); m != nil {
		p.seed = m[1]
	}
	if e.Test != "" && !strings.HasPrefix(strings.TrimSpace(e.Output), "=== ") {
		p.log(e.Test).WriteString(e.Output)
	}
	if e.Test == "" {
		p.log("").WriteString(e.Output)
	}
	switch {
	case e.Test == "" && (e.Output == "PASS\n" || e.Output == "FAIL\n"):
	case ts.all > 1 && e.Test == "" && packageLine.MatchString(e.Output):
		ts.over++
		fmt.Fprintf(ts.out, "%d/%d %s", ts.over, ts.all, e.Output)
	case e.Test == "", ts.verbose() && !statusLine.MatchString(e.Output):
		io.WriteString(ts.out, e.Output)
	}
}

func (p *ran) log(test string) *bytes.Buffer {
	if p.logs[test] == nil {
		p.logs[test] = new(bytes.Buffer)
	}
	return p.logs[test]
}

var skipped = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns what a test has said when it was skipped.
func (p *ran) reason(test string) string {
	all := skipped.FindAllStringSubmatch(p.log(test).String(), -1)
	if len(all) == 0 {
		return "no reason given"
	}
	return all[len(all)-1][1]
}
