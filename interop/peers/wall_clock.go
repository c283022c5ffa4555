//go:build unix

package peers

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A WallClock moves the wall clocks of programs while they run. libfaketime cannot do that with a JVM, which hangs.
// The programs must call the C library for the time, as the JVM does.
type WallClock struct{ library, file string }

// NewWallClock compiles source, which is interop/testdata/wallclock.c, in dir. Without a compiler, the error is a
// [MissingError].
func NewWallClock(dir, source string) (*WallClock, error) {
	gcc, err := needCommand("gcc", "gcc libc6-dev")
	if err != nil {
		return nil, err
	}
	c := &WallClock{filepath.Join(dir, "wallclock.so"), filepath.Join(dir, "moved")}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-O2", "-Wall", "-o", c.library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return c, c.Set(0)
}

// Set makes the clocks differ from the machine's by d, in whole seconds.
func (c *WallClock) Set(d time.Duration) error {
	file, err := os.OpenFile(c.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second))), 0)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

// env is what a program has in its environment whose clock Set moves.
func (c *WallClock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "HOLDFAST_WALLCLOCK=" + c.file}
}
