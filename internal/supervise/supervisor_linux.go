package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Supervisor is this process with its watchdog. It runs one command. Only one goroutine may
// use it. A process can have several, for several commands.
type Supervisor struct {
	spare    func(pid int) bool
	others   map[int]bool // children that this process had at its start, as with bash's exec holdfast run … > >(logger)
	backstop *alarm       // rings when the job must be gone
	watchdog *child
	link     *link
	shared   *shared
	messages chan message  // closed when the watchdog has closed its end
	dead     chan struct{} // closed when the watchdog is reaped
	tty      *terminal
	pid      int // of the command
}

// Start starts the watchdog, which waits for a command to run. spare recognises descendants of
// the job that also serve other programs. They are left alone.
func Start(spare func(pid int) bool) (*Supervisor, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc is not that of this PID namespace, so the command's processes could not be found: mount it (unshare --mount-proc)")
	}
	s := &Supervisor{spare: spare, others: make(map[int]bool)}
	if !childless() {
		for _, pid := range children(os.Getpid()) {
			s.others[pid] = true
		}
	}
	// If the watchdog dies, this process becomes the parent of its children.
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	var err error
	if s.backstop, err = newAlarm(); err != nil {
		return nil, err
	}
	if err := s.startWatchdog(); err != nil {
		s.backstop.close()
		return nil, err
	}
	return s, nil
}

const (
	// watchdogName is the watchdog's argv[0], by which it recognises itself.
	watchdogName = "holdfast-watchdog"
	// watchdogComm is its name for the kernel. It differs from the supervisor's name, so that
	// killall and pkill with that name leave the watchdog alive, which then ends the job.
	watchdogComm = "hf-watchdog"
)

// startWatchdog starts the watchdog process, and the goroutine that reads its messages and then
// reaps it.
func (s *Supervisor) startWatchdog() error {
	if err := s.forkWatchdog(); err != nil {
		return fmt.Errorf("start the watchdog process: %w", err)
	}
	messages, dead := make(chan message), make(chan struct{})
	s.messages, s.dead = messages, dead
	link, watchdog := s.link, s.watchdog
	go func() {
		defer close(dead)
		link.forward(messages)
		// Wait only when the watchdog is about to end, because the wait occupies a thread.
		watchdog.wait()
		watchdogs.remove(watchdog.Pid)
	}()
	return nil
}

// watchdogs are the watchdogs of all supervisors of this process.
var watchdogs = siblings{pids: make(map[int]bool)}

// siblings are watchdogs, by process id. A supervisor that ends its job alone must spare the other
// watchdogs, and with them their jobs.
type siblings struct {
	mu   sync.Mutex // guards pids
	pids map[int]bool
}

// fork calls start and records the process that it returns. Nobody can see the process before that.
func (s *siblings) fork(start func() (pid int, err error)) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := start()
	if err == nil {
		s.pids[pid] = true
	}
	return pid, err
}

func (s *siblings) remove(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pids, pid)
}

func (s *siblings) has(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pids[pid]
}

