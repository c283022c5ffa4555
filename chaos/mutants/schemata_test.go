package mutants

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sample is a program that prints a line for each kind of function. Each bug of copiedCases makes
// one of them wrong.
const sample = `package main

import (
	"errors"
	"fmt"
	"strings"
)

type thing struct{ text string }

func (t *thing) set(text string) { t.text = "set " + text }

func (thing) noReceiver(int, string) string { return "no receiver" }

func (t thing) get(_ int, suffix string, _ bool) string {
	return t.text + suffix
}

type list[T any] struct{ all []T }

func (l *list[_]) size() string { return fmt.Sprint("size ", len(l.all)) }

func plain(a, b string) string { return a + " " + b }

func results() (string, error) { return "two results", nil }

func variadic(first string, rest ...string) string { return first + strings.Join(rest, "") }

func unnamedVariadic(int, ...string) string { return "unnamed variadic" }

func generic[K comparable, V any](m map[K]V) string {
	return fmt.Sprintf("generic of %T", m)
}

func named(fail bool) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint("recovered ", r)
		}
	}()
	if fail {
		panic("named")
	}
	return "", errors.New("no panic")
}

func recursive(n int) string {
	if n == 0 {
		return "end"
	}
	return "r" + recursive(n-1)
}

func caller() string { return "caller of " + callee() }

func callee() string { return "callee" }

var atStart = start()

func start() string { return "before main" }

func main() {
	t := &thing{}
	t.set("by a method")
	fmt.Println(t.text)
	fmt.Println(t.noReceiver(1, ""))
	fmt.Println((thing{"text"}).get(1, " of a value", true))
	fmt.Println((&list[int]{make([]int, 3)}).size())
	fmt.Println(plain("plain", "function"))
	fmt.Println(results())
	fmt.Println(variadic("var", "ia", "dic"))
	fmt.Println(unnamedVariadic(1, "a"))
	fmt.Println(generic(map[string]int{}))
	fmt.Println(named(true))
	fmt.Println(recursive(3))
	fmt.Println(caller())
	fmt.Println(atStart)
}
`

// right is the output of sample.
const right = `set by a method
no receiver
text of a value
size 3
plain function
two results <nil>
variadic
unnamed variadic
generic of map[string]int
recovered named <nil>
rrrend
caller of callee
before main
`

func changedSample(t *testing.T, edits ...string) string {
	t.Helper()
	source := sample
	for i := 0; i < len(edits); i += 2 {
		if strings.Count(source, edits[i]) != 1 {
			t.Fatalf("not once in the sample: %s", edits[i])
		}
		source = strings.Replace(source, edits[i], edits[i+1], 1)
	}
	return source
}

// A shared binary behaves as the original with number 0 and with copies of all functions, and has
// exactly the selected bug with each other number.
func TestSharedBinaryHasOneBugAtATime(t *testing.T) {
	tests := []struct {
		name      string
		edits     []string
		was, want string // the line
	}{
		{"a method", []string{`"set " + text`, `"wrong"`}, "set by a method", "wrong"},
		{"no name for the receiver and the parameters", []string{`return "no receiver"`, `return "wrong"`}, "no receiver", "wrong"},
		{"parameters named _", []string{`t.text + suffix`, `suffix + t.text`}, "text of a value", " of a valuetext"},
		{"a method of a generic type", []string{`len(l.all))`, `len(l.all)+1)`}, "size 3", "size 4"},
		{"a function", []string{`a + " " + b`, `b + " " + a`}, "plain function", "function plain"},
		{"several results", []string{`"two results", nil`, `"", errors.New("wrong")`}, "two results <nil>", " wrong"},
		{"variadic, and an import that is not needed then", []string{`first + strings.Join(rest, "")`, `fmt.Sprint(len(rest))`}, "variadic", "2"},
		{"variadic without names", []string{`return "unnamed variadic"`, `return "wrong"`}, "unnamed variadic", "wrong"},
		{"a generic function", []string{`"generic of %T"`, `"wrong %T"`}, "generic of map[string]int", "wrong map[string]int"},
		{"named results and recover", []string{`text = fmt.Sprint("recovered ", r)`, `err = fmt.Errorf("wrong %v", r)`}, "recovered named <nil>", " wrong named"},
		{"a function that calls itself", []string{`"r" + recursive`, `"w" + recursive`}, "rrrend", "wwwend"},
		{"two functions", []string{`"caller of "`, `"wrong of "`, `return "callee"`, `return "wrong"`}, "caller of callee", "wrong of wrong"},
		{"another bug of the same function", []string{`return "callee"`, `return "wrong"`}, "caller of callee", "caller of wrong"},
		{"before main", []string{`"before main"`, `"wrong"`}, "before main", "wrong"},
	}
	var bugs []seeded
	for i, test := range tests {
		bugs = append(bugs, seeded{i + 1, map[string]string{"main.go": changedSample(t, test.edits...)}})
	}
	sources, refused, err := combine(bugs, func(string) (string, error) { return sample, nil })
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	for i, line := range strings.Split(sample, "\n") { // messages of the original name its lines
		got := strings.Split(sources["main.go"], "\n")[i]
		if name, _, ok := strings.Cut(line, "("); ok && strings.HasPrefix(line, "func ") && !strings.HasPrefix(got, name+"(") {
			t.Errorf("line %d has %q instead of %q", i+1, got, line)
		}
	}
	dir := t.TempDir()
	sources["go.mod"] = "module sample\n\ngo 1.26\n"
	for name, source := range sources {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "sample.exe")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, sources["main.go"])
	}
	output := func(number int) string {
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Join(dir, numberPrefix+strconv.Itoa(number)))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%d: %v", number, err)
		}
		return string(out)
	}
	for _, number := range []int{0, everyCopy} {
		if got := output(number); got != right {
			t.Errorf("%d: %s", number, got)
		}
	}
	for i, test := range tests {
		if got, want := output(i+1), strings.Replace(right, test.was+"\n", test.want+"\n", 1); got != want {
			t.Errorf("%s:\n%s", test.name, got)
		}
	}
}

