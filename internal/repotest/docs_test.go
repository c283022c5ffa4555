package repotest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// undocumented returns a line for every exported name of a file that has no doc comment. A
// comment above a group of constants or variables covers them all.
func undocumented(fset *token.FileSet, file *ast.File) []string {
	var bad []string
	report := func(n ast.Node, name string) {
		p := fset.Position(n.Pos())
		bad = append(bad, fmt.Sprintf("%s:%d: %s has no doc comment", p.Filename, p.Line, name))
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if !d.Name.IsExported() || d.Doc != nil {
				continue
			}
			if d.Recv == nil {
				report(d, d.Name.Name)
			} else if owner := receiver(d.Recv.List[0].Type); ast.IsExported(owner) && !wellKnown[d.Name.Name] {
				report(d, owner+"."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
						report(s, s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
							report(s, name.Name)
						}
					}
				}
			}
		}
	}
	return bad
}

// wellKnown lists methods whose meaning the standard library defines.
var wellKnown = map[string]bool{"Error": true, "Unwrap": true, "String": true}

// receiver returns the type's name in a receiver such as *List[T].
func receiver(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func TestEveryExportedNameHasADocComment(t *testing.T) {
	commented := map[string]bool{} // folders with a package comment
	for _, name := range sourceFiles(t) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Dir(filepath.ToSlash(name))
		commented[folder] = commented[folder] || file.Doc != nil
		if file.Name.Name == "main" {
			continue // nobody can import its names
		}
		for _, line := range undocumented(fset, file) {
			t.Error(line)
		}
	}
	for folder, ok := range commented {
		if !ok {
			t.Errorf("%s: no file has a package comment", folder)
		}
	}
}

// A reader sees all of the locks' documentation in one sitting.
func TestGoDocOfTheLocksIsShort(t *testing.T) {
	out, err := exec.Command("go", "doc", "-all", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out, []byte("\n")); n < 500 || n > 1050 {
		t.Errorf("go doc -all prints %d lines; want at most 1,050", n)
	}
}

func TestAMissingDocCommentIsReported(t *testing.T) {
	const source = `package p

// Good is documented.
type Good struct{}

// Do is documented.
func (Good) Do() {}
func (Good) Bad() {}
func (*Good) Error() string { return "" }
func (hidden) Fine() {}

type hidden struct{}
type Naked int

// Both are spoken for.
const (
	A = iota
	B
)

var C, d = 1, 2 // C has a comment behind it
var E = 1

func F[T any]() {}
func g()        {}
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := undocumented(fset, file)
	want := []string{
		"p.go:8: Good.Bad has no doc comment",
		"p.go:13: Naked has no doc comment",
		"p.go:22: E has no doc comment",
		"p.go:24: F has no doc comment",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