func (s *Supervisor) forkWatchdog() (err error) {
	if s.shared, err = newShared(); err != nil {
		return err
	}
	var end *os.File
	if s.link, end, err = newLink(); err != nil {
		s.shared.close()
		return err
	}
	defer end.Close()
	// The command must find the descriptors that this process has inherited at their numbers.
	// So the watchdog gets its own two at free numbers.
	files := []uintptr{0, 1, 2}
	inherited := inheritedFiles()
	var at []string
	kin, err := newKin()
	if err != nil {
		s.shared.close()
		s.link.file.Close()
		return err
	}
	for _, f := range []uintptr{end.Fd(), s.shared.file.Fd(), uintptr(kin.read), uintptr(kin.write)} {
		for slices.Contains(inherited, len(files)) {
			files = append(files, uintptr(len(files)))
		}
		at = append(at, strconv.Itoa(len(files)))
		files = append(files, f)
	}
	// Not the file's name: the file may have been replaced by another version.
	pid, err := watchdogs.fork(func() (int, error) {
		return syscall.ForkExec("/proc/self/exe", append([]string{watchdogName}, at...), &syscall.ProcAttr{
			Env: watchdogEnv(os.Environ()), Files: files,
			// A process group of its own, so that the terminal's signals for the job do not reach
			// it.
			Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	})
	if err != nil {
		s.shared.close()
		s.link.file.Close()
		return err
	}
	s.watchdog = &child{Pid: pid}
	return nil
}

// watchdogEnv returns the watchdog's environment, made from ours. The watchdog mostly waits;
// with one processor it starts faster and has fewer threads. The command's environment comes
// with the order.
func watchdogEnv(ours []string) []string {
	env := slices.DeleteFunc(ours, func(variable string) bool { return strings.HasPrefix(variable, "GOMAXPROCS=") })
	return append(env, "GOMAXPROCS=1")
}

// inheritedFiles returns the descriptors that this process inherited. Those that Go has opened
// are close-on-exec.
func inheritedFiles() []int {
	var all []int
	for _, fd := range numbers("/proc/self/fd") {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			all = append(all, fd)
		}
	}
	return all
}

// Bequeath replaces Terms.Will, or sets it for the time before Run, so that a process that dies in its wait for a lock leaves
// no place in the queue. While no
// goroutine calls another method, several may call it.
func (s *Supervisor) Bequeath(will string) {
	if s != nil && len(will) <= maxText { // a signal can come while the command connects
		_ = s.link.send(verbWill, 0, will) // without it, the session has its timeout
	}
}

// Released says that the lock is released after Run, so the will has no effect any more. The watchdog ends meanwhile.
func (s *Supervisor) Released() {
	s.Bequeath("")
	s.link.file.Close()
}

// Close ends the watchdog and any running job. The will has no effect any more.
func (s *Supervisor) Close() {
	s.Bequeath("")
	s.endWatchdog()
	s.backstop.close()
}

func (s *Supervisor) endWatchdog() {
	s.link.file.Close()
	for range s.messages {
	}
	select {
	case <-s.dead:
	case <-time.After(closePatience):
		_ = s.watchdog.Signal(unix.SIGKILL) // init reaps it
	}
	s.shared.close()
}

// closePatience is the time that an idle watchdog may take to end. It needs a millisecond
// unless it is stopped. A variable for tests.
var closePatience = time.Second

// Run starts the command, and returns when the command and all its leftover processes are gone.
// It can be called once. If it returns an error, nothing runs: the command could not be
// started, or the error is ErrGuards. If this process dies before Released or Close, the watchdog carries out the will.
func (s *Supervisor) Run(c Command, t Terms) (Outcome, error) {
	t.Ending.Signal = cmp.Or(t.Ending.Signal, syscall.SIGTERM)
	if !t.Background {
		s.tty = openTerminal()
	}
	defer s.tty.close()
	if isClosed(s.dead) { // the watchdog died during the wait for the lock
		s.endWatchdog()
		if err := s.startWatchdog(); err != nil {
			return Outcome{}, fmt.Errorf("%w: %w", ErrGuards, err)
		}
	}
	if t.Guard != nil {
		if err := t.Guard(s.watchdog.Pid); err != nil {
			return Outcome{}, fmt.Errorf("%w: %w", ErrGuards, err)
		}
	}
	s.Bequeath(t.Will)
	if err := s.order(c, t); err != nil {
		return Outcome{}, err
	}
	out, err := (&run{Supervisor: s, Terms: t}).watch(c)
	if t.Will == "" {
		s.link.file.Close() // the watchdog ends while the caller releases the lock
	}
	return out, err
}

// deadline returns t's deadline by clock. If this process is delayed in between, the result is
// too early, never too late.
func (t Terms) deadline() time.Duration {
	now := clock()
	return now + time.Until(t.Deadline())
}

// order makes the watchdog start the command.
func (s *Supervisor) order(c Command, t Terms) error {
	deadline := t.deadline()
	if isClosed(t.Lost) || deadline-clock() <= KillMargin {
		return fmt.Errorf("%w: the lock was already lost", ErrGuards)
	}
	_ = s.shared.publish(deadline)
	o := order{command: c, ending: t.Ending}
	o.lender, o.asks = s.tty.lender()
	length, err := s.shared.write(o)
	if err != nil {
		return &fs.PathError{Op: "exec", Path: c.Path, Err: err}
	}
	if err := s.link.send(verbStart, int64(length), ""); err != nil {
		return fmt.Errorf("%w: the watchdog process does not answer: %w", ErrGuards, err)
	}
	_ = s.watchdog.Signal(unix.SIGCONT) // it may be stopped, and has no alarm yet
	return nil
}

// A run is one command under the supervisor.
type run struct {
	*Supervisor
	Terms
	cgroup string // of the job, "" if it has none
	lost   bool
	exited *syscall.WaitStatus // of the command, once its leftovers are awaited
	hadTTY bool                // the job had the terminal when the command ended
	sent   syscall.Signal      // the last signal of a key that was forwarded to the job
	key    syscall.Signal      // the last signal of a key that this process's group got from relay
	keyAt  time.Time
	owed   int // signals of relay that this process has still to get
}

const (
	// late is the part of the margin that is left when the job must be gone.
	late = KillMargin / 2
	// inboxPatience is the time to read the watchdog's last messages after late, in case this
	// process was stopped. After that the supervisor acts without the watchdog.
	inboxPatience = 20 * time.Millisecond
	// relayPatience is the time within which this process gets a signal that it has sent to its own group.
	relayPatience = 2 * time.Second
	// startPatience is the time that the watchdog may take to start the command. It mostly
	// needs a millisecond, but it may have to end orphans first, or be nice on a busy machine.
	startPatience = time.Minute
)

func (r *run) watch(c Command) (Outcome, error) {
	publish := time.NewTimer(time.Hour)
	defer publish.Stop()
	start := time.NewTimer(startPatience)
	defer start.Stop()
	loss, doubt := r.Lost, false
	for {
		if !r.lost && !doubt {
			publish.Reset(r.publish())
		}
		select {
		case m, ok := <-r.messages:
			switch {
			case !ok:
				return r.alone("the watchdog process has died", false)
			case m.verb == verbFailed:
				return Outcome{}, &fs.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.Errno(m.value)}
			case m.verb == verbTooLate:
				return Outcome{}, fmt.Errorf("%w: the lock was already lost", ErrGuards)
			case m.verb == verbStarted:
				start.Stop()
				r.pid, r.cgroup = int(m.value), m.text
				r.tty.isLent()
			case m.verb == verbStops:
				r.stops()
			case m.verb == verbKey:
				r.relay(syscall.Signal(m.value))
			case m.verb == verbStopped:
				r.pause(syscall.Signal(m.value))
			case m.verb == verbSay:
				r.Warn("%s", m.text)
			case m.verb == verbExited:
				status := syscall.WaitStatus(m.value)
				r.exited = &status
				r.hadTTY = r.tty.end(r.pid, status) // ctrl-C is for us now, and forwarded
			case m.verb == verbGone, m.verb == verbLost, m.verb == verbOverdue:
				return r.gone(m), nil
			}

		case sig := <-r.Signals:
			r.forward(sig)

		case <-loss:
			loss, r.lost = nil, true
			_ = r.link.send(verbKill, 0, "")
			if r.Ending.OnLost == LostKills {
				r.backstop.in(late)
			}

		case <-r.Changed:
		case <-publish.C:

		case <-start.C:
			return r.alone("the watchdog process does not start the command", false)

		case <-r.backstop.C:
			// The alarm also continues this process after a stop. The deadline may have
			// advanced since.
			if !r.lost && time.Until(r.Deadline()) > late {
				continue
			}
			if !doubt {
				doubt = true
				r.backstop.in(inboxPatience)
				continue
			}
			return r.alone("the watchdog process does not end the command", true)
		}
	}
}

