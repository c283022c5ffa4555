package supervise

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock returns the time since the machine was booted. It goes on while the machine is
// suspended, and is the same in every process.
func clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("supervise: no CLOCK_BOOTTIME: " + err.Error()) // since Linux 2.6.39
	}
	return time.Duration(t.Nano())
}

// An alarm rings after some time, by clock. It also continues this process if it is stopped: a
// SIGCONT from a kernel timer reaches a stopped process (timer_create(2); send_sigqueue calls
// prepare_signal, as kill does). So SIGSTOP stops the process until its next alarm at most.
type alarm struct {
	C     <-chan struct{}
	fd    int      // timerfd
	file  *os.File // of fd, for reading
	timer int32    // timer_create
	ended chan struct{}
}

// newAlarm fails only if the system has no files or timers left.
func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), ended: make(chan struct{})}
	if a.timer, err = continueTimer(); err != nil {
		_ = a.file.Close()
		return nil, os.NewSyscallError("timer_create", err)
	}
	rings := make(chan struct{}, 1)
	a.C = rings
	go func() {
		defer close(a.ended)
		var count [8]byte
		for {
			if _, err := a.file.Read(count[:]); err != nil {
				return // closed
			}
			poke(rings)
		}
	}()
	return a, nil
}

// in sets the alarm, and replaces an earlier one.
func (a *alarm) in(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(clock() + max(d, time.Nanosecond)))}
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &at, nil)
	setTimer(a.timer, &at)
}

// stop cancels the alarm.
func (a *alarm) stop() {
	var never unix.ItimerSpec
	_ = unix.TimerfdSettime(a.fd, 0, &never, nil)
	setTimer(a.timer, &never)
}

func (a *alarm) close() {
	_, _, _ = unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(a.timer), 0, 0)
	_ = a.file.Close()
	<-a.ended
}

// continueTimer creates a timer that sends SIGCONT to this process.
func continueTimer() (id int32, err error) {
	const sigevSignal = 0 // SIGEV_SIGNAL
	event := struct {     // struct sigevent
		value         uintptr
		signo, notify int32
		_             [13]int32
	}{signo: int32(unix.SIGCONT), notify: sigevSignal}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

func setTimer(id int32, at *unix.ItimerSpec) {
	const timerAbstime = 1 // TIMER_ABSTIME
	_, _, _ = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(id), timerAbstime, uintptr(unsafe.Pointer(at)), 0, 0, 0)
}
