package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/layout"
	"holdfast/zk"
)

// slotsAlone is the value of options.Locks for worlds with slots.
const slotsAlone = "slots"

// TestSimulationOfSlots runs worlds with slots.
func TestSimulationOfSlots(t *testing.T) {
	simulateOthers(t, options{Locks: slotsAlone}, fewSeeds/2, func(s *summary, n int) {
		r := s.Results
		t.Logf("figure: %d of %d claims of slots are judged by the lowest free number", r.Judged, r.Claims)
		if r.Claims < 20*n || r.Judged < n {
			t.Errorf("%d claims from %d seeds, %d of them judged: too few to tell anything", r.Claims, n, r.Judged)
		}
	})
}

// With wrong clocks, two clients hold one number, and the oracles find that.
func TestSimulationOfSlotsAndWrongClocks(t *testing.T) {
	simulateWrongClocks(t, fewSeeds/2, slotsAlone, func(v chaos.Violation) bool { return strings.Contains(v.Lock, "#") })
}

// chooseSlots returns slots, and in half of the worlds another lock beside them.
func (w *world) chooseSlots() []lockSpec {
	specs := []lockSpec{slotSpec(w, locksRoot+"/a")}
	if w.rng.IntN(2) == 0 {
		specs = append(specs, oneOf(w, mutexes, semaphores, nodes)(w, locksRoot+"/b"))
	}
	return specs
}

// slotWishes has the wish of each claim, by its token.
type slotWishes struct {
	mu   sync.Mutex
	from map[int64]int
}

// slotSpec returns slots, of which callers take one or two. In some, the number of slots changes.
func slotSpec(w *world, path string) lockSpec {
	n := 2 + w.rng.IntN(2)
	spec := lockSpec{
		ids: []lockID{{path, path}}, dirs: []string{path + "/slots", path + "/slot-queue"}, path: path, layout: layout.Curator,
		slots: &slotWishes{from: make(map[int64]int)},
	}
	claimed := n
	if w.rng.IntN(2) == 0 {
		spec.limits, claimed = 4, 0
	}
	spec.of = func(c *zk.Client) []locker {
		var ls []locker
		s := holdfast.NewSlots(c, path, claimed, w.options()...)
		for i, wish := range []int{-1, -1, 1, n - 1} {
			size := 1 + i%2
			noted := func(h *holdfast.Hold, err error) (*holdfast.Hold, error) {
				if err == nil && wish >= 0 {
					spec.slots.mu.Lock()
					defer spec.slots.mu.Unlock()
					spec.slots.from[h.Token()] = wish
				}
				return h, err
			}
			ls = append(ls, locker{
				parts: []chaos.Op{{Lock: path, Type: chaos.Semaphore, Limit: n, Permits: size}}, semaphore: s,
				lock: func(ctx context.Context) (*holdfast.Hold, error) { return noted(s.Acquire(ctx, size, wish)) },
				try: func(ctx context.Context) (*holdfast.Hold, error) {
					return noted(s.TryAcquire(ctx, size, wish))
				},
			})
		}
		return ls
	}
	return spec
}

// checkSlots checks the numbers of slots, and replaces the operations on slots by operations on their
// numbers: each number is a mutex. Attempts that have got no slot have no number and are left out.
func (w *world) checkSlots(r *result) {
	for _, spec := range w.locks {
		if spec.slots == nil {
			continue
		}
		lingers := 2 * w.late()
		if w.calm {
			lingers = 0
			for _, c := range w.clients {
				lingers = max(lingers, 8*w.soon(c))
			}
		}
		judged, wrong := judgeSlots(r.ops, spec.path, spec.slots.from, lingers)
		r.Judged += judged
		r.Violations = append(r.Violations, wrong...)
		r.ops = chaos.BySlot(r.ops, func(path string) bool { return path == spec.path })
	}
}

// A slotClaim is the time for which a number may have been taken.
type slotClaim struct {
	number      int // -1: it may have been any
	claim       int
	from, until time.Duration
}

