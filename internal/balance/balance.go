// Package balance decides which worker should own which shard. It is pure: it knows no client, no lock
// and no clock.
package balance

import (
	"cmp"
	"slices"
	"strings"
)

// None is the index of no worker.
const None = 0xFFFF

// A Worker is a candidate for shards.
type Worker struct {
	ID string `json:"id"`
	// Weight is the worker's share relative to the others. A worker of weight 0 owns nothing.
	Weight int    `json:"weight"`
	Owner  string `json:"owner,omitempty"` // for people
	// Pinned: the worker keeps the shards that it has, and gets none. The rest is balanced without it.
	Pinned bool `json:"-"`
}

// A Plan says which worker owns each shard.
type Plan struct {
	Workers []Worker // sorted by ID, without duplicates
	Shards  []uint16 // for each shard an index into Workers, or None
}

// Empty returns the plan of n shards that nobody owns.
func Empty(n int) Plan {
	p := Plan{Shards: make([]uint16, n)}
	for i := range p.Shards {
		p.Shards[i] = None
	}
	return p
}

// Of returns the shards of a worker, in order.
func (p Plan) Of(id string) (shards []int) {
	w := p.index(id)
	for i, owner := range p.Shards {
		if owner != None && int(owner) == w {
			shards = append(shards, i)
		}
	}
	return shards
}

// index returns the worker's index, or -1.
func (p Plan) index(id string) int {
	i, ok := slices.BinarySearchFunc(p.Workers, id, func(w Worker, id string) int { return strings.Compare(w.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// Has reports whether the plan knows the worker.
func (p Plan) Has(id string) bool { return p.index(id) >= 0 }

// Equal reports whether two plans have the same workers and the same owners.
func (p Plan) Equal(o Plan) bool {
	return slices.EqualFunc(p.Workers, o.Workers, func(a, b Worker) bool {
		return a.ID == b.ID && a.Weight == b.Weight && a.Owner == b.Owner
	}) && slices.Equal(p.Shards, o.Shards)
}

// Balance returns the plan for these workers that moves the fewest shards from their owners in p. Every
// worker's number of shards differs from its exact share, by weight, by less than one. The result depends
// on the set of workers, not on their order. Of workers with one ID, the first counts. At most MaxWorkers
// count.
//
// A join moves only the newcomer's shards, and a leave only the leaver's, if p was balanced and the
// weights are equal. With weights, a change of the total can change the share of others by more.
func (p Plan) Balance(workers []Worker) Plan {
	next := Empty(len(p.Shards))
	next.Workers = slices.Clone(workers)
	slices.SortStableFunc(next.Workers, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	next.Workers = slices.CompactFunc(next.Workers, func(a, b Worker) bool { return a.ID == b.ID })
	if len(next.Workers) > MaxWorkers {
		next.Workers = next.Workers[:MaxWorkers]
	}

	// owned counts the shards that each staying worker owns now.
	now := make([]int, len(p.Workers)) // the index in next, or -1
	for i, w := range p.Workers {
		now[i] = next.index(w.ID)
	}
	owned := make([]int, len(next.Workers))
	for _, owner := range p.Shards {
		if int(owner) < len(now) && now[owner] >= 0 {
			owned[now[owner]]++
		}
	}
	quotas := next.quotas(owned)

	// Owners keep the first of their shards, up to their quota. The others are free.
	free := make([]int, 0, len(p.Shards))
	room := slices.Clone(quotas)
	for i, owner := range p.Shards {
		if int(owner) < len(now) && now[owner] >= 0 && room[now[owner]] > 0 {
			next.Shards[i] = uint16(now[owner])
			room[now[owner]]--
		} else {
			free = append(free, i)
		}
	}
	for w, n := range room {
		n = min(n, len(free))
		for _, i := range free[:n] {
			next.Shards[i] = uint16(w)
		}
		free = free[n:]
	}
	return next
}

// quotas returns how many shards each worker gets. Each gets its exact share, rounded down. The shards that
// remain are seats, one for a worker at the most. Workers that own more than their rounded share at present
// get a seat first, since that saves a move. The other seats go by the largest remainder.
func (p Plan) quotas(owned []int) []int {
	quotas := make([]int, len(p.Workers))
	n, total := int64(len(p.Shards)), int64(0)
	for i, w := range p.Workers {
		if w.Pinned {
			quotas[i] = owned[i]
			n -= int64(owned[i])
		} else {
			total += int64(max(w.Weight, 0))
		}
	}
	if total == 0 {
		return quotas
	}
	type seat struct {
		worker    int
		keeps     bool
		remainder int64
	}
	var seats []seat
	left := n
	for i, w := range p.Workers {
		if w.Pinned || w.Weight <= 0 {
			continue
		}
		share := n * int64(w.Weight)
		quotas[i] = int(share / total)
		left -= share / total
		if r := share % total; r > 0 {
			seats = append(seats, seat{i, owned[i] > quotas[i], r})
		}
	}
	slices.SortStableFunc(seats, func(a, b seat) int { // stable: ties are in the order of IDs
		if a.keeps != b.keeps {
			if a.keeps {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.remainder, a.remainder)
	})
	for _, s := range seats[:left] {
		quotas[s.worker]++
	}
	return quotas
}

// Moves counts the shards that have an owner in p and another one, or none, in next.
func (p Plan) Moves(next Plan) (moves int) {
	for i, owner := range p.Shards {
		if int(owner) < len(p.Workers) && (i >= len(next.Shards) || next.Shards[i] == None || next.Workers[next.Shards[i]].ID != p.Workers[owner].ID) {
			moves++
		}
	}
	return moves
}
