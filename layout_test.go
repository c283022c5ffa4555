package holdfast

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"holdfast/zk"
)

// Names as the peers write them, from their sources.
func TestLayoutsMakeTheNamesOfTheirLibraries(t *testing.T) {
	const uuid, hex = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`, `[0-9a-f]{32}`
	tests := []struct {
		layout Layout
		side   side
		want   string
		unique bool
	}{
		{LayoutCurator, sideMutex, `_c_` + uuid + `-lock-`, true},
		{LayoutCurator, sideWrite, `_c_` + uuid + `-__WRIT__`, true},
		{LayoutCurator, sideRead, `_c_` + uuid + `-__READ__`, true},
		{LayoutLeaderLatch, sideMutex, `_c_` + uuid + `-latch-`, true},
		{LayoutKazoo, sideMutex, hex + `__lock__`, true},
		{LayoutKazoo, sideWrite, hex + `__lock__`, true},
		{LayoutKazoo, sideRead, hex + `__rlock__`, true},
		{LayoutGoZookeeper, sideMutex, `_c_` + hex + `-lock-`, true},
		{LayoutWriteLock, sideMutex, `x--72-`, false},
		{LayoutHostRW, sideWrite, `.+-W-`, false},
		{LayoutHostRW, sideRead, `.+-R-`, false},
		{LayoutSessionID, sideMutex, `lock--72-`, false},
		{LayoutArticle, sideMutex, `lock--72`, false},
		{LayoutNamed("db"), sideMutex, `db_lock_`, false},
	}
	for _, tt := range tests {
		a, err := tt.layout.compile().attempt(tt.side, -72)
		if err != nil {
			t.Errorf("%s, %v: %v", tt.layout.Name, tt.side, err)
			continue
		}
		if !regexp.MustCompile("^"+tt.want+"$").MatchString(a.prefix) || a.unique != tt.unique {
			t.Errorf("%s, %v: got %q, unique %v; want %s, %v", tt.layout.Name, tt.side, a.prefix, a.unique, tt.want, tt.unique)
		}
		if b, _ := tt.layout.compile().attempt(tt.side, -72); (a.prefix != b.prefix) != tt.unique || a.id == b.id {
			t.Errorf("%s, %v: two attempts are %q and %q", tt.layout.Name, tt.side, a.prefix, b.prefix)
		}
	}
}

func TestLayoutsReadNumbersAndKinds(t *testing.T) {
	type is struct {
		seq    int32
		shared bool
		in     bool
	}
	no := is{}
	tests := []struct {
		layout Layout
		name   string
		want   is
	}{
		{LayoutCurator, "_c_x-__READ__0000000007", is{7, true, true}},
		{LayoutCurator, "_c_x-lock--000000001", is{-1, false, true}},
		{LayoutCurator, "_c_x-lock--2147483648", is{-2147483648, false, true}},
		{LayoutCurator, "_c_x-lock-2147483648", no}, // no int32
		{LayoutCurator, "_c_x-lock-+000000001", no},
		{LayoutCurator, "_c_x-lock-00000000012", no},
		{LayoutCurator, "_c_x-lease-0000000001", no},
		{LayoutCurator, "x__lock__0000000001", no},
		{LayoutKazoo, "x__lock__0000000001", is{1, false, true}},
		{LayoutKazoo, "x__rlock__0000000001", is{1, true, true}},
		{LayoutKazoo, "_c_x-lock-0000000001", no},
		{LayoutGoZookeeper, "_c_x-lock-0000000001", is{1, false, true}},
		{LayoutGoZookeeper, "x__lock__0000000001", is{1, false, true}},
		{LayoutWriteLock, "x-72-0000000001", is{1, false, true}},
		{LayoutWriteLock, "x--72--000000001", is{-1, false, true}},
		{LayoutWriteLock, "x-72--1000000000", is{-1000000000, false, true}},
		{LayoutWriteLock, "x-72-1000000000", is{1000000000, false, true}},
		{LayoutHostRW, "web-1-R-0000000003", is{3, true, true}},
		{LayoutHostRW, "web-1-W-0000000003", is{3, false, true}},
		{LayoutSessionID, "lock-72-0000000003", is{3, false, true}},
		{LayoutSessionID, "block-72-0000000003", no},
		{LayoutSessionID, "lock-720000000003", no},
		{LayoutArticle, "lock-720000000003", is{3, false, true}},
		{LayoutArticle, "lock--722147483647", is{2147483647, false, true}},
		{LayoutArticle, "lock-72-2147483648", is{-2147483648, false, true}},
		{LayoutArticle, "lock-72-000000001", is{-1, false, true}},
		{LayoutArticle, "block-720000000003", no},
		{LayoutNamed("b"), "b_lock_0000000003", is{3, false, true}},
		{LayoutNamed("b"), "a_b_lock_0000000003", no}, // another lock, whose name ends alike
	}
	for _, tt := range tests {
		c, ok := tt.layout.compile().parse(tt.name)
		if got := (is{c.seq, c.shared, ok}); got != tt.want {
			t.Errorf("%s: %s: got %+v; want %+v", tt.layout.Name, tt.name, got, tt.want)
		}
	}
}

func TestLayoutThatCannotWorkIsRefused(t *testing.T) {
	own := Layout{Name: "own", Mutex: "job.{uuid}.", Exclusive: []string{"job.*."}, Parent: zk.Container}
	if _, err := own.compile().attempt(sideMutex, 1); err != nil {
		t.Errorf("a program's own: %v", err)
	}
	deaf := own
	deaf.Exclusive = []string{"work.*."}
	for _, tt := range []struct {
		layout Layout
		side   side
	}{
		{own, sideRead},
		{deaf, sideMutex}, // would not see itself
		{LayoutGoZookeeper, sideWrite},
		{LayoutNamed(""), sideMutex},
		{LayoutNamed("a_lock_b"), sideMutex},
		{LayoutNamed("a_lock"), sideMutex},
		{LayoutNamed("a/b"), sideMutex},
		{LayoutNamed("{uuid}"), sideMutex},
		{Layout{}, sideMutex},
	} {
		if a, err := tt.layout.compile().attempt(tt.side, 1); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: got %q, %v; want ErrLayout", tt.layout.Name, a.prefix, err)
		}
	}
}

func TestParseLayout(t *testing.T) {
	for _, name := range []string{
		"curator", "leaderlatch", "kazoo", "go-zookeeper", "writelock", "hostrw", "sessionid", "article", "named:db",
		"form:lock-", "form:lock-{session}", "form:job.{host}.{uuid}.", "form:n_{hex}", "form:{uuid}.job", "form:_c_{uuid}-lock-",
	} {
		if l, err := ParseLayout(name); err != nil || l.Name != name {
			t.Errorf("%s: %v, %v", name, l.Name, err)
		}
	}
	for name, say := range map[string]string{
		"": "want one of", "zookeeper": "form:PATTERN", "named:": "must not be empty", "named:a_lock_b": "_lock_",
		"form:": "fits every node", "form:{uuid}": "fits every node", "form:{host}-job-{uuid}": "fits every node",
		"form:a/b": "no /", "form:a-*": "no *", "form:{name}-": "braces", "form:a{uuid": "braces", "form:a}": "braces", "form:{{uuid}}-x": "braces",
		"form:a\x00": "invalid path", "form:_c_{uuid}-__READ__": "curator", "form:_c_{uuid}": "curator", "form:{uuid}-R-": "hostrw",
	} {
		_, err := ParseLayout(name)
		if !errors.Is(err, ErrLayout) || !strings.Contains(fmt.Sprint(err), say) {
			t.Errorf("%q: %v; want ErrLayout, and %q in it", name, err, say)
		}
	}
}

// The same text in braces makes the same queue, and other text another.
func TestPatternsAreToldApartByTheirText(t *testing.T) {
	queue := func(pattern string) string {
		l, err := ParseLayout("form:" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		return l.compile().queue
	}
	if queue("lock-{session}-") != LayoutSessionID.compile().queue || queue("lock-{session}") != LayoutArticle.compile().queue {
		t.Error("the pattern of a known layout is another lock")
	}
	if queue("job-{uuid}.") != queue("job-{host}{session}.") {
		t.Error("what stands in the braces makes another lock")
	}
	if queue("job-{uuid}.") == queue("jobs-{uuid}.") {
		t.Error("other text makes the same lock")
	}
}
