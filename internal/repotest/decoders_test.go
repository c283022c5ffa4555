package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fuzzed names the fuzz target for each function that reads outside input. The part before the colon is a
// package, if it is not the decoder's own.
var fuzzed = map[string]string{
	"holdfast.ParseLayout":               "FuzzParseLayout",
	"once.parseMark":                     "FuzzMark",
	"internal/queue.ReadNote":            "FuzzNote",
	"internal/queue.ParseNote":           "FuzzNote",
	"internal/queue.ValidatePath":        "zkproto:FuzzValidatePath",
	"internal/queue/names.Grammar.Parse": "FuzzChildName",

	// Package zkproto's own test ensures that FuzzDecode covers every message.
	"zkproto.*.Decode":       "FuzzDecode",
	"internal/balance.Parse": "FuzzParse", "internal/balance.ParseWorker": "FuzzParse",

	"zkproto.DecodeACLs": "FuzzDecode", "zkproto.decodeMultiHeader": "FuzzDecode",
	"zkproto.ReadFrame":       "FuzzReadFrame",
	"zkproto.ValidatePath":    "FuzzValidatePath",
	"zkproto.ParseDirectives": "FuzzParseDirectives", "zkproto.unquoteDirective": "FuzzParseDirectives",

	"zk.ParseURL":            "FuzzParseURL",
	"zk.splitServer":         "FuzzParseURL",
	"zk.ValidatePath":        "zkproto:FuzzValidatePath",
	"zk.validateNew":         "FuzzNewPath",
	"zk.parseChallenge":      "FuzzChallenge",
	"zk/admin.parseEnsemble": "FuzzParseEnsemble", "zk/admin.dataReply.Decode": "zkproto:FuzzDecode",
	"zk.dataReply.Decode": "FuzzServer", "zk.multiReply.Decode": "FuzzServer", "zk.multiReadReply.Decode": "FuzzServer",

	"zkserver.request.decode":               "FuzzRequest",
	"zkserver.Server.decodeMulti":           "FuzzRequest",
	"zkserver.request.decodeWatches":        "FuzzRequest",
	"zkserver.conn.readAll":                 "FuzzHandshake",
	"zkserver/internal/tree.Tree.LoadNode":  "FuzzLoadNode",
	"zkserver/internal/tree.node.decode":    "FuzzLoadNode",
	"zkserver/internal/tree.DecodeNode":     "FuzzLoadNode",
	"zkserver/internal/tree.DecodeChildren": "FuzzLoadNode",
	"zkserver/internal/tree.parseNetwork":   "FuzzParseNetwork",
	"zkserver/internal/tree.parseUsage":     "FuzzParseUsage",
	"zkserver.decodeSession":                "FuzzSession",
	"zkserver.ParseUsers":                   "zkserver/internal/login:FuzzParseUsers",
	"zkserver/internal/login.ParseUsers":    "FuzzParseUsers",
	"zkserver.loadNode":                     "zkserver/internal/tree:FuzzLoadNode",
	"zkserver/internal/store.dispatch":      "FuzzDispatch",
	"zkserver/internal/store.splitRecord":   "FuzzSplitRecord",
	"zkserver/internal/store.parseMark":     "FuzzParseMark",
	"zkserver/internal/store.decodeHeader":  "FuzzJournal",
	"zkserver/internal/store.parseName":     "FuzzParseName",
	"zkserver/internal/store.parseBoot":     "FuzzParseBoot",
}

// decoderName matches the names of functions that parse messages or texts.
var decoderName = regexp.MustCompile(`^(?i:decode|parse|unquote|split|validatepath|validatenew|readframe|readall|loadnode|dispatch|readnote)`)

// decoders returns the functions of a package that are named like decoders.
func decoders(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	pkg := dir
	if dir == "." {
		pkg = module
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !decoderName.MatchString(f.Name.Name) {
				continue
			}
			full := pkg + "." + f.Name.Name
			if f.Recv != nil {
				full = pkg + "." + receiver(f.Recv.List[0].Type) + "." + f.Name.Name
			}
			found = append(found, full)
		}
	}
	return found
}

// Every decoder has a fuzz target with a corpus in the repository.
func TestEveryDecoderIsFuzzed(t *testing.T) {
	var all []string
	for _, dir := range []string{".", "internal/balance", "internal/queue", "internal/queue/names", "once", "zkproto", "zk", "zk/admin", "zkserver", "zkserver/internal/tree", "zkserver/internal/store", "zkserver/internal/login"} {
		all = append(all, decoders(t, dir)...)
	}
	used := make(map[string]bool)
	for _, full := range all {
		dir, name, _ := strings.Cut(full, ".")
		key := full
		if fuzzed[key] == "" {
			key = dir + ".*." + name[strings.LastIndexByte(name, '.')+1:]
		}
		used[key] = true
		target := fuzzed[key]
		if other, name, ok := strings.Cut(target, ":"); ok {
			dir, target = other, name
		} else if dir == module {
			dir = "."
		}
		if target == "" {
			t.Errorf("%s is not fuzzed: write a target and name it here", full)
			continue
		}
		if !declares(t, dir, target) {
			t.Errorf("%s does not declare %s, the target of %s", dir, target, full)
		}
		if corpus, err := os.ReadDir(filepath.Join(dir, "testdata", "fuzz", target)); len(corpus) == 0 {
			t.Errorf("%s: %s has no corpus in the repository: %v", dir, target, err)
		}
	}
	for key := range fuzzed {
		if !used[key] {
			t.Errorf("%s no longer exists: remove it from this list", key)
		}
	}
}

// declares reports whether a package has a fuzz target.
func declares(t *testing.T, dir, target string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+target+"(f *testing.F)") {
			return true
		}
	}
	return false
}
