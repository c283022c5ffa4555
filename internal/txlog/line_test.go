package txlog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A gambler writes transactions at random, of all layouts and kinds of lock.
type gambler struct {
	*scribe
	rng    *rand.Rand
	number map[string]int32 // the next one of a directory
	nodes  map[string]int64 // the session of each node
	dirs   map[string]bool  // that exist
}

// The directories, and the forms of the names in them: * is an id. A form that ends in - or _ gets a number.
var directories = map[string][]string{
	"/locks/a":                 {"_c_*-lock-"},
	"/locks/b":                 {"_c_*-lock-", "_c_*-__WRIT__", "_c_*-__READ__", "_c_*-__READ__", "detaching-_c_*-lock-", "detached-_c_*-lock-"},
	"/locks/mixed":             {"_c_*-lock-", "*__lock__", "*__rlock__", "x-72-", "web-1-W-", "web-1-R-", "_c_*-latch-"},
	"/locks/latch":             {"_c_*-latch-"},
	"/locks/several":           {"db_lock_", "db_lock_", "mail_lock_"},
	"/locks/own":               {"job.*.", "_c_*-lock-", "task-"},
	"/locks/%2Frepo%2Fx":       {"_c_*-__WRIT__", "_c_*-__READ__"},
	"/locks/s":                 {"_c_*-lock-"},
	"/locks/s/locks":           {"_c_*-lock-"},
	"/locks/s/leases":          {"_c_*-lease-"},
	"/locks/slots/slots":       {"slot-"},
	"/locks/slots/slot-queue":  {"_c_*-lock-"},
	"/k/sem":                   {"*", "*", "*__lock__"},
	"/k/sem-__lock__":          {"*__lock__"},
	"/sh/workers":              {"_c_*-lock-"},
	"/sh/shards/0":             {"_c_*-lock-"},
	"/locks/a/.holdfast":       {"reserved"},
	"/locks":                   {"node", "other"},
	"/locks/s/locks/below":     {"_c_*-lock-"},
	"/locks/s/leases/below":    {"_c_*-lock-"},
	"/locks/slots/slots/below": {"_c_*-lock-"},
	"/k/sem-__lock__/below":    {"_c_*-lock-"},
	"/sh/workers/below":        {"_c_*-lock-"},
	"/top":                     {"_c_*-lock-"},
}

var notes = []string{
	"", "", "", `{"owner":"ann","why":"x"}`, `{"owner":"bob","since":1795834800000}`, `{"owner":"cid","kept":true}`, "10.0.0.1", "a candidate",
	`{"owner":"dan","token":3}`, "2", `{"revoke":true,"owner":"eve"}`,
}

func (g *gambler) pick(of []string) string { return of[g.rng.IntN(len(of))] }

// mkdir makes the directories of a path.
func (g *gambler) mkdir(path string) {
	if path == "/" || g.dirs[path] {
		return
	}
	above, _ := split(path)
	g.mkdir(above)
	g.dirs[path] = true
	g.create(0, path)
}

// child makes the body of an operation that creates a child.
func (g *gambler) child(session int64) []byte {
	dir := g.pick(slices.Sorted(maps.Keys(directories)))
	g.mkdir(dir)
	name := strings.ReplaceAll(g.pick(directories[dir]), "*", fmt.Sprintf("%016x%016x", g.rng.Uint64(), g.rng.Uint64()))
	if strings.HasSuffix(name, "-") || strings.HasSuffix(name, "_") || strings.HasSuffix(name, ".") {
		n := g.number[dir]
		switch {
		case strings.HasPrefix(name, "slot-"):
			n = int32(g.rng.IntN(4))
		case g.rng.IntN(20) == 0: // made by hand, or a writer that takes the read side
			n -= int32(g.rng.IntN(4))
		default:
			g.number[dir]++
		}
		name += fmt.Sprintf("%010d", n)
	}
	path := dir + "/" + name
	owner := session
	if strings.HasPrefix(name, "detached-") || strings.HasPrefix(name, "task-") || name == "reserved" || g.rng.IntN(30) == 0 {
		owner = 0
	}
	if _, there := g.nodes[path]; there {
		return nil
	}
	g.nodes[path] = owner
	return createBody(path, g.pick(notes), owner != 0)
}

