package balance

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// MaxShards bounds the number of shards: a plan must fit into a node.
const MaxShards = 1 << 16

// MaxWeight bounds the weight of a worker.
const MaxWeight = 1 << 20

// stored is a plan as text.
type stored struct {
	N       int      `json:"shards"`
	Workers []Worker `json:"workers,omitempty"`
	Owners  []byte   `json:"owners,omitempty"` // two bytes for each shard, big-endian; none if there are no workers
}

// Encode returns the plan as text.
func (p Plan) Encode() ([]byte, error) {
	s := stored{N: len(p.Shards), Workers: p.Workers}
	if len(p.Workers) > 0 {
		for _, owner := range p.Shards {
			s.Owners = binary.BigEndian.AppendUint16(s.Owners, owner)
		}
	}
	return json.Marshal(s)
}

// Parse reads a plan that Encode has written. Every index in it is valid.
func Parse(text []byte) (Plan, error) {
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return Plan{}, fmt.Errorf("not a plan: %w", err)
	}
	if s.N < 1 || s.N > MaxShards || len(s.Workers) >= None {
		return Plan{}, fmt.Errorf("not a plan: %d shards, %d workers", s.N, len(s.Workers))
	}
	if !slices.IsSortedFunc(s.Workers, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) }) {
		return Plan{}, fmt.Errorf("not a plan: the workers are not in order")
	}
	for i, w := range s.Workers {
		if w.Weight < 0 || w.Weight > MaxWeight || i > 0 && s.Workers[i-1].ID == w.ID {
			return Plan{}, fmt.Errorf("not a plan: worker %q occurs twice, or has the weight %d", w.ID, w.Weight)
		}
	}
	p := Empty(s.N)
	p.Workers = s.Workers
	if len(s.Workers) == 0 {
		return p, nil
	}
	if len(s.Owners) != 2*s.N {
		return Plan{}, fmt.Errorf("not a plan: %d bytes of owners for %d shards", len(s.Owners), s.N)
	}
	for i := range p.Shards {
		owner := binary.BigEndian.Uint16(s.Owners[2*i:])
		if owner != None && int(owner) >= len(s.Workers) {
			return Plan{}, fmt.Errorf("not a plan: shard %d belongs to worker %d of %d", i, owner, len(s.Workers))
		}
		p.Shards[i] = owner
	}
	return p, nil
}
