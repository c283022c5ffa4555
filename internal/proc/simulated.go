package proc

import (
	"context"
	"sync/atomic"
)

// A Kernel answers in place of the system's. It is for simulations, whose clients are processes of their own.
type Kernel struct {
	Self  func() (Group, error)                    // for proc.Self: the process of the caller
	Start func(pid int) (start uint64, err error)  // the start time of a living process
	Wait  func(ctx context.Context, g Group) error // for Group.Wait
}

// simulated is nil for the system's kernel.
var simulated atomic.Pointer[Kernel]

// Simulate makes k answer Self, With and Wait from now on, until restore is called. It concerns the whole process, so only
// tests call it that have no parallel ones beside them.
func Simulate(k *Kernel) (restore func()) {
	before := simulated.Swap(k)
	return func() { simulated.Store(before) }
}

// started returns the start time of a process. An exec does not change it.
func started(pid int) (uint64, error) {
	if k := simulated.Load(); k != nil {
		return k.Start(pid)
	}
	return startOf(pid)
}
