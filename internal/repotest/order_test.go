package repotest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A reading is the best order to read the files of a package: callers first, and last the files
// that all of them use.
type reading struct {
	dir, pkg string
	order    string
	atMost   int // bound on pairs of files that point back: the later one uses the earlier one
}

var readings = []reading{
	{
		dir: ".", pkg: "holdfast", atMost: 2,
		order: `
			doc lend mutex tree rwmutex election detached nodelock slots semaphore turnstile multilock
			lock prefer reentry hold observer supersede list revoke options layout errors`,
	},
	{
		// A tenure calls the line and the keeping when its last Holder leaves, and they call the tenure.
		dir: "internal/tenure", pkg: "holdfast/internal/tenure", atMost: 4,
		order: `keep keep_mark line tenure rewrite`,
	},
	{
		dir: "shards", pkg: "holdfast/shards", atMost: 0,
		order: `shards assignment worker leader plan locks options`,
	},
	{
		dir: "once", pkg: "holdfast/once", atMost: 0,
		order: `once job turn call marks holder`,
	},
	{
		dir: "internal/queue", pkg: "holdfast/internal/queue", atMost: 0,
		order: `doc wait supersede await kept detached join shared_list remove find listing watermark around absent kind directory place note arrival pace queue`,
	},
	{
		dir: "internal/queue/names", pkg: "holdfast/internal/queue/names", atMost: 0,
		order: `doc list ahead process prefer slots detached detect layout attempt grammar contender`,
	},
	{
		dir: "internal/cli/mcp", pkg: "holdfast/internal/cli/mcp", atMost: 0,
		order: `mcp blockers list take release agent link holds endpoint news tool stream requests claim stuck settings paths`,
	},
	{
		dir: "internal/cli/top", pkg: "holdfast/internal/cli/top", atMost: 0,
		order: `top model view screen dialog selection feed`,
	},
	{
		dir: "internal/cli/see", pkg: "holdfast/internal/cli/see", atMost: 0,
		order: `around status listing filter document lock`,
	},
	{
		dir: "internal/cli/usage", pkg: "holdfast/internal/cli/usage", atMost: 0,
		order: `usage overview screen groups commands fill`,
	},
	{
		dir: "internal/cli/doctor", pkg: "holdfast/internal/cli/doctor", atMost: 1,
		order: `doctor server tls locks store machine owner finding`,
	},
	{
		dir: "internal/cli/serve", pkg: "holdfast/internal/cli/serve", atMost: 2,
		order: `serve listen config reload auth limits backup check`,
	},
	{
		dir: "internal/cli/root", pkg: "holdfast/internal/cli/root", atMost: 1,
		order: `root topics completion beside version`,
	},
	{
		dir: "internal/cli/ls", pkg: "holdfast/internal/cli/ls", atMost: 0,
		order: `ls live`,
	},
	{
		dir: "internal/cli/graph", pkg: "holdfast/internal/cli/graph", atMost: 0,
		order: `graph document`,
	},
	{
		dir: "internal/cli/act", pkg: "holdfast/internal/cli/act", atMost: 0,
		order: `doc break forget carry audit`,
	},
	{
		dir: "internal/cli/bench", pkg: "holdfast/internal/cli/bench", atMost: 0,
		order: `bench ground guard histogram`,
	},
	{
		dir: "internal/cli/hold", pkg: "holdfast/internal/cli/hold", atMost: 0,
		order: `doc run_command lock unlock run handover detached acquire tell status_file metrics_file file notice stuck nested view locker once min_hold environment stdin plan room kinds slot_tree metrics answer`,
	},
	{
		dir: "internal/cli/hold/elect", pkg: "holdfast/internal/cli/hold/elect", atMost: 0,
		order: `elect elect_http`,
	},
	{
		dir: "internal/cli/conn", pkg: "holdfast/internal/cli/conn", atMost: 4,
		order: `doc config_view flags config environment stay will tick server contact tls_auth name session`,
	},
	{
		dir: "internal/cli/term", pkg: "holdfast/internal/cli/term", atMost: 4,
		order: `doc flags address fault exit_codes log say progress screen output color format duration`,
	},
	{
		// The server, a connection's reader, the owner and the turns, the requests, the four-letter words, the commit
		// and the answer, and last the files that all of them use.
		dir: "zkserver", pkg: "holdfast/zkserver", atMost: 9,
		order: `
			doc check replay memory_conn server config reader inline owner turns
			operate write read auth words words_dump words_stat words_print set_limits alive session bound ending telling answer commit
			tell unread buffers stop conn admission files limits now queue request operations stage
			footprint stats limit counters histogram unsent`,
	},
}

// Someone who reads the files in order has seen nearly everything that a file uses, or finds it
// further down. References are calls of functions and methods of the package.
func TestFilesReadTopToBottom(t *testing.T) {
	for _, r := range readings {
		t.Run(r.dir, func(t *testing.T) {
			all, back := references(t, r)
			t.Logf("%d of %d references point back", len(back), len(all))
			if len(all) == 0 || len(back) > r.atMost {
				t.Errorf("%d of %d references point back up; want at most %d:\n%s", len(back), len(all), r.atMost, strings.Join(slices.Sorted(maps.Keys(back)), "\n"))
			}
		})
	}
}

// exportOf opens what the compiler has written of a package for those that import it. Type checking from source takes
// twenty times as long.
func exportOf(path string) (io.ReadCloser, error) {
	files, err := exports()
	if err != nil {
		return nil, err
	}
	return os.Open(files[path])
}

var exports = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "list", "-deps", "-export", "-f", "{{.ImportPath}} {{.Export}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w", err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		files[path] = file
	}
	return files, nil
})

// references returns the pairs of files in which one uses the other, and the pairs that point back.
func references(t *testing.T, r reading) (all, back map[string]bool) {
	t.Helper()
	position := make(map[string]int)
	for i, name := range strings.Fields(r.order) {
		position[name] = i
	}
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(r.dir, "*.go"))
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
			t.Fatalf("%s.go has no place in the order of %s", name, r.dir)
		}
		return name
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	cfg := types.Config{Importer: importer.ForCompiler(fset, "gc", exportOf), Error: func(error) {}}
	pkg, _ := cfg.Check(r.pkg, fset, files, info)
	all, back = make(map[string]bool), make(map[string]bool)
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
	return all, back
}

// maxMethods is how many methods a type of the command has at most. A type with more has more than one responsibility.
const maxMethods = 15

func TestTypesHaveFewMethods(t *testing.T) {
	methods := make(map[string]int)
	for _, name := range sourceFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(name))
		if !within(dir, "cmd") && !within(dir, "internal/cli") || strings.HasSuffix(name, "_other.go") || strings.HasSuffix(name, "_windows.go") {
			continue // the others have what one system has, again
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[dir+" "+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	if len(methods) < 50 {
		t.Fatalf("%d types; this test looks in the wrong place", len(methods))
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > maxMethods {
			t.Errorf("%s has %d methods; want at most %d", name, n, maxMethods)
		}
	}
}
