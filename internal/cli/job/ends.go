package job

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

// DefaultGrace is the default of --term-before, and the time from --max-hold to KILL. A short session
// timeout shortens it.
const DefaultGrace = 5 * time.Second

// longestGrace returns the longest --term-before. As long as the servers answer, more than this is left of any
// session, also between two proofs of an ensemble (see zk.Session.Lease).
func longestGrace(timeout time.Duration) time.Duration { return timeout * 2 / 5 }

// Flags are the flags of the subcommands that run a command: when and how it is stopped, and what may
// be left of it.
type Flags struct {
	Signal     signalFlag
	killAfter  time.Duration
	termBefore time.Duration
	maxHold    time.Duration
	leftovers  term.Choice
	onLost     lostFlag
	onSuspect  term.Choice
	shell      bool
}

// Register gives a command the flags.
func (f *Flags) Register(cmd *cobra.Command) {
	f.Signal = signalFlag(syscall.SIGTERM)
	f.leftovers = term.Choice{Options: []string{"kill", "wait", "ignore"}}
	f.onSuspect = term.Choice{Options: []string{"continue", "stop"}}
	flags := cmd.Flags()
	flags.Var(&f.Signal, "kill-signal", "signal that asks the command to stop: a name such as INT, or a number")
	term.DurationVar(flags, &f.killAfter, "kill-after", "", 0, "send KILL this long after the command was asked to stop, also by a TERM, INT, HUP or QUIT that was sent to holdfast; 0 is never. Before the lock expires, KILL comes in any case (default: never after a signal to holdfast, 5s after --max-hold)")
	term.DurationVar(flags, &f.termBefore, "term-before", "", 0, "without contact with the server, ask the command to stop this long before the lock expires; at most two fifths of the session timeout. KILL follows 250ms before the lock expires, so 250ms or less sends KILL only (default: 5s, or a third of a session timeout below 15s. With --kill-after, the default is its time plus 250ms, if that is at most two fifths of the session timeout)")
	term.DurationVar(flags, &f.maxHold, "max-hold", "", 0, "ask the command to stop when it has run for this long, and exit with 124; 0 is no limit")
	flags.Var(&f.leftovers, "leftovers", "what happens to processes that the command left when it ended: kill, wait (hold the lock until they have ended), or ignore (release the lock though they run)")
	flags.Var(&f.onLost, "on-lost", "when the lock is lost or about to be: kill (stop the command in time), signal=NAME (only send it this signal), or ignore. With the last two, the command can run beside the next holder's")
	flags.Var(&f.onSuspect, "on-suspect", "while no server answers: continue, or stop (suspend all processes of the command with STOP, and continue them with CONT when a server answers)")
	flags.BoolVar(&f.shell, "shell", false, "join the command's words with spaces and give them to sh -c")
}

// An Ending returns the terms of a command's end for the session timeout that the server has granted. It
// fails if the timeout is too short for --term-before.
type Ending func(timeout time.Duration) (supervise.Ending, error)

// Ending checks the flags.
func (f *Flags) Ending(cmd *cobra.Command, g *conn.Flags) (Ending, error) {
	given := cmd.Flags().Changed
	switch {
	case f.killAfter < 0:
		return nil, term.Usage("", "--kill-after %v is negative", f.killAfter)
	case f.termBefore < 0:
		return nil, term.Usage("", "--term-before %v is negative", f.termBefore)
	case f.maxHold < 0:
		return nil, term.Usage("", "--max-hold %v is negative", f.maxHold)
	case f.killAfter > term.MaxDuration:
		return nil, term.Usage("give 0 for never", "--kill-after %v: want at most %v", f.killAfter, term.MaxDuration)
	case f.maxHold > term.MaxDuration:
		return nil, term.Usage("give 0 for no limit", "--max-hold %v: want at most %v", f.maxHold, term.MaxDuration)
	case !supervise.CanAsk(syscall.Signal(f.Signal)):
		return nil, term.Usage("give a signal that the command can handle, such as INT. KILL follows by itself, see --kill-after",
			"--kill-signal %v cannot ask a command to stop", &f.Signal)
	case f.onSuspect.Is("stop") && f.onLost.on != supervise.LostKills:
		return nil, term.Usage("leave out --on-lost or --on-suspect",
			"--on-suspect stop and --on-lost %v do not go together: the command would continue when the lock is lost", &f.onLost)
	case f.onSuspect.Is("stop") && !supervise.CanFreeze:
		return nil, term.Usage("leave out --on-suspect", "--on-suspect stop: this system cannot suspend processes")
	}
	e := supervise.Ending{
		Signal: syscall.Signal(f.Signal), KillAfter: f.killAfter, MaxHold: f.maxHold, MaxHoldKill: DefaultGrace,
		Leftovers: supervise.Leftovers(f.leftovers.Chosen), OnLost: f.onLost.on, LostSignal: f.onLost.signal,
	}
	if given("kill-after") {
		e.MaxHoldKill = f.killAfter
	}
	at := func(timeout time.Duration) (supervise.Ending, error) {
		e := e
		switch fits := f.killAfter + supervise.KillMargin; {
		case given("term-before"):
			e.Grace = f.termBefore
		case f.killAfter > 0 && fits <= longestGrace(timeout):
			e.Grace = fits
		default:
			e.Grace = GraceOf(timeout)
		}
		if e.Grace > longestGrace(timeout) {
			return e, term.Usage("give a shorter --term-before or a longer --session-timeout",
				"--term-before %v is more than two fifths of the session timeout, %v: the command could be asked to stop although the server answers", e.Grace, timeout)
		}
		if f.onSuspect.Is("stop") {
			e.Freeze = e.Grace + timeout/20
		}
		return e, nil
	}
	_, err := at(g.Timeout)
	return at, err
}

// Command returns the command in the arguments of the subcommand.
func (f *Flags) Command(args []string) []string {
	words := Dashless(args)
	if f.shell {
		return []string{"sh", "-c", strings.Join(words, " ")}
	}
	return words
}

// A signalFlag is a flag with a signal.
type signalFlag syscall.Signal

func (s *signalFlag) String() string { return supervise.SignalName(syscall.Signal(*s)) }

// Type returns the name of the value in the help.
func (s *signalFlag) Type() string { return "signal" }

// Set accepts the name or the number of a signal.
func (s *signalFlag) Set(text string) error {
	sig, err := supervise.ParseSignal(text)
	if err == nil {
		*s = signalFlag(sig)
	}
	return err
}

// A lostFlag is --on-lost.
type lostFlag struct {
	on     supervise.OnLost
	signal syscall.Signal
}

func (f *lostFlag) String() string {
	switch f.on {
	case supervise.LostSignals:
		return "signal=" + supervise.SignalName(f.signal)
	case supervise.LostIgnored:
		return "ignore"
	}
	return "kill"
}

// Type returns the name of the value in the help.
func (f *lostFlag) Type() string { return "how" }

// Set accepts the reactions.
func (f *lostFlag) Set(text string) error {
	name, isSignal := strings.CutPrefix(text, "signal=")
	switch {
	case text == "kill":
		*f = lostFlag{}
	case text == "ignore":
		*f = lostFlag{on: supervise.LostIgnored}
	case isSignal:
		sig, err := supervise.ParseSignal(name)
		if err != nil {
			return err
		}
		*f = lostFlag{on: supervise.LostSignals, signal: sig}
	default:
		return errors.New("want kill, signal=NAME or ignore")
	}
	return nil
}
