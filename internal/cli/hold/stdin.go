package hold

import (
	"errors"
	"fmt"
	"io"
	"os"

	"holdfast/internal/cli/term"
)

// inputEnded is the signal of the end of standard input. It ends a wait as a signal does.
const inputEnded = inputSignal("end of standard input")

type inputSignal string

func (s inputSignal) String() string { return string(s) }
func (s inputSignal) Signal()        {}

// endOfInput reads standard input to its end, which closes the channel and then counts as a signal. Nothing of
// the input is kept. The goroutine ends with the process.
func endOfInput(signals chan<- os.Signal) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // a failure ends it, too
		close(ended)
		select {
		case signals <- inputEnded:
		default: // there are signals enough to end the wait
		}
	}()
	return ended
}

// leftWithInput returns the error of a wait that the end of standard input has ended: nobody is there to use the
// lock. err is that of the wait.
func leftWithInput(ended <-chan struct{}, name string, err error) error {
	code, stopped := errors.AsType[term.ExitCode](err)
	select {
	case <-ended:
		if stopped && code == term.ExitSignal {
			return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: standard input ended during the wait", term.Cut(name, 80)), Hint: "lock --stdin holds the lock for as long as standard input is open: keep it open, as a coprocess does"}
		}
	default:
	}
	return err
}
