package supervise

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// An Ending says when a job is stopped, how, and what may be left of it.
type Ending struct {
	// Grace is the time before the deadline at which the job is asked to stop.
	Grace time.Duration
	// Signal asks the job to stop. 0 is TERM.
	Signal syscall.Signal
	// KillAfter is the time from a request to stop to KILL, also if the request is a signal of
	// the user. If it is 0, KILL follows only before the deadline.
	KillAfter time.Duration
	// MaxHold is the time after which the job is asked to stop. 0 is no limit.
	MaxHold time.Duration
	// MaxHoldKill is the time from that request to KILL. If it is 0, no KILL follows.
	MaxHoldKill time.Duration
	// Leftovers is the fate of processes that the command leaves behind.
	Leftovers Leftovers
	// OnLost is the reaction to a lock that is lost, or about to be.
	OnLost OnLost
	// LostSignal is the signal of LostSignals.
	LostSignal syscall.Signal
	// Freeze suspends the job while Terms.Suspect, and from this time before the deadline on. 0
	// never suspends it.
	Freeze time.Duration
}

// asks reports whether sig, a signal of the user, asks the job to stop.
func (e *Ending) asks(sig os.Signal) bool { return asksToStop(sig) || sig == e.Signal }

// stops is asks, without a HUP that no KILL follows: it may ask the command to read its files again.
func (e *Ending) stops(sig os.Signal) bool {
	return sig == e.Signal || asksToStop(sig) && (sig != syscall.SIGHUP || e.KillAfter > 0)
}

// Leftovers is the fate of processes that the command leaves behind when it ends by itself.
type Leftovers int

const (
	LeftoversKilled  Leftovers = iota // Run kills them
	LeftoversAwaited                  // Run waits for their end
	LeftoversIgnored                  // they run on after Run
)

// OnLost is the reaction to a lock that is lost, or about to be.
type OnLost int

const (
	LostKills   OnLost = iota // the job ends before the deadline
	LostSignals               // the job gets a signal and goes on
	LostIgnored               // the job goes on
)

// fields returns the fields in the order of parseEnding.
func (e *Ending) fields() []int64 {
	return []int64{
		int64(e.Grace), int64(e.Signal), int64(e.KillAfter), int64(e.MaxHold), int64(e.MaxHoldKill),
		int64(e.Leftovers), int64(e.OnLost), int64(e.LostSignal), int64(e.Freeze),
	}
}

// String returns the fields as numbers, for the watchdog.
func (e *Ending) String() string { return strings.Trim(fmt.Sprint(e.fields()), "[]") }

var errEnding = errors.New("the ending in the order is not whole")

// parseEnding reads the result of String.
func parseEnding(text string) (Ending, error) {
	field := strings.Fields(text)
	n := make([]int64, len((&Ending{}).fields()))
	if len(field) != len(n) {
		return Ending{}, errEnding
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(field[i], 10, 64); err != nil {
			return Ending{}, errEnding
		}
	}
	d := func(i int) time.Duration { return time.Duration(n[i]) }
	return Ending{
		Grace: d(0), Signal: syscall.Signal(n[1]), KillAfter: d(2), MaxHold: d(3), MaxHoldKill: d(4),
		Leftovers: Leftovers(n[5]), OnLost: OnLost(n[6]), LostSignal: syscall.Signal(n[7]), Freeze: d(8),
	}, nil
}
