// Package mutants is the test of the tests. It puts a bug that was real elsewhere into the
// product, one at a time, and checks that the test for it fails. A bug is a few lines of the
// source and their replacement. The go command compiles changed files in place of the right ones
// (-overlay), so the product has neither hooks nor build tags for this.
//
// Most bugs change only the bodies of functions. All such bugs of a test package are compiled
// into one test binary: each is a second copy of its function, and the environment selects the
// copy at run time. Every bug still runs alone, in a process of its own. Each other bug is
// compiled into a binary of its own.
//
//	go test ./chaos/mutants                        do the bugs still fit the source?
//	go test ./chaos/mutants -mutants               is every one of them caught? (some minutes)
//	go test ./chaos/mutants -mutants -v -run 'Caught/each/^13_'
//	go test ./chaos/mutants -mutants -write        and write docs/contributing/mutants.md with the seconds of each
//	go test ./chaos/mutants -run TheList -write    write docs/contributing/mutants.md alone: a list of all bugs
//
// Some bugs need two or three changes at once. A node found by its name in another session (3) needs two: every
// attempt has a name of its own, and the session is compared as well. A Lock that returns a lock for a context that
// has ended (27) needs three: the client, the lease and the tenure each look at the context.
package mutants

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// everyCopy is the number with which each changed function runs as an exact copy of itself. No
// bug has this number. The tests must pass with it, which shows that the copying does no harm.
const everyCopy = -1

// numberPrefix and a number are the last element of a directory in PATH. The binary reads its
// number there. PATH is used because it reaches nearly all child processes: testscript and the
// host of a local store drop other variables. The directory need not exist.
const numberPrefix = "holdfast-mutant-"

// A seeded bug is its number and the files that it changes: by path from the module's root, the
// source with the bug.
type seeded struct {
	number int
	files  map[string]string
}

// combine returns sources that contain all bugs, by path from the module's root. A binary of
// these sources behaves as the original unless its number in PATH selects a bug. refused has the
// reason for each bug that cannot be selected at run time; the sources do not contain it. read
// returns the original of a file.
func combine(bugs []seeded, read func(path string) (string, error)) (sources map[string]string, refused map[int]error, err error) {
	originals := make(map[string]*goFile)
	refused = make(map[int]error)
	for _, bug := range bugs {
		type found struct {
			in        *goFile
			functions []replaced
		}
		var all []found
		for _, name := range slices.Sorted(maps.Keys(bug.files)) {
			if originals[name] == nil {
				source, err := read(name)
				if err != nil {
					return nil, nil, err
				}
				if originals[name], err = parse(name, source); err != nil {
					return nil, nil, err
				}
			}
			functions, err := originals[name].compare(bug.files[name], bug.number)
			if err != nil {
				refused[bug.number] = fmt.Errorf("%s: %w", name, err)
				break
			}
			all = append(all, found{originals[name], functions})
		}
		if refused[bug.number] != nil {
			continue
		}
		for _, f := range all {
			f.in.replaced = append(f.in.replaced, f.functions...)
		}
	}
	sources = make(map[string]string)
	for name, f := range originals {
		if len(f.replaced) > 0 {
			sources[name] = f.generate()
			sources[path.Join(path.Dir(name), "seeded_bug_number.go")] = fmt.Sprintf(numberSource, f.syntax.Name.Name, numberPrefix)
		}
	}
	return sources, refused, nil
}

// numberSource declares the number of the bug in each changed package.
const numberSource = `package %s

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var seededBugNumber = func() int {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if text, ok := strings.CutPrefix(filepath.Base(dir), %q); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return 0
}()
`

// A goFile is a parsed source file and the functions of it that bugs replace.
type goFile struct {
	name, source string
	syntax       *ast.File
	file         *token.File
	functions    []*ast.FuncDecl
	rest         string // the source without imports and without functions
	imports      map[string]bool
	replaced     []replaced
}

// A replaced function is a function with one of the bugs.
type replaced struct {
	number int
	index  int    // in functions
	text   string // the copy
	line   int    // of the copy in the changed file
}

func parse(name, source string) (*goFile, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &goFile{name: name, source: source, syntax: syntax, file: set.File(syntax.FileStart), imports: make(map[string]bool)}
	var rest strings.Builder
	from := 0
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.functions = append(f.functions, d)
			rest.WriteString(source[from:f.at(d.Pos())] + "func " + d.Name.Name)
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				continue
			}
			rest.WriteString(source[from:f.at(d.Pos())])
		default:
			continue
		}
		from = f.at(d.End())
	}
	f.rest = rest.String() + source[from:]
	for _, s := range syntax.Imports {
		as := ""
		if s.Name != nil {
			as = s.Name.Name
		}
		f.imports[as+" "+s.Path.Value] = true
	}
	return f, nil
}

// at returns the offset of p in the source.
func (f *goFile) at(p token.Pos) int { return f.file.Offset(p) }

// signature is the text of d up to its body.
func (f *goFile) signature(d *ast.FuncDecl) string {
	if d.Body == nil {
		return f.source[f.at(d.Pos()):f.at(d.End())]
	}
	return f.source[f.at(d.Pos()):f.at(d.Body.Lbrace)]
}

// copyOf returns the text of d under another name.
func (f *goFile) copyOf(d *ast.FuncDecl, name string) string {
	return f.source[f.at(d.Pos()):f.at(d.Name.Pos())] + name + f.source[f.at(d.Name.End()):f.at(d.End())]
}