func TestBugThatNoNumberCanSelectIsRefused(t *testing.T) {
	tests := []struct {
		name, source string // "" is sample
		edits        []string
		why          string
	}{
		{"a type", "", []string{"thing struct{ text string }", "thing struct{ text, more string }"}, "more than the bodies"},
		{"a variable", "", []string{"var atStart = start()", `var atStart = ""`}, "more than the bodies"},
		{"a new function", "", []string{"func main() {", "func more() {}\n\nfunc main() {"}, "more than the bodies"},
		{"a missing function", "", []string{`func (t *thing) set(text string) { t.text = "set " + text }`, ""}, "more than the bodies"},
		{"another order", "", []string{"func plain(", "func results2(", "func results(", "func plain("}, "more than the bodies"},
		{"a signature", "", []string{"func plain(a, b string)", "func plain(b, a string)"}, "signature of plain"},
		{"an import", "", []string{"\t\"strings\"\n", "\t\"strings\"\n\t\"os\"\n", `return "callee"`, "return os.Args[0]"}, `imports "os"`},
		{"another name of an import", "", []string{"\t\"strings\"\n", "\tstrings \"bytes\"\n"}, `imports strings "bytes"`},
		{"recover", "package p\n\nfunc f() { recover() }\n", []string{"recover()", "_ = recover()"}, "calls recover"},
		{"callers", "package p\n\nimport \"runtime\"\n\nfunc f() { runtime.Caller(1) }\n", []string{"Caller(1)", "Caller(2)"}, "its callers"},
		{"a directive", "package p\n\n//go:noinline\nfunc f() { println(1) }\n", []string{"println(1)", "println(2)"}, "//go:noinline"},
		{"no body", "package p\n\nfunc f()\n", []string{"func f()", "func f() {}"}, "signature of f"},
	}
	for _, test := range tests {
		original, changed := test.source, ""
		if original == "" {
			original, changed = sample, changedSample(t, test.edits...)
		} else {
			changed = strings.Replace(original, test.edits[0], test.edits[1], 1)
		}
		good := seeded{2, map[string]string{"main.go": original}}
		sources, refused, err := combine([]seeded{{1, map[string]string{"main.go": changed}}, good}, func(string) (string, error) { return original, nil })
		if err != nil || refused[1] == nil || refused[2] != nil || !strings.Contains(fmt.Sprint(refused[1]), test.why) {
			t.Errorf("%s: %v, %v", test.name, refused, err)
		}
		if len(sources) > 0 {
			t.Errorf("%s: refused, but it is in %v", test.name, slices.Collect(maps.Keys(sources)))
		}
	}
}

// A bug that changes nothing is reported, and so is one that does not compile. The others of the
// package share a binary nevertheless.
func TestBugThatIsNotInTheBinaryIsReported(t *testing.T) {
	const file, pkg = "internal/balance/balance.go", "internal/balance"
	var all []mutant
	for _, m := range mutants() {
		if m.pkg == pkg && m.edits[0].file == file {
			all = append(all, m)
		}
	}
	if len(all) < 2 {
		t.Fatalf("%s has %d bugs", file, len(all))
	}
	good := all[0]
	source, err := readSource(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parse(file, source)
	if err != nil {
		t.Fatal(err)
	}
	first := f.functions[0]
	head := f.signature(first) + "{"
	nothing := mutant{number: 9001, edits: []edit{{file, head, head + "\n\t_ = 0\n"}}, pkg: pkg, tests: good.tests}
	broken := mutant{number: 9002, edits: []edit{{file, head, head + "\n\tunused := 0\n"}}, pkg: pkg, tests: good.tests}
	absent := mutant{number: 9003, pkg: pkg, tests: good.tests, edits: good.edits}
	g := &group{pkg: pkg, dir: t.TempDir(), bugs: append(all, nothing, broken)}
	g.build(t)
	if !g.shared[nothing.number] || g.shared[broken.number] || !g.shared[good.number] {
		t.Fatalf("the shared binary has %v", slices.Sorted(maps.Keys(g.shared)))
	}
	if err := good.verdict(g.runBinary(t, &good)); err != nil {
		t.Error(err)
	}
	for _, m := range []mutant{nothing, absent} {
		if err := m.verdict(g.runBinary(t, &m)); err == nil || !strings.Contains(err.Error(), "not caught") {
			t.Errorf("%d: %v", m.number, err)
		}
	}
	files, err := broken.changed()
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.verdict(goTest(t, &broken, files)); err == nil || !strings.Contains(err.Error(), "does not compile") {
		t.Errorf("%d: %v", broken.number, err)
	}
}
