package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// KillMargin is the time before the deadline at which the whole job is killed. It leaves time
// to schedule the watchdog and for the kernel to end the job.
const KillMargin = 250 * time.Millisecond

// doubleInterrupt is the time within which a second INT means KILL.
const doubleInterrupt = 2 * time.Second

// A Command is the command to run. It inherits the working directory, standard input, output
// and error, and every other descriptor that this process has inherited.
type Command struct {
	Path string   // the file to execute
	Args []string // as argv: the first is the command's name
	Env  []string // the whole environment
}

// Terms are the conditions under which a command runs.
type Terms struct {
	// Lost is closed when the lock is certainly lost. The job is then killed at once.
	Lost <-chan struct{}
	// Deadline returns the moment until which the lock is proven ours. It is called often.
	Deadline func() time.Time
	// Ending says when the job is stopped, and how.
	Ending Ending
	// Suspect reports whether no server is connected. Changed has a token after a change. Both
	// are nil if the job is not suspended.
	Suspect func() bool
	Changed <-chan struct{}
	// Signals delivers the signals that this process receives for the command.
	Signals <-chan os.Signal
	// Guard is called with the process id of the watchdog before the command starts. If it returns an error, the command
	// does not start. When this process dies, the watchdog lives until the job is gone. nil is no function; it is called
	// on Linux only.
	Guard func(pid int) error
	// Will is what Main returns in the watchdog after this process has died, when its jobs are gone, until Released or Close
	// is called. It is kept in memory alone. It has no effect if it is longer than 4 KiB, and on other systems than Linux.
	Will string
	// Stopping is called when the job is asked to stop or killed, whatever the reason. It must not block, and
	// may be called again. nil is no function.
	Stopping func()
	// Warn shows the user a message. It must not block.
	Warn func(format string, args ...any)
	// Background: the command never gets the terminal, and if it is stopped, this process goes on. It
	// is for a process that runs several commands.
	Background bool
}

// isKey reports whether a key of the terminal sends a signal, and the signal ends processes.
func isKey(sig os.Signal) bool { return sig == os.Interrupt || sig == syscall.SIGQUIT }

// stops calls Stopping.
func (t Terms) stops() {
	if t.Stopping != nil {
		t.Stopping()
	}
}

// ErrGuards means that supervisor or watchdog failed before the command started. The command
// did not run.
var ErrGuards = errors.New("the command was not started")

// An Outcome describes how a command ended.
type Outcome struct {
	Code    int  // its exit code, or 128+N if signal N killed it
	Lost    bool // the lock was not provably ours until the command's end
	Overdue bool // the command was stopped after MaxHold
	// Signal is the number of the signal that killed the command, or 0: a command can exit with 128+N by itself.
	Signal int
	// Key: the command had the terminal, and Signal is that of a key, ctrl-C or ctrl-\, and was not sent by this process.
	// So the kernel has not sent it to this process's group, where a script around this process waits for it. See Die.
	Key bool
}

const (
	sayLate    = "no contact with the server; stopping the command (%s, and KILL in %v)"
	sayTooOld  = "no contact with the server; killing the command"
	sayKilled  = "the command did not stop in time; killing it"
	sayLost    = "the lock was lost; killing the command"
	sayOverdue = "the lock has been held for %v; stopping the command (%s)"
	sayDoubt   = "no contact with the server; the command runs on, and the lock ends in %v"
	sayWithout = "the lock was lost; the command runs on without it"
	saySent    = "%s was sent to the command"
	sayFrozen  = "no contact with the server; the command is suspended"
	sayThawed  = "the server answers again; the command continues"
	sayAgain   = "the server answers again; the lock is still held"
	sayWaiting = "the command has ended; holding the lock until the processes that it left behind have ended"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// poke puts a token into a channel with room for one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
