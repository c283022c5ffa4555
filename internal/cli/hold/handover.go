package hold

import (
	"os"
	"slices"
	"sync"

	"holdfast"
	"holdfast/internal/supervise"
)

// A handover stops the command of a leader when somebody asks for the lock, and the lock is acquired again afterwards.
type handover struct {
	signals chan os.Signal // for the command
	over    chan struct{}  // closed when the command has ended
	running sync.WaitGroup

	asked   bool // the leader is to hand over
	stopped bool // the user has asked this process to stop
}

// newHandover passes signals on to the command of the term h. When somebody asks for the lock, it calls tell and sends
// the command the signal stop, as the user would.
func newHandover(h *holdfast.Hold, signals <-chan os.Signal, stop os.Signal, tell func()) *handover {
	o := &handover{signals: make(chan os.Signal, cap(signals)), over: make(chan struct{})}
	asks := h.Revoked()
	o.running.Go(func() {
		for {
			select {
			case <-asks:
				asks, o.asked = nil, true
				tell()
				o.pass(stop)
			case sig := <-signals:
				o.stopped = o.stopped || slices.Contains(supervise.StopSignals, sig)
				o.pass(sig)
			case <-o.over:
				return
			}
		}
	})
	return o
}

// pass hands a signal to the supervisor.
func (o *handover) pass(sig os.Signal) {
	select {
	case o.signals <- sig:
	case <-o.over:
	}
}

// ended ends the handover after the command, and reports whether to wait for the lock again.
func (o *handover) ended(out supervise.Outcome) (again bool) {
	close(o.over)
	o.running.Wait()
	return o.asked && !o.stopped && !out.Lost && !out.Overdue && !out.Key
}
