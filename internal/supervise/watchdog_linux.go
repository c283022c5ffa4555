package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/internal/duration"
)

// IsWatchdog reports whether this process was started as a watchdog. If so, the program must
// call Main and nothing else, possibly while it initialises its packages.
func IsWatchdog() bool { return len(os.Args) == 5 && os.Args[0] == watchdogName }

// Main runs the watchdog process and returns its exit code. spare is as for Start. If the supervisor has died, will is
// that of its Terms; then no job of it is left.
func Main(spare func(pid int) bool) (code int, will string) {
	w, err := newWatchdog(spare)
	if err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: watchdog process: %v\n", err)
		return 1, ""
	}
	w.work()
	if w.will != "" && w.kin.last(willPatience) {
		return 0, w.will
	}
	return 0, ""
}

// willPatience is how long a watchdog waits for the others of a supervisor that has died.
const willPatience = 5 * time.Second

type watchdog struct {
	spare   func(pid int) bool
	link    *link
	shared  *shared
	orders  chan order
	signals chan os.Signal
	resume  chan struct{}
	look    chan struct{}
	keys    chan os.Signal // of the terminal
	settled chan struct{}  // see settleKeys
	lost    chan struct{}  // closed when the job must be killed at once, or must not start
	gone    chan struct{}  // closed when the supervisor is gone
	alarm   *alarm         // the guard's

	kin  kin
	will string // of Terms, or of Bequeath; may be read when gone is closed. A supervisor that ends the link by itself has emptied it
}

func newWatchdog(spare func(pid int) bool) (*watchdog, error) {
	w := &watchdog{
		spare: spare, orders: make(chan order, 1), signals: make(chan os.Signal, 64), resume: make(chan struct{}, 1),
		look: make(chan struct{}, 1), keys: make(chan os.Signal, 4), settled: make(chan struct{}, 1), lost: make(chan struct{}), gone: make(chan struct{}),
	}
	var files []*os.File
	for _, arg := range os.Args[1:3] {
		fd, err := strconv.Atoi(arg)
		if err != nil {
			return nil, err
		}
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil { // for the runtime's poller
			return nil, err
		}
		files = append(files, os.NewFile(uintptr(fd), "inherited"))
	}
	if err := w.kin.inherit(os.Args[3:]); err != nil {
		return nil, err
	}
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	// Signals to all processes of a service (systemd's KillMode=control-group) reach us as
	// well. We ignore them; the supervisor forwards those for the job.
	Notify(make(chan os.Signal, 1), StopSignals...)
	Notify(w.keys, syscall.SIGINT, syscall.SIGQUIT, settling)
	_ = os.WriteFile("/proc/self/comm", []byte(watchdogComm), 0) // in place of "exe"
	w.link = &link{files[0]}
	var err error
	if w.alarm, err = newAlarm(); err != nil {
		return nil, err
	}
	w.shared, err = mapShared(files[1])
	return w, err
}

func (w *watchdog) work() {
	go w.listen()
	select {
	case o := <-w.orders:
		w.run(o)
		<-w.gone // the supervisor may be stopped, and must find our last message
	case <-w.gone:
	}
}

// listen handles the supervisor's messages until the supervisor is gone.
func (w *watchdog) listen() {
	lost := false
	lose := func() {
		if !lost {
			lost = true
			close(w.lost)
		}
	}
	defer lose()
	defer close(w.gone)
	for {
		m, err := w.link.receive()
		switch {
		case errors.Is(err, unix.ECONNRESET): // the supervisor has ended the link with our message unread; its own messages follow
			continue
		case err != nil:
			return
		}
		switch m.verb {
		case verbStart:
			o, err := w.shared.read(int(m.value))
			if err != nil {
				_ = w.link.send(verbFailed, int64(unix.EINVAL), "")
				return
			}
			w.orders <- o
		case verbSignal:
			select {
			case w.signals <- syscall.Signal(m.value):
			default:
			}
		case verbLook:
			poke(w.look)
		case verbResume:
			poke(w.resume)
		case verbKill:
			lose()
		case verbWill:
			w.will = m.text
		}
	}
}

