package names

import (
	"errors"
	"regexp"
	"testing"
)

// Node names as the peers write them, from their sources.
func TestLayoutsMakeTheNamesOfTheirLibraries(t *testing.T) {
	const uuid, hex = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`, `[0-9a-f]{32}`
	tests := []struct {
		layout Layout
		side   Side
		want   string
		unique bool
	}{
		{Curator, Mutex, `_c_` + uuid + `-lock-`, true},
		{Curator, Write, `_c_` + uuid + `-__WRIT__`, true},
		{Curator, Read, `_c_` + uuid + `-__READ__`, true},
		{LeaderLatch, Mutex, `_c_` + uuid + `-latch-`, true},
		{Kazoo, Mutex, hex + `__lock__`, true},
		{Kazoo, Write, hex + `__lock__`, true},
		{Kazoo, Read, hex + `__rlock__`, true},
		{GoZookeeper, Mutex, `_c_` + hex + `-lock-`, true},
		{WriteLock, Mutex, `x--72-`, false},
		{HostRW, Write, `.+-W-`, false},
		{HostRW, Read, `.+-R-`, false},
		{SessionID, Mutex, `lock--72-`, false},
		{Article, Mutex, `lock--72`, false},
		{Named("db"), Mutex, `db_lock_`, false},
	}
	for _, tt := range tests {
		a, err := Compile(tt.layout).Attempt(tt.side, -72)
		if err != nil {
			t.Errorf("%s, %v: %v", tt.layout.Name, tt.side, err)
			continue
		}
		if !regexp.MustCompile("^"+tt.want+"$").MatchString(a.Prefix) || a.Unique != tt.unique {
			t.Errorf("%s, %v: got %q, unique %v; want %s, %v", tt.layout.Name, tt.side, a.Prefix, a.Unique, tt.want, tt.unique)
		}
		if b, _ := Compile(tt.layout).Attempt(tt.side, -72); (a.Prefix != b.Prefix) != tt.unique || a.ID == b.ID {
			t.Errorf("%s, %v: two attempts are %q and %q", tt.layout.Name, tt.side, a.Prefix, b.Prefix)
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
		{Curator, "_c_x-__READ__0000000007", is{7, true, true}},
		{Curator, "_c_x-lock--000000001", is{-1, false, true}},
		{Curator, "_c_x-lock--2147483648", is{-2147483648, false, true}},
		{Curator, "_c_x-lock-2147483648", no}, // exceeds int32
		{Curator, "_c_x-lock-+000000001", no},
		{Curator, "_c_x-lock-00000000012", no},
		{Curator, "_c_x-lease-0000000001", no},
		{Curator, "x__lock__0000000001", no},
		{Kazoo, "x__lock__0000000001", is{1, false, true}},
		{Kazoo, "x__rlock__0000000001", is{1, true, true}},
		{Kazoo, "_c_x-lock-0000000001", no},
		{GoZookeeper, "_c_x-lock-0000000001", is{1, false, true}},
		{GoZookeeper, "x__lock__0000000001", is{1, false, true}},
		{WriteLock, "x-72-0000000001", is{1, false, true}},
		{WriteLock, "x--72--000000001", is{-1, false, true}},
		{WriteLock, "x-72--1000000000", is{-1000000000, false, true}},
		{WriteLock, "x-72-1000000000", is{1000000000, false, true}},
		{HostRW, "web-1-R-0000000003", is{3, true, true}},
		{HostRW, "web-1-W-0000000003", is{3, false, true}},
		{SessionID, "lock-72-0000000003", is{3, false, true}},
		{SessionID, "block-72-0000000003", no},
		{SessionID, "lock-720000000003", no},
		{Article, "lock-720000000003", is{3, false, true}},
		{Article, "lock--722147483647", is{2147483647, false, true}},
		{Article, "lock-72-2147483648", is{-2147483648, false, true}},
		{Article, "lock-72-000000001", is{-1, false, true}},
		{Article, "block-720000000003", no},
		{Named("b"), "b_lock_0000000003", is{3, false, true}},
		{Named("b"), "a_b_lock_0000000003", no}, // another lock, whose name has the same end
	}
	for _, tt := range tests {
		c, ok := Compile(tt.layout).Parse(tt.name)
		if got := (is{c.Seq, c.Shared, ok}); got != tt.want {
			t.Errorf("%s: %s: got %+v; want %+v", tt.layout.Name, tt.name, got, tt.want)
		}
	}
}

func TestLayoutThatCannotWorkIsRefused(t *testing.T) {
	own := Layout{Name: "own", Mutex: "job.{uuid}.", Exclusive: []string{"job.*."}, Container: true}
	if _, err := Compile(own).Attempt(Mutex, 1); err != nil {
		t.Errorf("a program's own layout: %v", err)
	}
	article := Article
	article.Name = "ours"
	if a, err := Compile(article).Attempt(Mutex, 72); err != nil || a.Prefix != "lock-72" {
		t.Errorf("a copy of Article: %q, %v; its peers have literally these names", a.Prefix, err)
	}
	if a, err := Compile(Layout{Name: "number", Mutex: "{}", Exclusive: []string{""}}).Attempt(Mutex, 72); err != nil || a.Prefix != "" || a.Unique {
		t.Errorf("a number alone: %+v, %v", a, err)
	}
	deaf := own
	deaf.Exclusive = []string{"work.*."}
	for _, tt := range []struct {
		layout Layout
		side   Side
	}{
		{own, Read},
		{deaf, Mutex}, // would not see its own node
		{GoZookeeper, Write},
		{Named(""), Mutex},
		{Named("a_lock_b"), Mutex},
		{Named("a_lock"), Mutex},
		{Named("a/b"), Mutex},
		{Named("{uuid}"), Mutex},
		{Layout{}, Mutex},
		// The text of a placeholder runs on into the number.
		{Layout{Name: "own", Mutex: "ex{hex}", Exclusive: []string{"ex*"}}, Mutex},
		{Layout{Name: "own", Mutex: "ex{uuid}", Exclusive: []string{"ex*"}}, Mutex},
		{Layout{Name: "own", Mutex: "ex{hex}0", Exclusive: []string{"ex*0"}}, Mutex},
		{Layout{Name: "own", Mutex: "job-{session}", Exclusive: []string{"job-*"}}, Mutex},
		{Layout{Name: "own", Mutex: "job-{host}", Exclusive: []string{"job-*"}}, Mutex},
		{Layout{Name: "own", Mutex: "lock-{session}", Exclusive: []string{"lock-*", "job-*"}}, Mutex},
		{Layout{Name: "own", Mutex: "w.{uuid}.", Write: "w.{uuid}.", Read: "r.{uuid}", Exclusive: []string{"w.*."}, Shared: []string{"r.*"}}, Mutex},
	} {
		if a, err := Compile(tt.layout).Attempt(tt.side, 1); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: got %q, %v; want ErrLayout", tt.layout.Name, a.Prefix, err)
		}
	}
}

// The same text in braces makes the same queue, and different text another one.
func TestPatternsAreToldApartByTheirText(t *testing.T) {
	queue := func(pattern string) string {
		l, err := Pattern(pattern, pattern)
		if err != nil {
			t.Fatal(err)
		}
		return Compile(l).Queue
	}
	if queue("lock-{session}-") != Compile(SessionID).Queue {
		t.Error("the pattern of a known layout makes another lock")
	}
	if queue("job-{uuid}.") != queue("job-{host}{session}.") {
		t.Error("the text in the braces makes another lock")
	}
	if queue("job-{uuid}.") == queue("jobs-{uuid}.") {
		t.Error("different text makes the same lock")
	}
}
