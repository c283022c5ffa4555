package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/reference/go.md names every exported type, function, method and variable of these packages, by their directories,
// and nothing else.
var referenced = map[string]string{"holdfast": ".", "once": "once", "shards": "shards"}

func TestTheReferenceHasTheExportedNames(t *testing.T) {
	text, err := os.ReadFile("docs/reference/go.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range referenced {
		_, section, ok := strings.Cut(string(text), "\n## Package "+name+"\n")
		if !ok {
			t.Fatalf("no section about package %s", name)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		t.Run(name, func(t *testing.T) { hasTheExportedNames(t, section, dir) })
	}
}

func hasTheExportedNames(t *testing.T, section, dir string) {
	var got []string
	for _, m := range regexp.MustCompile("`([A-Z]\\w*)`").FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) && !wellKnown[d.Name.Name] {
					want = append(want, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						want = append(want, s.Name.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							want = append(want, name.Name)
						}
					}
				}
			}
		}
	}
	want = slices.DeleteFunc(want, func(name string) bool { return !ast.IsExported(name) || name == "Option" })
	slices.Sort(want)
	slices.Sort(got)
	want, got = slices.Compact(want), slices.Compact(got)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("docs/reference/go.md does not name %s", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("docs/reference/go.md names %s, which is not exported", name)
		}
	}
}
