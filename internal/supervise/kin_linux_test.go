package supervise

import (
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A watchdog that has both ends of the pipe is gone when it has closed its write end.
func TestKinIsGoneWhenAllOfItIs(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	other, err := unix.Dup(fds[1])
	if err != nil {
		t.Fatal(err)
	}
	var k kin
	if err := k.inherit([]string{strconv.Itoa(fds[0]), strconv.Itoa(fds[1])}); err != nil {
		t.Fatal(err)
	}
	if k.last(20 * time.Millisecond) {
		t.Error("gone, but another process has the pipe")
	}
	k.write = other // the other one closes it
	if !k.last(10 * time.Second) {
		t.Error("not gone, but no process has the pipe")
	}
}
