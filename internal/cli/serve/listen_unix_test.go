//go:build unix

package serve

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// modeAndGroup returns who may connect to a socket.
func modeAndGroup(t *testing.T, socket string) (fs.FileMode, int) {
	t.Helper()
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm(), int(info.Sys().(*syscall.Stat_t).Gid)
}

// otherGroup returns a group that this process can give files to, and that is not the one it makes them with, if
// there is one.
func otherGroup() int {
	if os.Geteuid() == 0 {
		return os.Getegid() + 1
	}
	groups, _ := os.Getgroups()
	for _, gid := range groups {
		if gid != os.Getegid() {
			return gid
		}
	}
	return os.Getegid()
}

func TestSocketIsForAGroup(t *testing.T) {
	gid := otherGroup()
	for _, tt := range []struct {
		name, group string
		mode        fs.FileMode
		gid         int
	}{
		{"this user alone", "", 0o600, os.Getegid()},
		{"by number", strconv.Itoa(gid), 0o660, gid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "socket")
			f := settings{unix: []string{socket}, group: tt.group}
			if err := f.checkGroup(); err != nil {
				t.Fatal(err)
			}
			all, err := f.listeners(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer all[0].Close()
			if mode, gid := modeAndGroup(t, socket); mode != tt.mode || gid != tt.gid {
				t.Errorf("mode %o, group %d; want %o, %d", mode, gid, tt.mode, tt.gid)
			}
		})
	}
}

func TestGroupsOfSocketsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		group string
		unix  []string
		want  string
	}{
		{"no-such-group", []string{"s"}, "unknown group no-such-group"},
		{"-2", []string{"s"}, "unknown group -2"},
		{"0", nil, "is without --unix"},
	} {
		f := settings{unix: tt.unix, group: tt.group}
		err := f.checkGroup()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("group %q: %v; want %q", tt.group, err, tt.want)
		}
	}
}

// A server that is too busy to accept another connection keeps its socket.
func TestABusySocketIsNotReplaced(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems refuse the connection")
	}
	path := filepath.Join(t.TempDir(), "socket")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for { // until its queue is full
		c, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		defer c.Close()
	}
	if l, err := listenUnix(path, noGroup); err == nil {
		l.Close()
		t.Fatal("the socket was replaced")
	} else if !strings.Contains(err.Error(), "may listen there") {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("the socket is gone: %v", err)
	}
}