// surviveAll keeps the signals that a job's process group gets from ending or stopping this process. The command does not
// inherit that. Signals that are ignored stay ignored. If the job can ask for the terminal, those by which it asks do not:
// ignoring them makes sense for a command in the caller's process group only.
func surviveAll(asks bool) {
	c := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		switch {
		case sig == unix.SIGCHLD, sig == unix.SIGURG, sig == unix.SIGCONT, signal.Ignored(sig):
		case stopsIgnored[sig] && !(asks && sig != unix.SIGTSTP):
		default:
			signal.Notify(c, sig)
		}
	}
}

// relayKeys tells the supervisor of the keys that the job gets while it has the terminal, so that the supervisor's process
// group gets them, too. There, a script waits for the supervisor.
func (w *watchdog) relayKeys(tty *terminal, job int) {
	for key := range w.keys {
		switch {
		case key == settling:
			poke(w.settled)
		case tty.foreground() == job:
			_ = w.link.send(verbKey, int64(key.(syscall.Signal)), "")
		}
	}
}

// settling is a signal that this process sends to itself: when it has come, all keys before it have come.
const settling = syscall.SIGWINCH

// settleKeys waits until the keys that have ended the job are relayed, for patience at most.
func (w *watchdog) settleKeys(j *job, patience time.Duration) {
	if !j.joined {
		return
	}
	select {
	case <-w.settled:
	default:
	}
	_ = unix.Kill(os.Getpid(), settling)
	select {
	case <-w.settled:
	case <-time.After(patience):
	}
}

// run starts the command and guards it until none of its processes is left.
func (w *watchdog) run(o order) {
	cg, _ := makeCgroup() // nil: the job runs without one
	if cg != nil && o.ending.Leftovers == LeftoversIgnored {
		// The next watchdog would kill processes that are left in it.
		cg.remove(removePatience)
		cg = nil
	}
	tty := openTerminal()
	defer tty.close()
	// Time may have passed since the order: this process may have been stopped, or ending
	// orphans may have taken long.
	if isClosed(w.lost) || w.shared.left() <= KillMargin {
		cg.remove(removePatience)
		_ = w.link.send(verbTooLate, 0, "")
		return
	}
	w.alarm.in(min(w.shared.left(), longestStop)) // continues us if we are stopped before the guard sets it
	pipe, err := newLostPipe()
	if err != nil {
		cg.remove(removePatience)
		errno, _ := errors.AsType[syscall.Errno](err)
		_ = w.link.send(verbFailed, int64(errno), "")
		return
	}
	relays := tty != nil && o.lender >= 0
	if relays {
		surviveAll(o.asks)
	}
	j, err := startJob(o.command, pipe, newFamily(w.spare), cg, func(j *job) {
		if relays {
			j.join()
			go w.relayKeys(tty, j.pid)
		}
		tty.lend(o.lender, j.pid)
	})
	pipe.started()
	if err != nil {
		j.cgroup.remove(removePatience)
		errno, _ := errors.AsType[syscall.Errno](err)
		_ = w.link.send(verbFailed, int64(errno), "")
		return
	}
	path := ""
	if j.cgroup != nil {
		path = j.cgroup.path
	}
	_ = w.link.send(verbStarted, int64(j.pid), path)
	g := &guard{
		job: j, ending: o.ending, left: w.shared.left, suspect: w.shared.isSuspect, lost: w.lost, signals: w.signals, resume: w.resume, look: w.look, alarm: w.alarm,
		stopped: func(sig syscall.Signal) { _ = w.link.send(verbStopped, int64(sig), "") },
		exited: func() {
			w.settleKeys(j, inboxPatience) // the guard has other work
			_ = w.link.send(verbExited, int64(j.status), "")
		},
		doubt: pipe.end,
		stops: func() { _ = w.link.send(verbStops, 0, "") },
		say: func(format string, args ...any) {
			_ = w.link.send(verbSay, 0, fmt.Sprintf(format, duration.InMessage(args)...))
		},
	}
	v := verbGone
	switch lost := g.run(); {
	case lost:
		v = verbLost
	case g.overdue:
		v = verbOverdue
	}
	w.settleKeys(j, KillMargin)
	_ = w.link.send(v, int64(j.status), "")
}
