package complete

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/locks"
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

// A server that accepts connections and says nothing keeps the TAB key for half a second.
func TestCompletionOfASilentServerEndsSoon(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	g := conn.NewFlags()
	g.SystemFile = ""
	cmd := &cobra.Command{Use: "status LOCK"}
	g.Register(cmd)
	if err := cmd.Flags().Parse([]string{"--server", "zk://" + silent.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if names := lockNames(g, cmd, ""); names != nil {
		t.Errorf("names %q", names)
	}
	if took := time.Since(start); took < patience || took > 10*patience {
		t.Errorf("it took %v; want %v", took, patience)
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
		var queue []locks.Place
		for _, e := range test.queue {
			queue = append(queue, locks.Place{Entry: e})
		}
		if got := inWords(see.Lock{Queue: queue}, now); got != test.want {
			t.Errorf("%q; want %q", got, test.want)
		}
	}
}
