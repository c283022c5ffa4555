//go:build unix

package main

import (
	"bufio"
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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
			f := serveFlags{unix: []string{socket}, group: tt.group}
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
		f := serveFlags{unix: tt.unix, group: tt.group}
		err := f.checkGroup()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("group %q: %v; want %q", tt.group, err, tt.want)
		}
	}
}

// Nobody else can connect between the creation of the socket and the change of its mode, whatever the umask is.
func TestSocketIsPrivateFromTheFirstMoment(t *testing.T) {
	t.Parallel()
	for range 10 {
		socket := filepath.Join(t.TempDir(), "s")
		cmd := exec.Command("sh", "-c", `umask 0; exec holdfast serve --data-dir "$1/data" --unix "$1/s"`, "sh", filepath.Dir(socket))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var ready atomic.Bool
		go func() {
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
			}
			ready.Store(true)
		}()
		for !ready.Load() {
			if info, err := os.Lstat(socket); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("mode %o", info.Mode().Perm())
				break
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			return
		}
	}
}

// A user who may not connect to the socket is told so, instead of waiting for ever. Root may connect to every socket, so
// the command runs as another user then.
func TestASocketOfOthersIsNoServerToWaitFor(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err := exec.LookPath("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	// Another process copies it: a program that this process has open for writing cannot be run.
	if out, err := exec.Command("cp", program, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program = filepath.Join(dir, filepath.Base(program))
	for path, mode := range map[string]fs.FileMode{dir: 0o755, program: 0o755, socket: 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"run", "job", "--", "true"}, 125},
		{[]string{"lock", "job"}, 77},
		{[]string{"ls"}, 77},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, append([]string{"--server", "unix://" + socket}, tt.args...)...)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		began := time.Now()
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "usermod -aG") {
			t.Fatalf("%v after %v: exit code %d; want %d:\n%s", tt.args, time.Since(began), code, tt.code, out)
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
