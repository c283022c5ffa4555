package balance

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var largeFlag = flag.Bool("large", false, "balance 10,000 shards over up to 1,000 workers that join and leave")

// crew returns n workers of weight 1.
func crew(n int) (all []Worker) {
	for i := range n {
		all = append(all, Worker{ID: fmt.Sprintf("w%04d", i), Weight: 1})
	}
	return all
}

// mustBeFair checks that every shard has an owner, and every worker less than one shard more or less than
// its share.
func mustBeFair(t *testing.T, p Plan) {
	t.Helper()
	total := 0
	n := len(p.Shards)
	has := make([]int, len(p.Workers))
	for i, owner := range p.Shards {
		if owner == None {
			t.Fatalf("nobody owns shard %d", i)
		}
		has[owner]++
	}
	for i, w := range p.Workers {
		if w.Pinned {
			n -= has[i]
		} else {
			total += w.Weight
		}
	}
	for i, w := range p.Workers {
		if d := has[i]*total - n*w.Weight; !w.Pinned && (d <= -total || d >= total) {
			t.Fatalf("%s with weight %d of %d has %d of %d shards", w.ID, w.Weight, total, has[i], n)
		}
	}
}

// fewest returns the smallest possible number of moves to a fair plan for these workers: each owner keeps
// what it has up to its share rounded up, as far as the seats beyond the rounded-down shares allow.
func fewest(p Plan, workers []Worker) int {
	total, n := 0, len(p.Shards)
	for _, w := range workers {
		total += w.Weight
	}
	kept, seats, want := 0, n, 0
	for _, w := range workers {
		share := n * w.Weight / total
		has := len(p.Of(w.ID))
		kept += min(has, share)
		seats -= share
		if has > share && n*w.Weight%total > 0 {
			want++
		}
	}
	owned := 0
	for _, owner := range p.Shards {
		if owner != None {
			owned++
		}
	}
	return owned - kept - min(seats, want)
}

// A join moves at most the newcomer's share, and a leave only what the leaver had.
func TestJoinsAndLeavesMoveFewShards(t *testing.T) {
	for _, n := range []int{1, 2, 7, 64, 1000} {
		for m := 1; m <= 40; m++ {
			p := Empty(n).Balance(crew(m))
			mustBeFair(t, p)
			joined := p.Balance(crew(m + 1))
			mustBeFair(t, joined)
			if moves := p.Moves(joined); moves > (n+m)/(m+1) {
				t.Errorf("%d shards: worker %d joins, and %d move", n, m+1, moves)
			}
			for _, owner := range joined.Workers {
				if before := p.Of(owner.ID); owner.ID != crew(m + 1)[m].ID && len(joined.Of(owner.ID)) > len(before) {
					t.Errorf("%d shards: %s gets shards because another joins", n, owner.ID)
				}
			}
			gone := crew(m + 1)[m/2]
			left := joined.Balance(slices.DeleteFunc(crew(m+1), func(w Worker) bool { return w.ID == gone.ID }))
			mustBeFair(t, left)
			if moves := joined.Moves(left); moves != len(joined.Of(gone.ID)) || moves > (n+m)/(m+1) {
				t.Errorf("%d shards, %d workers: one with %d shards leaves, and %d move", n, m+1, len(joined.Of(gone.ID)), moves)
			}
		}
	}
}

// However workers come and go, and whatever they weigh, a plan is fair and no fair plan moves less. The
// order of the workers does not matter, and a plan that is balanced stays.
func TestPlansAreFairAndMoveTheFewest(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := Empty(1 + rng.IntN(200))
		for range 30 {
			var workers []Worker
			for _, w := range crew(12) {
				if w.Weight = 1; seed%2 == 0 {
					w.Weight = rng.IntN(5)
				}
				if rng.IntN(3) > 0 && w.Weight > 0 {
					workers = append(workers, w)
				}
			}
			next := p.Balance(workers)
			if len(workers) == 0 {
				continue
			}
			mustBeFair(t, next)
			if moves, want := p.Moves(next), fewest(p, workers); moves != want {
				t.Fatalf("seed %d: %d moves; %d are enough", seed, moves, want)
			}
			rng.Shuffle(len(workers), func(i, j int) { workers[i], workers[j] = workers[j], workers[i] })
			if !p.Balance(workers).Equal(next) {
				t.Fatalf("seed %d: the order of the workers matters", seed)
			}
			if again := next.Balance(workers); !again.Equal(next) {
				t.Fatalf("seed %d: a balanced plan changes", seed)
			}
			p = next
		}
	}
}

