package supervise

import (
	"errors"
	"os"
	"time"
)

// KillMargin is how long before the deadline the last process of the job is killed: time
// for the watchdog to be scheduled, and for the kernel to take the job down.
const KillMargin = 250 * time.Millisecond

// doubleInterrupt is the time within which a second INT means KILL.
const doubleInterrupt = 2 * time.Second

// A Command is what to run. It inherits the working directory, standard input, output and
// error, and every other descriptor that this process has inherited itself.
type Command struct {
	Path string   // the file to execute
	Args []string // the first is the name that the command is called by
	Env  []string // its whole environment
}

// Terms are what a command runs under.
type Terms struct {
	// Lost is closed when the lock is lost for certain. Then the job is killed at once.
	Lost <-chan struct{}
	// Deadline is the moment until which the lock is proven ours. It is called often.
	Deadline func() time.Time
	// Grace is how long before the deadline the job gets TERM.
	Grace time.Duration
	// Signals are what this process receives, for the command.
	Signals <-chan os.Signal
	// Warn tells the user something. It must not block.
	Warn func(format string, args ...any)
}

// ErrGuards is for a failure of the guards, not of the command, which did not run.
var ErrGuards = errors.New("the command was not started")

// An Outcome is how a command ended.
type Outcome struct {
	Code int  // its exit code, or 128+N if signal N killed it
	Lost bool // the lock was not provably ours until the end
}

const (
	sayLate   = "no contact with the server; stopping the command (TERM, and KILL in %v)"
	sayTooOld = "no contact with the server; killing the command"
	sayKilled = "the command did not stop in time; killing it"
	sayLost   = "the lock was lost; killing the command"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// poke puts a token into a channel that has room for one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