// judgeSlots checks which numbers were given: none beyond the limit, the wish if it was free, and else the
// lowest that was free. A number may have been taken for as long as some operation may have had it.
// Operations of which the outcome or the end is not known may have a number until lingers later. judged
// counts the claims with their wish, and those above 0 of which the history tells what was taken below.
func judgeSlots(ops []chaos.Op, path string, wishes map[int64]int, lingers time.Duration) (judged int, wrong []chaos.Violation) {
	later := func(t time.Duration) time.Duration {
		if t > chaos.Never-lingers {
			return chaos.Never
		}
		return t + lingers
	}
	var claims []chaos.Op
	var taken []slotClaim
	gone := make(map[int]time.Duration) // by claim
	var changes []chaos.Op
	for _, o := range ops {
		if o.Lock != path {
			continue
		}
		switch o.Kind {
		case chaos.Release:
			gone[o.Claim] = o.Return
			if o.Return == chaos.Never {
				gone[o.Claim] = later(o.Call)
			}
		case chaos.Lose:
			gone[o.Claim] = later(o.Call)
		case chaos.Change:
			changes = append(changes, o)
		}
	}
	for _, o := range ops {
		if o.Lock != path || o.Kind != chaos.Acquire && o.Kind != chaos.Try {
			continue
		}
		numbers := chaos.SlotsOf(o, path)
		switch {
		case o.Outcome == chaos.OK && numbers != nil:
			claims = append(claims, o)
			until, ended := gone[o.Claim]
			if !ended {
				until = chaos.Never
			}
			for _, number := range numbers {
				taken = append(taken, slotClaim{number, o.Claim, o.Call, until})
			}
			if o.Strayed { // also the call itself may have taken one in its earlier session
				taken = append(taken, slotClaim{-1, 0, o.Call, later(o.Return)})
			}
		case o.Outcome == chaos.Unknown:
			taken = append(taken, slotClaim{-1, o.Claim, o.Call, later(o.Return)})
		}
	}
	maybeTaken := func(number int, during chaos.Op) bool {
		return slices.ContainsFunc(taken, func(s slotClaim) bool {
			return (s.number == number || s.number < 0) && s.claim != during.Claim && s.from <= during.Return && during.Call <= s.until
		})
	}
	found := func(o chaos.Op, format string, args ...any) {
		wrong = append(wrong, chaos.Violation{Oracle: "slot", Lock: path, Text: fmt.Sprintf("%v: ", o) + fmt.Sprintf(format, args...)})
	}
	for _, o := range claims {
		numbers := chaos.SlotsOf(o, path)
		highest := slices.Max(numbers)
		least, most := limitsDuring(o, changes)
		if n := max(o.Permits, 1); len(numbers) != n {
			found(o, "slots %v, and %d were wanted", numbers, n)
		}
		if highest >= most {
			found(o, "slots %v, and there were at most %d", numbers, most)
		}
		wish, wished := wishes[o.Token]
		granted := wished && slices.Contains(numbers, wish)
		if wished && !granted && wish < least && !maybeTaken(wish, o) {
			found(o, "slots %v, though slot %d was wanted and free", numbers, wish)
		}
		others := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return granted && n == wish })
		if len(others) == 0 {
			judged++
			continue
		}
		highest = slices.Max(others)
		sure := highest >= len(others)
		for lower := range min(highest, least) {
			if slices.Contains(numbers, lower) {
				continue
			}
			if !maybeTaken(lower, o) {
				found(o, "slots %v, though slot %d was free", numbers, lower)
			}
			sure = sure && !slices.ContainsFunc(taken, func(s slotClaim) bool {
				return s.number < 0 && s.from <= o.Return && o.Call <= s.until
			})
		}
		if sure {
			judged++
		}
	}
	return judged, wrong
}

// limitsDuring returns the smallest and the largest limit at any instant of o.
func limitsDuring(o chaos.Op, changes []chaos.Op) (least, most int) {
	least, most = 1<<30, 0
	limit := o.Limit
	add := func() { least, most = min(least, limit), max(most, limit) }
	for _, c := range changes {
		if o.Call <= c.Return {
			add()
		}
		limit = c.Limit
		if o.Return < c.Call {
			return least, most
		}
	}
	add()
	return least, most
}

