//go:build unix

package peers

import (
	"context"
	"os/exec"
)

// Debian installs kazoo for the system's own interpreter; the first python3 in
// PATH may be another one.
const systemPython = "/usr/bin/python3"

// NeedKazoo reports what programs that use kazoo lack on this machine, as a
// [MissingError], or nil.
func NeedKazoo() error {
	if _, err := needFile(systemPython, "python3-kazoo"); err != nil {
		return err
	}
	if err := exec.Command(systemPython, "-c", "import kazoo").Run(); err != nil {
		return &MissingError{What: "kazoo", Package: "python3-kazoo"}
	}
	return nil
}

// Kazoo is the command that runs a Python program that imports kazoo.
func Kazoo(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, systemPython, append([]string{program}, args...)...)
}
