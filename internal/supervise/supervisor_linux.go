package supervise

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Supervisor is this process with its watchdog. It runs one command. Its methods are for one
// goroutine.
type Supervisor struct {
	spare    func(pid int) bool
	others   map[int]bool // children that this process had before; in bash, exec holdfast run … > >(logger)
	watchdog *os.Process
	link     *link
	shared   *shared
	messages chan message  // closed when the watchdog has closed its end
	dead     chan struct{} // closed when the watchdog is reaped
	tty      *terminal
	pid      int // of the command
}

// Start starts the watchdog, which waits for a command to run. spare recognises processes
// among the job's descendants that serve others too and are left alone.
func Start(spare func(pid int) bool) (*Supervisor, error) {
	s := &Supervisor{spare: spare, others: make(map[int]bool), messages: make(chan message), dead: make(chan struct{})}
	for _, pid := range children(os.Getpid()) {
		s.others[pid] = true
	}
	// If the watchdog dies, its children become ours.
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	if err := s.startWatchdog(); err != nil {
		return nil, fmt.Errorf("start the watchdog process: %w", err)
	}
	go func() {
		defer close(s.messages)
		for {
			m, err := s.link.receive()
			if err != nil { // the end, or a reset: it has died with our message unread
				return
			}
			s.messages <- m
		}
	}()
	go func() {
		defer close(s.dead)
		_, _ = s.watchdog.Wait()
	}()
	return s, nil
}

const (
	// watchdogName is what the watchdog is called by, and how it knows itself.
	watchdogName = "holdfast-watchdog"
	// watchdogComm is its name for the kernel. It is not like that of the supervisor: killall
	// and pkill with the supervisor's name leave the watchdog, and that ends the job.
	watchdogComm = "hf-watchdog"
)

func (s *Supervisor) startWatchdog() (err error) {
	if s.shared, err = newShared(); err != nil {
		return err
	}
	var end *os.File
	if s.link, end, err = newLink(); err != nil {
		s.shared.close()
		return err
	}
	defer end.Close()
	// The command has to find the descriptors that this process has inherited at their
	// numbers. So the watchdog gets its two at numbers that are free.
	files := []uintptr{0, 1, 2}
	inherited := inheritedFiles()
	var at []string
	for _, f := range []uintptr{end.Fd(), s.shared.file.Fd()} {
		for slices.Contains(inherited, len(files)) {
			files = append(files, uintptr(len(files)))
		}
		at = append(at, strconv.Itoa(len(files)))
		files = append(files, f)
	}
	// Not the name of the file, which may have been replaced by another version.
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{watchdogName}, at...), &syscall.ProcAttr{
		Env: os.Environ(), Files: files,
		// A group of its own, so that what is meant for the terminal's job does not reach it.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err == nil {
		s.watchdog, err = os.FindProcess(pid)
	}
	if err != nil {
		s.shared.close()
		s.link.file.Close()
	}
	return err
}

// inheritedFiles are the descriptors that came from whoever started this process: those that
// Go has opened are close-on-exec.
func inheritedFiles() []int {
	var all []int
	for _, fd := range numbers("/proc/self/fd") {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			all = append(all, fd)
		}
	}
	return all
}

// Close ends the watchdog. If a job is running, that ends too.
func (s *Supervisor) Close() {
	s.link.file.Close()
	for range s.messages {
	}
	select {
	case <-s.dead:
	case <-time.After(closePatience):
		_ = s.watchdog.Kill() // init reaps it
	}
	s.shared.close()
}

// closePatience is how long an idle watchdog may take to end. It takes a millisecond unless it
// is stopped.
const closePatience = time.Second

// Run starts the command and returns when it and all that it has left behind are gone. It can be
// called once. The error is that of a command that could not be started; then nothing runs.
func (s *Supervisor) Run(c Command, t Terms) (Outcome, error) {
	s.tty = openTerminal()
	defer s.tty.close()
	if err := s.order(c, t); err != nil {
		return Outcome{}, err
	}
	r := &run{Supervisor: s, Terms: t, backstop: newAlarm()}
	defer r.backstop.close()
	return r.watch(c)
}

// order tells the watchdog to start the command.
func (s *Supervisor) order(c Command, t Terms) error {
	_ = s.shared.publish(time.Until(t.Deadline()))
	length, err := s.shared.write(order{command: c, grace: t.Grace, lender: s.tty.lender()})
	if err != nil {
		return &fs.PathError{Op: "exec", Path: c.Path, Err: err}
	}
	if err := s.link.send(verbStart, int64(length), ""); err != nil {
		return fmt.Errorf("the watchdog process does not answer: %w", err)
	}
	return nil
}

