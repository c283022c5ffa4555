package balance

import "time"

// A Damper decides when a join or a leave counts, so that a worker that flaps does not move the shards of
// the others. A newcomer gets shards when it has been present for Settle. A worker that is absent keeps its
// shards for Settle, and its return within that time changes nothing. Both times count from the call of Next
// that first sees the change. A Damper is not safe for concurrent use.
type Damper struct {
	Settle time.Duration

	came map[string]time.Time // workers that are present and not in the plan
	left map[string]time.Time // workers that are in the plan and not present
}

// Next returns the plan that follows p if these workers are present now. It is p itself if nothing changes
// yet. wait is the time until the next change counts if nothing else happens; it is 0 if no change is pending.
//
// A newcomer alone has to wait. But if the plan changes anyway, all workers that are present count at once:
// a restarted worker, which has left and come back as another one, costs one change instead of two.
func (d *Damper) Next(now time.Time, present []Worker, p Plan) (next Plan, wait time.Duration) {
	came, left := make(map[string]time.Time), make(map[string]time.Time)
	pending := func(since time.Time) bool {
		rest := d.Settle - now.Sub(since)
		if rest <= 0 {
			return false
		}
		if wait == 0 || rest < wait {
			wait = rest
		}
		return true
	}
	since := func(before map[string]time.Time, id string) time.Time {
		if t, ok := before[id]; ok {
			return t
		}
		return now
	}
	here := make(map[string]bool)
	var settled, absent []Worker
	for _, w := range present {
		here[w.ID] = true
		if p.Has(w.ID) {
			settled = append(settled, w)
			continue
		}
		came[w.ID] = since(d.came, w.ID)
		if !pending(came[w.ID]) {
			settled = append(settled, w)
		}
	}
	for _, w := range p.Workers {
		if here[w.ID] {
			continue
		}
		left[w.ID] = since(d.left, w.ID)
		if pending(left[w.ID]) {
			w.Pinned = true
			absent = append(absent, w)
		}
	}
	d.came, d.left = came, left
	if len(settled) == 0 || p.Balance(append(settled, absent...)).Equal(p) {
		return p, wait
	}
	return p.Balance(append(present[:len(present):len(present)], absent...)), wait
}
