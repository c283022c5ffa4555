package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The messages between supervisor and watchdog, one packet each.
type (
	verb byte

	message struct {
		verb  verb
		value int64
		text  string
	}
)

const (
	// From the supervisor.
	verbStart  verb = iota + 1 // an order, value bytes long, is in the shared memory
	verbSignal                 // the job gets this signal
	verbLook                   // the deadline in the shared memory has become earlier, or the doubt has changed
	verbResume                 // continue the job after a stop, if the lock allows it
	verbKill                   // the lock is lost
	verbWill                   // text is what Main returns if the supervisor dies, see Terms.Will

	// From the watchdog.
	verbStarted // the command runs, with this process id; text is its cgroup
	verbFailed  // it could not be started: this error number
	verbTooLate // it was not started, because the lock is lost or about to be
	verbStops   // the job is asked to stop, or killed
	verbStopped // the command was stopped by this signal
	verbSay     // text is for the user
	verbGone    // no process of the job is left; this is the command's wait status
	verbLost    // the same, and the lock was not provably ours until then
	verbOverdue // the same as verbGone, and the command was stopped after MaxHold
	verbExited  // the command has ended with this wait status, and its leftovers are awaited
	verbKey     // a key of the terminal has sent this signal to the job's process group
)

// A link is one end of the socket between supervisor and watchdog.
type link struct{ file *os.File }

// newLink creates both ends. The second is for the other process.
func newLink() (*link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return &link{os.NewFile(uintptr(fds[0]), "watchdog")}, os.NewFile(uintptr(fds[1]), "supervisor"), nil
}

const maxText = 4 << 10

// sendPatience is the time that a message may wait for room. A stopped process reads none. A variable for
// tests.
var sendPatience = 50 * time.Millisecond

func (l *link) send(v verb, value int64, text string) error {
	b := binary.LittleEndian.AppendUint64([]byte{byte(v)}, uint64(value))
	b = append(b, text[:min(len(text), maxText)]...)
	// Mostly there is room. Then the message is sent even if this process gets no processor for longer than
	// the patience: a write that begins after its deadline fails without a try.
	raw, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	var full error
	if err := raw.Control(func(fd uintptr) { _, full = unix.Write(int(fd), b) }); err != nil {
		return err
	}
	if full != unix.EAGAIN && full != unix.EINTR {
		return os.NewSyscallError("write", full)
	}
	if err := l.file.SetWriteDeadline(time.Now().Add(sendPatience)); err != nil {
		return err
	}
	_, err = l.file.Write(b)
	return err
}

// forward sends all messages to c, and closes it when the link ends.
func (l *link) forward(c chan<- message) {
	defer close(c)
	for {
		m, err := l.receive()
		switch {
		case errors.Is(err, unix.ECONNRESET): // the other process died with our message unread; its own messages follow
		case err != nil:
			return
		default:
			c <- m
		}
	}
}

// receive waits for the next message. It returns io.EOF if the other end is closed or its
// process is dead.
func (l *link) receive() (message, error) {
	b := make([]byte, 9+maxText)
	n, err := l.file.Read(b)
	switch {
	case err != nil:
		return message{}, err
	case n < 9:
		return message{}, fmt.Errorf("a message of %d bytes: %w", n, io.ErrUnexpectedEOF)
	}
	return message{verb(b[0]), int64(binary.LittleEndian.Uint64(b[1:])), string(b[9:n])}, nil
}
