package supervise

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shared is memory that supervisor and watchdog share. It has the deadline, by clock. After
// the first page it has the order to start a job, which may be too long for a message.
type shared struct {
	file  *os.File
	page  []byte
	until *atomic.Int64 // the deadline in nanoseconds, in page
	doubt *atomic.Int64 // 1 while no server is connected, in page
}

func newShared() (*shared, error) {
	fd, err := unix.MemfdCreate("holdfast deadline", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	if err := file.Truncate(int64(os.Getpagesize())); err != nil {
		file.Close()
		return nil, err
	}
	return mapShared(file)
}

// mapShared maps the file of newShared.
func mapShared(file *os.File) (*shared, error) {
	page, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		file.Close()
		return nil, os.NewSyscallError("mmap", err)
	}
	return &shared{
		file: file, page: page,
		until: (*atomic.Int64)(unsafe.Pointer(&page[0])), doubt: (*atomic.Int64)(unsafe.Pointer(&page[8])),
	}, nil
}

func (m *shared) close() {
	_ = unix.Munmap(m.page)
	_ = m.file.Close()
}

func (m *shared) left() time.Duration { return time.Duration(m.until.Load()) - clock() }

// publish sets the deadline, by clock. It reports whether the new deadline is earlier. Then the
// other process must be notified, because its alarm is set for later.
func (m *shared) publish(deadline time.Duration) (earlier bool) {
	until := int64(deadline)
	return until < m.until.Swap(until)-int64(time.Millisecond) // a smaller difference is the time between two readings
}

// suspect records whether no server is connected. It reports whether that is a change. Then the other
// process must be notified.
func (m *shared) suspect(is bool) (changed bool) {
	var value int64
	if is {
		value = 1
	}
	return m.doubt.Swap(value) != value
}

// isSuspect reports what suspect has recorded.
func (m *shared) isSuspect() bool { return m.doubt.Load() != 0 }

// An order makes the watchdog start a command.
type order struct {
	command Command
	ending  Ending
	lender  int  // see terminal.lender; -1 if the job never gets the terminal
	asks    bool // see terminal.lender
}

// errNul: no program can get such an argument.
var errNul = errors.New("a NUL byte in an argument or in the environment")

// write puts the order after the first page, and returns its length.
func (m *shared) write(o order) (int, error) {
	fields := []string{o.ending.String(), strconv.Itoa(o.lender), strconv.FormatBool(o.asks), o.command.Path, strconv.Itoa(len(o.command.Args))}
	fields = append(append(fields, o.command.Args...), o.command.Env...)
	for _, f := range fields {
		if strings.IndexByte(f, 0) >= 0 {
			return 0, errNul
		}
	}
	text := []byte(strings.Join(fields, "\x00"))
	_, err := m.file.WriteAt(text, int64(len(m.page)))
	return len(text), err
}

// read reads an order of the given length.
func (m *shared) read(length int) (o order, err error) {
	text := make([]byte, length)
	if _, err := m.file.ReadAt(text, int64(len(m.page))); err != nil {
		return order{}, err
	}
	fields := strings.Split(string(text), "\x00")
	if len(fields) < 5 {
		return order{}, errCutOff
	}
	var n int
	if o.ending, err = parseEnding(fields[0]); err == nil {
		if o.lender, err = strconv.Atoi(fields[1]); err == nil {
			o.asks = fields[2] == "true"
			n, err = strconv.Atoi(fields[4])
		}
	}
	rest := fields[5:]
	if err != nil || n < 0 || n > len(rest) {
		return order{}, errCutOff
	}
	o.command = Command{Path: fields[3], Args: rest[:n], Env: rest[n:]}
	return o, nil
}

var errCutOff = errors.New("the order in the shared memory is not whole")