// A run is one command under the supervisor.
type run struct {
	*Supervisor
	Terms
	backstop *alarm // by then the job must be gone
	cgroup   string // of the job, "" if it has none
	lost     bool
}

const (
	// late is what is left of the margin when the job should be gone.
	late = killMargin / 2
	// inboxPatience is how long the watchdog's last messages take to be read by then, if this
	// process was stopped. After that the watchdog is not trusted any more.
	inboxPatience = 20 * time.Millisecond
)

func (r *run) watch(c Command) (Outcome, error) {
	publish := time.NewTimer(time.Hour)
	defer publish.Stop()
	loss, doubt := r.Lost, false
	for {
		if !r.lost && !doubt {
			publish.Reset(r.publish())
		}
		select {
		case m, ok := <-r.messages:
			switch {
			case !ok:
				return r.alone("the watchdog process has died; killing the command", false), nil
			case m.verb == verbFailed:
				return Outcome{}, &fs.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.Errno(m.value)}
			case m.verb == verbStarted:
				r.pid, r.cgroup = int(m.value), m.text
				r.tty.isLent()
			case m.verb == verbStopped:
				r.pause(syscall.Signal(m.value))
			case m.verb == verbSay:
				r.Warn("%s", m.text)
			case m.verb == verbGone, m.verb == verbLost:
				return r.gone(code(syscall.WaitStatus(m.value)), m.verb == verbLost), nil
			}

		case sig := <-r.Signals:
			r.forward(sig)

		case <-loss:
			loss, r.lost = nil, true
			_ = r.link.send(verbKill, 0, "")
			r.backstop.in(late)

		case <-publish.C:

		case <-r.backstop.C:
			// It continues us if we are stopped, and then the deadline may have moved on.
			if !r.lost && time.Until(r.Deadline()) > late {
				continue
			}
			if !doubt {
				doubt = true
				r.backstop.in(inboxPatience)
				continue
			}
			return r.alone("the watchdog process does not end the command; killing it", true), nil
		}
	}
}

// publish tells the watchdog until when the lock is proven ours, and returns after what time to
// do so again: often enough that the watchdog sees the deadline move on long before it would act.
func (r *run) publish() (again time.Duration) {
	left := time.Until(r.Deadline())
	if r.shared.publish(left) {
		_ = r.link.send(verbLook, 0, "")
	}
	r.backstop.in(left - late)
	return min(max((left-r.Grace)/8, 10*time.Millisecond), time.Second)
}

// forward passes a signal on to the job.
func (r *run) forward(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok || s == syscall.SIGCONT && time.Until(r.Deadline()) <= killMargin {
		return // CONT: our own alarm's, perhaps
	}
	_ = r.link.send(verbSignal, int64(s), "")
}

// pause does what the stop of the command asks for.
func (r *run) pause(sig syscall.Signal) {
	if r.tty.pause(sig, r.pid) {
		_ = r.link.send(verbResume, 0, "")
	}
}

// gone is the outcome of a job that is gone.
func (r *run) gone(code int, lost bool) Outcome {
	r.tty.takeBack(r.pid)
	return Outcome{Code: code, Lost: lost || r.lost || isClosed(r.Terms.Lost)}
}

// alone ends the job without the watchdog. When that is dead, the processes of the job are
// our children, or descend from them.
func (r *run) alone(why string, lost bool) Outcome {
	r.killCgroup()
	_ = r.watchdog.Kill()
	r.Warn("%s", why)
	// Its last words: what it has started, or how the command has ended.
	for m := range r.messages {
		switch m.verb {
		case verbStarted:
			r.pid, r.cgroup = int(m.value), m.text
			r.killCgroup()
		case verbGone, verbLost:
			return r.gone(code(syscall.WaitStatus(m.value)), m.verb == verbLost)
		}
	}
	status := syscall.WaitStatus(syscall.SIGKILL) // if nobody can tell
	f := newFamily(func(pid int) bool { return r.others[pid] || r.spare(pid) })
	f.end(r.Warn, func() {
		if e, err := waitID(unix.P_PID, r.pid, unix.WEXITED|unix.WNOHANG); err == nil && r.pid != 0 && e.pid == r.pid {
			status = e.waitStatus()
		}
	})
	if r.cgroup != "" {
		(&cgroup{r.cgroup}).remove()
	}
	return r.gone(code(status), lost || time.Until(r.Deadline()) <= 0)
}

func (r *run) killCgroup() {
	if r.cgroup != "" {
		(&cgroup{r.cgroup}).kill()
	}
}
