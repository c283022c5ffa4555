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

// MaxWorkers bounds the number of workers in a plan, for the same reason. Further workers get no shards.
const MaxWorkers = 4096

// maxID and maxOwner bound a worker's texts, in bytes.
const maxID, maxOwner = 64, 64

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
	if s.N < 1 || s.N > MaxShards || len(s.Workers) > MaxWorkers {
		return Plan{}, fmt.Errorf("not a plan: %d shards, %d workers", s.N, len(s.Workers))
	}
	if !slices.IsSortedFunc(s.Workers, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) }) {
		return Plan{}, fmt.Errorf("not a plan: the workers are not in order")
	}
	for i, w := range s.Workers {
		if err := w.check(); err != nil {
			return Plan{}, fmt.Errorf("not a plan: %w", err)
		}
		if i > 0 && s.Workers[i-1].ID == w.ID {
			return Plan{}, fmt.Errorf("not a plan: worker %q occurs twice", w.ID)
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

// Encode returns the worker as text. A long owner is cut.
func (w Worker) Encode() ([]byte, error) {
	w.Owner = strings.ToValidUTF8(w.Owner[:min(len(w.Owner), maxOwner)], "")
	return json.Marshal(w)
}

// ParseWorker reads a worker that Encode has written.
func ParseWorker(text []byte) (w Worker, err error) {
	if err := json.Unmarshal(text, &w); err != nil {
		return Worker{}, fmt.Errorf("not a worker: %w", err)
	}
	return w, w.check()
}

func (w Worker) check() error {
	if w.ID == "" || len(w.ID) > maxID || len(w.Owner) > maxOwner || w.Weight < 0 || w.Weight > MaxWeight {
		return fmt.Errorf("not a worker: id %.80q, owner %.80q, weight %d", w.ID, w.Owner, w.Weight)
	}
	return nil
}
