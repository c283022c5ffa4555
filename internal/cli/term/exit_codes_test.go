package term

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// Every code in fault.go has its line in the table, and the other way round.
func TestTableHasAllExitCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0"}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Exit") {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				want = append(want, lit.Value)
			}
		}
		return true
	})
	var got []string
	for _, e := range exitCodes {
		got = append(got, strings.TrimSuffix(e.code, "+N"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table has %q; want %q", got, want)
	}
}
