package proc

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// here returns a Group without processes: the boot and the namespace of this process. It returns an error if start
// times in /proc cannot be compared with those that other processes see.
var here = sync.OnceValues(func() (Group, error) {
	var g Group
	// A /proc of another namespace has other processes at the same ids.
	if link, err := os.Readlink("/proc/self"); err != nil || link != strconv.Itoa(os.Getpid()) {
		return g, fmt.Errorf("/proc is not that of this pid namespace: %w", errors.ErrUnsupported)
	}
	// In a time namespace, /proc shows start times that are shifted.
	const initial = 0xEFFFFFFA // PROC_TIME_INIT_INO of the kernel
	for _, name := range []string{"time", "time_for_children"} {
		switch inode, err := inodeOf("/proc/self/ns/" + name); {
		case errors.Is(err, os.ErrNotExist): // a kernel without time namespaces
		case err != nil || inode != initial:
			return g, fmt.Errorf("in a time namespace: %w", errors.ErrUnsupported)
		}
	}
	var err error
	if g.Namespace, err = inodeOf("/proc/self/ns/pid"); err != nil {
		return g, err
	}
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return g, err
	}
	boot, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(boot) != len(g.Boot) {
		return g, fmt.Errorf("boot id %q: %w", text, errors.ErrUnsupported)
	}
	copy(g.Boot[:], boot)
	return g, nil
})

func inodeOf(name string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return st.Ino, nil
}

var self = sync.OnceValues(func() (Group, error) {
	g, err := here()
	if err != nil {
		return g, err
	}
	start, err := startOf(os.Getpid())
	g.IDs = []ID{{int32(os.Getpid()), start}}
	return g, err
})

// startOf returns the start time of a process, in clock ticks. An exec does not change it.
func startOf(pid int) (uint64, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	// 4711 (the name, with blanks and brackets) S 1 … ; the start time is field 22.
	_, rest, _ := bytes.Cut(b[max(0, bytes.LastIndexByte(b, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < 20 {
		return 0, fmt.Errorf("%s: %d fields", name, len(fields))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// Confirm returns nil if the kernel says that the process at the other end of c is the first of g, in this boot and this
// pid namespace. The others of g need no confirmation: a false one only makes the end of the session late.
func (g Group) Confirm(c *net.UnixConn) error {
	if err := g.isHere(); err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var told error
	err = raw.Control(func(fd uintptr) { told = g.IDs[0].isPeer(int(fd)) })
	return errors.Join(err, told)
}

// ConfirmSelf returns nil if the first of g is this process.
func (g Group) ConfirmSelf() error {
	s, err := self()
	if err == nil {
		err = g.isHere()
	}
	if err == nil && g.IDs[0] != s.IDs[0] {
		err = errors.New("it is another process")
	}
	return err
}

func (g Group) isHere() error {
	switch h, err := here(); {
	case err != nil:
		return err
	case g.Boot != h.Boot || g.Namespace != h.Namespace:
		return errors.New("it is in another pid namespace, or of another boot")
	}
	return nil
}

// isPeer returns nil if the process is at the other end of a Unix socket, and alive.
func (id ID) isPeer(socket int) error {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return os.NewSyscallError("SO_PEERCRED", err)
	}
	if cred.Pid != id.PID {
		return fmt.Errorf("the peer is process %d, not %d", cred.Pid, id.PID)
	}
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
		fd, err = unix.PidfdOpen(int(id.PID), 0)
	}
	if err != nil {
		return fmt.Errorf("no pidfd of the peer: %w", err)
	}
	defer unix.Close(fd)
	start, err := startOf(int(id.PID))
	switch {
	case err != nil:
		return err
	case hasEnded(fd): // and the start time may be that of another process with its id
		return errors.New("the peer has ended")
	case start != id.Start:
		return errors.New("another process has got the id of the peer")
	}
	return nil
}

// hasEnded reports whether the process of a pidfd has ended. Its parent may not have reaped it yet.
func hasEnded(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
}

// wait implements Wait.
func (g Group) wait(ctx context.Context, pause func(context.Context) (resume func(), err error)) error {
	if err := g.isHere(); err != nil {
		return err
	}
	for _, id := range g.IDs {
		fd, err := id.open()
		if err != nil {
			return err
		}
		if fd < 0 {
			continue
		}
		unix.Close(fd)
		if err := id.await(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// gone implements Gone.
func (g Group) gone() bool {
	if g.isHere() != nil {
		return false
	}
	return !slices.ContainsFunc(g.IDs, func(id ID) bool { // one that lives, or may live
		fd, err := id.open()
		if fd >= 0 {
			unix.Close(fd)
		}
		return err != nil || fd >= 0
	})
}

// open returns a pidfd of the process, or -1 if it has ended. If /proc does not tell the start time, the pidfd may be of a
// later process with the same id. When that one has ended, so has the process.
func (id ID) open() (pidfd int, err error) {
	fd, err := unix.PidfdOpen(int(id.PID), 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err)
	}
	if start, err := startOf(int(id.PID)); hasEnded(fd) || err == nil && start != id.Start {
		unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// await waits until the process has ended.
func (id ID) await(ctx context.Context, pause func(context.Context) (func(), error)) error {
	resume, err := pause(ctx)
	if err != nil {
		return err
	}
	defer resume()
	fd, err := id.open()
	if err != nil || fd < 0 {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for the runtime's poller
		unix.Close(fd)
		return err
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })()
	if err := raw.Read(func(fd uintptr) bool { return hasEnded(int(fd)) }); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return err
	}
	return nil
}