// compare returns the functions that changed has in place of those of f. It fails if they cannot
// be selected at run time.
func (f *goFile) compare(changed string, number int) ([]replaced, error) {
	c, err := parse(f.name, changed)
	switch {
	case err != nil:
		return nil, err
	case c.rest != f.rest:
		return nil, errors.New("it changes more than the bodies of functions")
	}
	for name := range c.imports { // an import that the bug does not need is still needed by the original function
		if !f.imports[name] {
			return nil, fmt.Errorf("it imports %s", strings.TrimSpace(name))
		}
	}
	var all []replaced
	for i, d := range c.functions {
		original := f.functions[i]
		was, is := f.source[f.at(original.Pos()):f.at(original.End())], c.source[c.at(d.Pos()):c.at(d.End())]
		if was == is {
			continue
		}
		if f.signature(original) != c.signature(d) {
			return nil, fmt.Errorf("it changes the signature of %s", d.Name.Name)
		}
		for _, either := range []*ast.FuncDecl{original, d} {
			if err := cannotBeCalledByItsTwin(either); err != nil {
				return nil, fmt.Errorf("%s %w", d.Name.Name, err)
			}
		}
		all = append(all, replaced{number: number, index: i, text: c.copyOf(d, copyName(d, number)), line: c.file.Line(d.Pos())})
	}
	return all, nil
}

// cannotBeCalledByItsTwin fails for a function whose effect depends on its caller, or on a
// comment for the compiler.
func cannotBeCalledByItsTwin(d *ast.FuncDecl) (err error) {
	if d.Body == nil {
		return errors.New("has no body")
	}
	if d.Doc != nil {
		for _, c := range d.Doc.List {
			if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//export ") {
				return fmt.Errorf("has a comment for the compiler: %s", c.Text)
			}
		}
	}
	var inside func(n ast.Node, literal bool)
	inside = func(n ast.Node, literal bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				inside(n.Body, true)
				return false
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "recover" && !literal {
					err = errors.New("calls recover, which works for a deferred function only")
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "runtime" && (n.Sel.Name == "Caller" || n.Sel.Name == "Callers") {
					err = errors.New("looks at its callers")
				}
			}
			return true
		})
	}
	inside(d.Body, false)
	return err
}

func copyName(d *ast.FuncDecl, number int) string {
	if number == everyCopy {
		return "copied_" + d.Name.Name
	}
	return fmt.Sprintf("bug%d_%s", number, d.Name.Name)
}

// generate returns the source of f with all of its replaced functions. Every line of the original
// keeps its number. An error of the compiler in a copy names the file bugN/FILE.
func (f *goFile) generate() string {
	numbers := make(map[int][]int) // by index of the function
	copies := slices.Clone(f.replaced)
	for _, r := range f.replaced {
		if numbers[r.index] == nil {
			numbers[r.index] = []int{everyCopy}
			d := f.functions[r.index]
			copies = append(copies, replaced{number: everyCopy, text: f.copyOf(d, copyName(d, everyCopy)), line: f.file.Line(d.Pos())})
		}
		numbers[r.index] = append(numbers[r.index], r.number)
	}
	var inserts []insert
	for index, ns := range numbers {
		inserts = append(inserts, f.dispatch(f.functions[index], ns)...)
	}
	slices.SortFunc(inserts, func(a, b insert) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	from := 0
	for _, e := range inserts {
		b.WriteString(f.source[from:e.from] + e.text)
		from = e.to
	}
	b.WriteString(f.source[from:])
	for _, r := range copies {
		dir := "copied"
		if r.number != everyCopy {
			dir = "bug" + strconv.Itoa(r.number)
		}
		fmt.Fprintf(&b, "\n//line %s/%s:%d\n%s\n", dir, path.Base(f.name), r.line, r.text)
	}
	return b.String()
}

// An insert is a text in place of source[from:to].
type insert struct {
	from, to int
	text     string
}

// dispatch makes d call its copy of the number that the process has.
func (f *goFile) dispatch(d *ast.FuncDecl, numbers []int) (inserts []insert) {
	// named returns the names of a field of parameters. It names those without a name.
	unnamed := 0
	named := func(field *ast.Field) (names []string) {
		name := func() string {
			unnamed++
			return fmt.Sprintf("unnamed%d", unnamed)
		}
		if len(field.Names) == 0 {
			names = append(names, name())
			at := f.at(field.Type.Pos())
			inserts = append(inserts, insert{at, at, names[0] + " "})
		}
		for _, id := range field.Names {
			if id.Name != "_" {
				names = append(names, id.Name)
				continue
			}
			names = append(names, name())
			inserts = append(inserts, insert{f.at(id.Pos()), f.at(id.End()), names[len(names)-1]})
		}
		return names
	}
	receiver := ""
	if d.Recv != nil {
		receiver = named(d.Recv.List[0])[0] + "."
	}
	var args []string
	for _, field := range d.Type.Params.List {
		names := named(field)
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			names[0] += "..."
		}
		args = append(args, names...)
	}
	types := ""
	if d.Type.TypeParams != nil {
		var names []string
		for _, field := range d.Type.TypeParams.List {
			for _, id := range field.Names {
				names = append(names, id.Name)
			}
		}
		types = "[" + strings.Join(names, ", ") + "]"
	}
	var b strings.Builder
	for _, n := range numbers {
		call := fmt.Sprintf("%s%s%s(%s)", receiver, copyName(d, n), types, strings.Join(args, ", "))
		if d.Type.Results == nil {
			call += "; return"
		} else {
			call = "return " + call
		}
		fmt.Fprintf(&b, " if seededBugNumber == %d { %s };", n, call)
	}
	at := f.at(d.Body.Lbrace) + 1
	return append(inserts, insert{at, at, b.String()})
}
