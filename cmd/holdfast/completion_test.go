//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
)

// Bash puts the common beginning of several names into the command line without quotes.
func TestNamesAreOfferedOnlyIfEveryShellTakesThemLiterally(t *testing.T) {
	for _, name := range []string{"nightly", "db/migrate", "a-b_c.d", "x@y", "50%", "a:b", "schöne", "日本", "1,2", "/full/path"} {
		if !literal(name) {
			t.Errorf("%q is not offered", name)
		}
	}
	for _, c := range "$`\\\"'|&;<>()[]{}*?!#~=^ \t\n\x00\u202e\u00a0\ufeff\ufffd" {
		if literal("a" + string(c) + "b") {
			t.Errorf("a name with %q is offered", c)
		}
	}
	for _, name := range []string{"", "-rf", "~", "=ls", "+x", "%1", "@x", ":q", "$(touch x)", "a\xffb"} {
		if literal(name) {
			t.Errorf("%q is offered", name)
		}
	}
}

// The TAB key neither makes the directory of the store nor starts a host for it.
func TestCompletionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	complete := func(store string) string {
		cmd := exec.Command("holdfast", "__complete", "status", "")
		cmd.Env = append(os.Environ(), "HOME="+dir, "HOLDFAST_CONFIG=/dev/null", "HOLDFAST_SERVER=file://"+store)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := complete(filepath.Join(dir, "none")); !strings.HasPrefix(out, ":") {
		t.Errorf("completions %q", out)
	}
	store := filepath.Join(dir, "used")
	cmd := exec.Command("holdfast", "serve", "--data-dir", store, "--linger", "10ms")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	before, err := os.ReadDir(store)
	if err != nil {
		t.Fatal(err)
	}
	if out := complete(store); !strings.HasPrefix(out, ":") {
		t.Errorf("completions %q", out)
	}
	after, err := os.ReadDir(store)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files in the store became %d (%v)", len(before), len(after), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v (%v)", left, err)
	}
}

// listenSilently returns the address of a server that accepts connections and says nothing.
func listenSilently(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A server that accepts connections and says nothing keeps the TAB key for half a second.
func TestCompletionOfASilentServerEndsSoon(t *testing.T) {
	t.Parallel()
	silent := listenSilently(t)
	g := conn.NewFlags()
	g.SystemFile = ""
	cmd := newStatus(g)
	g.Register(cmd)
	if err := cmd.Flags().Parse([]string{"--server", "zk://" + silent}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if names := lockNames(g, cmd, ""); names != nil {
		t.Errorf("names %q", names)
	}
	if took := time.Since(start); took < completionPatience || took > 10*completionPatience {
		t.Errorf("it took %v; want %v", took, completionPatience)
	}
}

// The values that TAB offers are those that the flags accept.
func TestOfferedLayoutsAreAllLayouts(t *testing.T) {
	_, err := holdfast.ParseLayout("none of them")
	_, list, _ := strings.Cut(err.Error(), "want one of ")
	var want []string
	for _, name := range strings.Split(list, ", ") {
		if regexp.MustCompile(`^[a-z-]+$`).MatchString(name) {
			want = append(want, name)
		}
	}
	got := slices.Clone(layoutNames)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("TAB offers %q; there are %q", got, want)
	}
}

func TestStatesOfOfferedNames(t *testing.T) {
	now := time.Now()
	held := holdfast.Entry{Held: true, Owner: "bob@h:1", HeldSince: now.Add(-3 * time.Minute)}
	waits := holdfast.Entry{Owner: "al@h:2"}
	for _, test := range []struct {
		queue []holdfast.Entry
		want  string
	}{
		{nil, "free"},
		{[]holdfast.Entry{waits}, "waiting"},
		{[]holdfast.Entry{held}, "held by bob@h:1 for 3m"},
		{[]holdfast.Entry{held, waits, waits}, "held by bob@h:1 for 3m, 2 waiting"},
		{[]holdfast.Entry{held, held}, "held by bob@h:1 for 3m"},
	} {
		if got := inWords(see.Lock{Queue: placed(test.queue)}, now); got != test.want {
			t.Errorf("%q; want %q", got, test.want)
		}
	}
}