// The oracle finds numbers that were given by the wrong rule, and excuses what may be right.
func TestSlotsAreJudged(t *testing.T) {
	const path, lingers = "/locks/a", 10
	claim := func(id, number int, call, ret, end time.Duration) []chaos.Op {
		o := chaos.Op{
			Claim: id, Kind: chaos.Acquire, Lock: path, Type: chaos.Semaphore, Limit: 3, Call: call, Return: ret, Outcome: chaos.OK,
			Token: int64(id), Node: fmt.Sprintf("%s/slots/slot-%010d", path, number),
		}
		release := o
		release.Kind, release.Call, release.Return = chaos.Release, end, end+1
		return []chaos.Op{o, release}
	}
	both := func(id, one, two int, call, ret, end time.Duration) []chaos.Op {
		ops := claim(id, min(one, two), call, ret, end)
		for i := range ops {
			ops[i].Slots, ops[i].Permits = []int{min(one, two), max(one, two)}, 2
		}
		return ops
	}
	unknown := func(id int, call, ret time.Duration) []chaos.Op {
		return []chaos.Op{{Claim: id, Kind: chaos.Acquire, Lock: path, Type: chaos.Semaphore, Limit: 3, Call: call, Return: ret, Outcome: chaos.Unknown}}
	}
	limit := func(n int, call, ret time.Duration) []chaos.Op {
		return []chaos.Op{{Kind: chaos.Change, Lock: path, Type: chaos.Semaphore, Limit: n, Call: call, Return: ret, Outcome: chaos.OK}}
	}
	strayed := claim(1, 1, 10, 30, 50)
	strayed[0].Strayed = true
	for _, tt := range []struct {
		name   string
		ops    [][]chaos.Op
		wishes map[int64]int
		judged int
		wrong  string // "": nothing
	}{
		{"in order", [][]chaos.Op{claim(1, 0, 10, 11, 30), claim(2, 1, 12, 13, 30)}, nil, 1, ""},
		{"a lower one is free", [][]chaos.Op{claim(1, 0, 10, 11, 20), claim(2, 1, 40, 41, 50)}, nil, 1, "though slot 0 was free"},
		{"a lower one is being released", [][]chaos.Op{claim(1, 0, 10, 11, 39), claim(2, 1, 40, 41, 50)}, nil, 1, ""},
		{"a lower one may be taken", [][]chaos.Op{unknown(1, 10, 31), claim(2, 1, 40, 41, 50)}, nil, 0, ""},
		{"a lower one can no longer be taken", [][]chaos.Op{unknown(1, 10, 29), claim(2, 1, 40, 41, 50)}, nil, 1, "though slot 0 was free"},
		{"the call itself may have taken a lower one, in another session", [][]chaos.Op{strayed}, nil, 0, ""},
		{"as wished", [][]chaos.Op{claim(1, 2, 10, 11, 20)}, map[int64]int{1: 2}, 1, ""},
		{"not as wished", [][]chaos.Op{claim(1, 0, 10, 11, 20)}, map[int64]int{1: 2}, 0, "though slot 2 was wanted and free"},
		{"the wish is taken", [][]chaos.Op{claim(1, 2, 5, 6, 30), claim(2, 0, 10, 11, 20)}, map[int64]int{1: 2, 2: 2}, 1, ""},
		{"the wish is beyond the limit", [][]chaos.Op{claim(1, 0, 10, 11, 20)}, map[int64]int{1: 3}, 0, ""},
		{"two", [][]chaos.Op{both(1, 0, 1, 10, 11, 20)}, nil, 0, ""},
		{"two, around one that is taken", [][]chaos.Op{claim(1, 1, 5, 6, 30), both(2, 0, 2, 10, 11, 20)}, map[int64]int{1: 1}, 2, ""},
		{"two, beside one that is free", [][]chaos.Op{both(1, 0, 2, 10, 11, 20)}, nil, 1, "though slot 1 was free"},
		{"two, one of them as wished", [][]chaos.Op{both(1, 0, 2, 10, 11, 20)}, map[int64]int{1: 2}, 0, ""},
		{"two, neither as wished", [][]chaos.Op{both(1, 0, 1, 10, 11, 20)}, map[int64]int{1: 2}, 0, "though slot 2 was wanted and free"},
		{"two, and the first is taken", [][]chaos.Op{claim(1, 0, 5, 6, 30), both(2, 1, 2, 10, 11, 20)}, nil, 1, ""},
		{"beyond the limit", [][]chaos.Op{claim(1, 3, 10, 11, 20)}, map[int64]int{1: 3}, 1, "there were at most 3"},
		{"within the new limit", [][]chaos.Op{limit(4, 8, 12), claim(1, 3, 10, 11, 20)}, map[int64]int{1: 3}, 1, ""},
		{"within the old limit", [][]chaos.Op{limit(2, 10, 12), claim(1, 2, 10, 11, 20)}, map[int64]int{1: 2}, 1, ""},
		{"beyond the new limit", [][]chaos.Op{limit(2, 7, 9), claim(1, 2, 10, 11, 20)}, map[int64]int{1: 2}, 1, "there were at most 2"},
		{"the wish is not sure to be within the limit", [][]chaos.Op{limit(2, 8, 12), claim(1, 0, 10, 11, 20)}, map[int64]int{1: 2}, 0, ""},
	} {
		judged, wrong := judgeSlots(slices.Concat(tt.ops...), path, tt.wishes, lingers)
		if judged != tt.judged || (len(wrong) > 0) != (tt.wrong != "") || len(wrong) > 0 && !strings.Contains(wrong[0].Text, tt.wrong) {
			t.Errorf("%s: %d judged, %v; want %d, %q", tt.name, judged, wrong, tt.judged, tt.wrong)
		}
	}
	short := both(1, 0, 1, 10, 11, 20)
	short[0].Permits = 3
	if _, wrong := judgeSlots(short, path, nil, lingers); len(wrong) != 1 || !strings.Contains(wrong[0].Text, "3 were wanted") {
		t.Errorf("two slots for a caller of three: %v", wrong)
	}
	apart := chaos.BySlot(slices.Concat(both(1, 0, 1, 10, 11, 30), both(2, 1, 2, 12, 13, 30)), func(p string) bool { return p == path })
	if vs := chaos.Sweep(apart); len(vs) != 1 || vs[0].Oracle != "overlap" || vs[0].Lock != path+"#1" {
		t.Errorf("%v; want that two have slot 1", vs)
	}
	ops := chaos.BySlot(slices.Concat(claim(1, 0, 10, 11, 30), claim(2, 1, 12, 13, 30), claim(3, 1, 20, 21, 30), unknown(4, 3, 5)), func(p string) bool { return p == path })
	if vs := chaos.Sweep(ops); len(vs) != 1 || vs[0].Oracle != "overlap" || vs[0].Lock != path+"#1" {
		t.Errorf("%v; want that two have slot 1", vs)
	}
}
