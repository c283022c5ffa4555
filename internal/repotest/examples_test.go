package repotest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// exampled lists the packages whose exported types all need an example that runs.
var exampled = []string{".", "once", "reserve", "shards", "zk", "zk/admin", "zktest"}

// Every exported type has an example with checked output, of the type or of a method.
func TestEveryExportedTypeHasAnExample(t *testing.T) {
	for _, dir := range exampled {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var tests []*ast.File
		var types []string
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				tests = append(tests, file)
				continue
			}
			for _, decl := range file.Decls {
				d, ok := decl.(*ast.GenDecl)
				if !ok || d.Tok != token.TYPE {
					continue
				}
				for _, spec := range d.Specs {
					if name := spec.(*ast.TypeSpec).Name; name.IsExported() {
						types = append(types, name.Name)
					}
				}
			}
		}
		if len(types) == 0 {
			t.Errorf("%s has no exported type", dir)
		}
		shown := make(map[string]bool)
		for _, e := range doc.Examples(tests...) {
			if e.Output != "" || e.EmptyOutput {
				name, _, _ := strings.Cut(e.Name, "_")
				shown[name] = true
			}
		}
		for _, name := range types {
			if !shown[name] {
				t.Errorf("%s.%s has no example with output: write Example%s", dir, name, name)
			}
		}
	}
}
