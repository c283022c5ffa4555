package conn

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A service may have a home that it cannot look into. It does not need a file that it cannot see.
func TestFileInADirectoryOfOthersIsAbsent(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if absent(file) {
		t.Error("a file that is there is taken for absent")
	}
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	found := make(chan bool)
	go func() {
		// Root can look into every directory, so a thread of its own looks as nobody (setfsuid(2)). The thread
		// ends with the goroutine, which is never unlocked from it.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		}
		found <- !absent(file)
	}()
	if <-found {
		t.Error("the file is not taken for absent")
	}
}