// publish sends the deadline to the watchdog, and returns the time until the next call. That is
// soon enough for the watchdog to see the new deadline long before it would act.
func (r *run) publish() (again time.Duration) {
	deadline := r.deadline()
	look := r.shared.publish(deadline)
	if r.Suspect != nil && r.shared.suspect(r.Suspect()) {
		look = true
	}
	if look {
		_ = r.link.send(verbLook, 0, "")
	}
	left := deadline - clock()
	if r.Ending.OnLost == LostKills {
		r.backstop.in(left - late)
	}
	return min(max((left-max(r.Ending.Grace, r.Ending.Freeze))/8, 10*time.Millisecond), time.Second)
}

// forward sends a signal to the job.
func (r *run) forward(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if ok && s == r.key && r.owed > 0 && time.Since(r.keyAt) < relayPatience {
		r.owed--
		return // the job has it
	}
	if !ok || s == syscall.SIGCONT && r.Ending.OnLost == LostKills && time.Until(r.Deadline()) <= KillMargin {
		return // the CONT may come from our own alarm
	}
	if r.Ending.stops(s) {
		r.stops() // before the watchdog says so
	}
	if isKey(s) {
		r.sent = s
	}
	_ = r.link.send(verbSignal, int64(s), "")
}

// relay gives a key that the job has got to this process's group. This process gets it, too, and must not forward it.
func (r *run) relay(sig syscall.Signal) {
	if sig != r.key {
		r.owed = 0
	}
	r.key, r.keyAt = sig, time.Now()
	r.owed++
	_ = unix.Kill(0, sig)
}

