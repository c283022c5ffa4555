package locks

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// copyOf reads the whole tree.
func copyOf(t *testing.T, c *zk.Client) map[string]Copy {
	t.Helper()
	all := make(map[string]Copy)
	for next := []string{"/"}; len(next) > 0; next = next[1:] {
		path := next[0]
		data, stat, err := c.Get(t.Context(), path)
		if errors.Is(err, zk.ErrNoAuth) {
			all[path] = Copy{Unknown: true}
			continue
		}
		must(t, err)
		children, _, err := c.Children(t.Context(), path)
		must(t, err)
		slices.Sort(children)
		all[path] = Copy{Children: func() []string { return children }, Data: data, Stat: stat}
		for _, name := range children {
			if p := join(path, name); p != "/zookeeper" {
				next = append(next, p)
			}
		}
	}
	return all
}

// wantSame checks that At finds in a copy of the tree what Read has found on the server.
func wantSame(t *testing.T, c *zk.Client, want []waitgraph.Lock) {
	t.Helper()
	nodes := copyOf(t, c)
	var got []waitgraph.Lock
	for _, path := range slices.Sorted(maps.Keys(nodes)) {
		got = append(got, Graph(In(func(path string) (Copy, bool) { n, ok := nodes[path]; return n, ok }, path))...)
	}
	if len(got) != len(want) {
		t.Fatalf("a copy has %d locks; want %d:\n%+v\nwant\n%+v", len(got), len(want), got, want)
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("in a copy\n%+v\nwant\n%+v", got[i], want[i])
		}
	}
}

// The locks of a large directory are found one by one without a list of it for each.
func TestInListsNoSiblings(t *testing.T) {
	const locks, waiters = 500, 3
	nodes := make(map[string]Copy)
	listed := 0
	add := func(path string, children []string) {
		nodes[path] = Copy{Children: func() []string {
			listed += len(children)
			return children
		}}
	}
	var all []string
	for i := range locks {
		name := fmt.Sprintf("lock%03d", i)
		all = append(all, name)
		var queue []string
		for j := range waiters {
			place := fmt.Sprintf("_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-%010d", j)
			queue = append(queue, place)
			add("/app/"+name+"/"+place, nil)
		}
		add("/app/"+name, queue)
	}
	add("/app", all)
	add("/", []string{"app"})
	found := 0
	for path := range nodes {
		found += len(In(func(path string) (Copy, bool) { n, ok := nodes[path]; return n, ok }, path))
	}
	if found != locks {
		t.Errorf("%d locks; want %d", found, locks)
	}
	if most := 10 * len(nodes); listed > most {
		t.Errorf("%d names of children were listed for %d nodes; want %d at most", listed, len(nodes), most)
	}
}

func TestOwners(t *testing.T) {
	for path, want := range map[string][]string{
		"/":                  {"/"},
		"/a":                 {"/a"},
		"/a/b":               {"/a/b", "/a"},
		"/a/locks":           {"/a/locks", "/a", "/a"},
		"/a/leases/x":        {"/a/leases/x", "/a/leases", "/a"},
		"/pool-__lock__/x-1": {"/pool-__lock__/x-1", "/pool-__lock__", "/pool"},
	} {
		got := Owners(path)
		for _, p := range want {
			if !slices.Contains(got, p) {
				t.Errorf("%s: %v; want also %s", path, got, p)
			}
		}
		for _, p := range got {
			if !slices.Contains(want, p) {
				t.Errorf("%s: %v; want no %s", path, got, p)
			}
		}
	}
}
