package zkserver

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readingOrder is the order in which this package's files are best read: the server, a
// connection's reader, the owner and the turns, the operations, the commit and the answer, and last
// the files that all of them use.
const readingOrder = `
	doc check memory_conn server config reader inline owner turns
	operate write read auth words set_limits alive session ending limits answer commit
	conn tell unread files admission now queue request operations stage
	words_stat words_dump words_print footprint stats limit counters histogram unsent stop
`

// mostBackReferences is the limit of pairs of files where the later file in the order uses the
// earlier one.
const mostBackReferences = 20

// With few exceptions, a file calls functions and methods of itself and of later files only. So the
// package can be read from top to bottom. Other references do not count.
func TestFilesReadTopToBottom(t *testing.T) {
	position := make(map[string]int)
	for i, name := range strings.Fields(readingOrder) {
		position[name] = i
	}
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") || strings.HasSuffix(name, "_windows.go") || strings.HasSuffix(name, "_bsd.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	base := func(pos token.Pos) string {
		name := strings.TrimSuffix(filepath.Base(fset.Position(pos).Filename), ".go")
		for _, system := range []string{"_linux", "_unix"} {
			name = strings.TrimSuffix(name, system)
		}
		if _, ok := position[name]; !ok {
			t.Fatalf("%s.go has no place in readingOrder", name)
		}
		return name
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	cfg := types.Config{Importer: importer.ForCompiler(fset, "source", nil), Error: func(error) {}}
	pkg, _ := cfg.Check("holdfast/zkserver", fset, files, info)
	all, back := make(map[string]bool), make(map[string]bool)
	for id, used := range info.Uses {
		if f, ok := used.(*types.Func); !ok || f.Pkg() != pkg {
			continue
		}
		from, to := base(id.Pos()), base(used.Pos())
		if from == to {
			continue
		}
		reference := fmt.Sprint(from, " → ", to)
		if all[reference] = true; position[from] > position[to] {
			back[reference] = true
		}
	}
	t.Logf("%d of %d references point back", len(back), len(all))
	if len(all) < 50 || len(back) > mostBackReferences {
		t.Errorf("%d of %d references point back up; want at most %d:\n%s", len(back), len(all), mostBackReferences, strings.Join(slices.Sorted(maps.Keys(back)), "\n"))
	}
}