// pause handles a stop of the command.
func (r *run) pause(sig syscall.Signal) {
	if r.tty.pause(sig, r.pid, func() { _ = r.link.send(verbSignal, int64(unix.SIGSTOP), "") }) {
		_ = r.link.send(verbResume, 0, "")
	}
}

// gone returns the outcome of a job that is gone, from the watchdog's last message.
func (r *run) gone(m message) Outcome {
	out := r.outcome(syscall.WaitStatus(m.value), m.verb == verbLost)
	out.Overdue = m.verb == verbOverdue
	return out
}

func (r *run) outcome(status syscall.WaitStatus, lost bool) Outcome {
	r.hadTTY = r.tty.end(r.pid, status) || r.hadTTY
	by := syscall.Signal(killer(status))
	return Outcome{Code: code(status), Signal: int(by), Key: r.hadTTY && isKey(by) && r.sent != by && r.key != by, Lost: lost || r.lost || isClosed(r.Terms.Lost)}
}

// alone ends the job without the watchdog. Once the watchdog is dead, the job's processes are
// our descendants. The error is ErrGuards if the command was never started.
func (r *run) alone(why string, lost bool) (Outcome, error) {
	r.stops()
	r.killCgroup()
	_ = r.watchdog.Signal(unix.SIGKILL)
	// The watchdog's last messages say what it started, or how the command ended.
	for m := range r.messages {
		switch m.verb {
		case verbStarted:
			r.pid, r.cgroup = int(m.value), m.text
			r.killCgroup()
		case verbExited:
			status := syscall.WaitStatus(m.value)
			r.exited = &status
		case verbGone, verbLost, verbOverdue:
			r.Warn("%s", why)
			return r.gone(m), nil
		}
	}
	if r.pid != 0 {
		r.Warn("%s; killing the command", why)
	}
	status, known := syscall.WaitStatus(syscall.SIGKILL), false // if it is unknown which child is the command
	f := newFamily(func(pid int) bool {
		return r.others[pid] || pid != r.watchdog.Pid && watchdogs.has(pid) || r.spare(pid)
	})
	select {
	case <-r.dead:
	case <-time.After(inboxPatience):
		f.spared = true // the watchdog: its debugger can keep us from reaping it
	}
	// The group before the others, because listing them can take long. If the watchdog has reaped the command, another
	// group may have the number.
	if p, ok := readProcess(r.pid); ok && (p.parent == os.Getpid() || p.parent == r.watchdog.Pid) {
		_ = unix.Kill(-r.pid, unix.SIGKILL)
	}
	if r.exited != nil {
		status, known = *r.exited, true
	}
	started := r.pid != 0
	f.reaped = func(e childEvent) {
		if e.pid == r.watchdog.Pid || r.others[e.pid] || watchdogs.has(e.pid) {
			delete(r.others, e.pid) // a later process can have the number
			return
		}
		if e.pid == r.pid && !known {
			status, known = e.waitStatus(), true // a later child can have the same number
		}
		started = true // perhaps between the fork and the watchdog's message
	}
	f.end(r.Warn) // also if no command is known: the watchdog may have died right after the fork
	if r.cgroup != "" {
		(&cgroup{path: r.cgroup}).remove(removePatience)
	}
	if !started {
		return Outcome{}, fmt.Errorf("%w: %s", ErrGuards, why)
	}
	return r.outcome(status, lost || time.Until(r.Deadline()) <= 0), nil
}

func (r *run) killCgroup() {
	if r.cgroup != "" {
		_ = (&cgroup{path: r.cgroup}).kill()
	}
}