func (g *gambler) step() {
	session := int64(1 + g.rng.IntN(8))
	paths := slices.Sorted(maps.Keys(g.nodes))
	some := func() string { return paths[g.rng.IntN(len(paths))] }
	create := func() {
		if b := g.child(session); b != nil {
			g.txn(session, 1, opCreate, b)
		}
	}
	if len(paths) == 0 {
		create()
		return
	}
	switch n := g.rng.IntN(20); {
	case n < 9 && len(paths) < 60:
		create()
	case n < 14:
		path := some()
		if g.rng.IntN(5) > 0 && g.nodes[path] != 0 {
			session = g.nodes[path]
		}
		delete(g.nodes, path)
		g.delete(session, path)
	case n < 16:
		g.txn(session, 1, opSetData, append(text(text(nil, some()), g.pick(notes)), 0, 0, 0, 1))
	case n < 17:
		g.txn(session, int32(g.rng.IntN(2)), opCloseSession, nil)
		maps.DeleteFunc(g.nodes, func(_ string, owner int64) bool { return owner == session })
	case n < 18: // a directory that is empty
		dir := g.pick(slices.Sorted(maps.Keys(directories)))
		below := func(p string) bool { return strings.HasPrefix(p, dir+"/") }
		if g.dirs[dir] && !slices.ContainsFunc(paths, below) && !slices.ContainsFunc(slices.Collect(maps.Keys(g.dirs)), below) {
			delete(g.dirs, dir)
			g.delete(0, dir)
		}
	default: // several operations
		var ops [][]byte
		var codes []int32
		for range 1 + g.rng.IntN(3) {
			if g.rng.IntN(2) == 0 {
				if b := g.child(session); b != nil {
					ops, codes = append(ops, b), append(codes, opCreate)
				}
			} else if path := some(); g.nodes[path] == session {
				delete(g.nodes, path)
				ops, codes = append(ops, text(nil, path)), append(codes, opDelete)
			}
		}
		multi := binary.BigEndian.AppendUint32(nil, uint32(len(ops)))
		for i, b := range ops {
			multi = text(binary.BigEndian.AppendUint32(multi, uint32(codes[i])), string(b))
		}
		g.txn(session, 1, opMulti, multi)
	}
}

// The parsed queues tell the same as reading every lock anew at each change.
func TestLinesTellTheSame(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	lines, plain := 0, 0
	for seed := range seeds {
		dir := t.TempDir()
		g := &gambler{
			scribe: newScribe(t, dir, 1), rng: rand.New(rand.NewPCG(seed, 43)),
			number: make(map[string]int32), nodes: make(map[string]int64), dirs: make(map[string]bool),
		}
		if seed%5 == 4 { // numbers that wrap
			for d := range directories {
				g.number[d] = 1<<31 - 20
			}
		}
		for range 600 {
			g.step()
		}
		g.close()
		tell := func(anew bool) (events, now []Event) {
			h := &history{anew: anew, cfg: Config{
				Dirs: []string{dir}, Warn: func(err error) { t.Error(err) },
				Report: func(e Event) error { events = append(events, e); return nil },
			}}
			now, err := read(h)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range h.tree.nodes {
				if n.line != nil {
					lines++
					if n.told {
						plain++
					}
				}
			}
			return events, now
		}
		want, wantNow := tell(true)
		got, gotNow := tell(false)
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("seed %d, event %d: got\n%+v\nwant\n%+v", seed, i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
			}
		}
		if !reflect.DeepEqual(gotNow, wantNow) {
			t.Fatalf("seed %d: %d places at the end differ from %d", seed, len(gotNow), len(wantNow))
		}
		if len(want) < 300 {
			t.Errorf("seed %d: %d events are too few", seed, len(want))
		}
	}
	if plain == 0 || plain == lines {
		t.Errorf("%d of %d queues were read as lines: one of the ways is not tried", plain, lines)
	}
}