// A pinned worker keeps exactly what it has, and the others share the rest.
func TestPinnedWorkerKeepsItsShards(t *testing.T) {
	p := Empty(100).Balance(crew(4))
	workers := crew(6)
	workers[1].Pinned = true
	next := p.Balance(workers)
	mustBeFair(t, next)
	if id := workers[1].ID; !slices.Equal(p.Of(id), next.Of(id)) {
		t.Errorf("the pinned worker had %v, and has %v", p.Of(id), next.Of(id))
	}
}

func TestNobodyOwnsWhatNobodyCanTake(t *testing.T) {
	p := Empty(5).Balance(crew(2))
	for _, workers := range [][]Worker{nil, {{ID: "idle"}}} {
		next := p.Balance(workers)
		for i, owner := range next.Shards {
			if owner != None {
				t.Errorf("shard %d belongs to worker %d of %v", i, owner, workers)
			}
		}
	}
}

// Ten thousand shards and a thousand workers that come and go.
func TestLargePlans(t *testing.T) {
	n, most, rounds := 1000, 100, 300
	if *largeFlag {
		n, most, rounds = 10_000, 1000, 3000
	}
	rng := rand.New(rand.NewPCG(1, 2))
	p, workers, next := Empty(n), crew(1), 1
	p = p.Balance(workers)
	began, moved, changed := time.Now(), 0, 0
	for range rounds {
		m := len(workers)
		bound := 0
		if join := m == 1 || m < most && rng.IntN(2) == 0; join || rng.IntN(most) > m {
			workers = append(workers, Worker{ID: fmt.Sprintf("w%d", next), Weight: 1})
			next++
			bound = (n + m) / (m + 1)
		} else {
			i := rng.IntN(m)
			workers = slices.Delete(workers, i, i+1)
			bound = (n + m - 1) / m
		}
		after := p.Balance(workers)
		mustBeFair(t, after)
		moves := p.Moves(after)
		if moves > bound {
			t.Fatalf("from %d to %d workers: %d moves; want at most %d", m, len(workers), moves, bound)
		}
		moved += moves
		changed++
		p = after
	}
	t.Logf("figure: %d shards, at most %d workers, %d joins and leaves: %.1f shards moved each, %v in all", n, most, changed, float64(moved)/float64(changed), time.Since(began).Round(time.Millisecond))
}

func TestPlansOfWrongTextsAreRefused(t *testing.T) {
	for _, text := range []string{
		``, `x`, `{}`, `{"shards":0}`, `{"shards":-1}`, `{"shards":65537}`, `{"shards":1} 2`,
		`{"shards":1,"workers":[{"id":"a","weight":1}]}`,
		`{"shards":1,"workers":[{"id":"a","weight":1}],"owners":"AAE="}`,
		`{"shards":1,"workers":[{"id":"a","weight":-1}],"owners":"AAA="}`,
		`{"shards":1,"workers":[{"id":"b","weight":1},{"id":"a","weight":1}],"owners":"AAA="}`,
		`{"shards":1,"workers":[{"id":"a","weight":1},{"id":"a","weight":1}],"owners":"AAA="}`,
	} {
		if p, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is read as %v", text, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"shards":3}`))
	f.Add([]byte(`{"id":"a","weight":2,"owner":"host"}`))
	f.Add([]byte(`{"shards":1,"workers":[{"id":"a","weight":1}],"owners":"AAA="}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if w, err := ParseWorker(text); err == nil {
			written, err := w.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ParseWorker(written); err != nil || again != w {
				t.Fatalf("%q was read as %v, and %q as %v, %v", text, w, written, again, err)
			}
		}
		p, err := Parse(text)
		if err != nil {
			return
		}
		written, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(written)
		if err != nil || !again.Equal(p) {
			t.Fatalf("%q was read as %v, and %q as %v, %v", text, p, written, again, err)
		}
		p.Balance(p.Workers) // indices are valid
	})
}

// Each byte is a worker that joins, or leaves if it is there.
func FuzzBalance(f *testing.F) {
	f.Add(uint16(10), []byte{1, 2, 3, 2})
	f.Fuzz(func(t *testing.T, n uint16, changes []byte) {
		p := Empty(1 + int(n)%500)
		var workers []Worker
		for _, c := range changes {
			w := Worker{ID: fmt.Sprint(c % 32), Weight: 1 + int(c/32)}
			if i := slices.IndexFunc(workers, func(o Worker) bool { return o.ID == w.ID }); i >= 0 {
				workers = slices.Delete(workers, i, i+1)
			} else {
				workers = append(workers, w)
			}
			next := p.Balance(workers)
			if len(workers) > 0 {
				mustBeFair(t, next)
				if moves, want := p.Moves(next), fewest(p, workers); moves != want {
					t.Fatalf("%d moves; %d are enough", moves, want)
				}
			}
			written, err := next.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if read, err := Parse(written); err != nil || !read.Equal(next) {
				t.Fatalf("%s is read as %v, %v", bytes.TrimSpace(written), read, err)
			}
			p = next
		}
	})
}
