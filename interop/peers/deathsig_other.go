//go:build unix && !linux

package peers

import "os/exec"

// dieWithParent does nothing: only Linux has a death signal. A peer that is
// still running when the test process is killed has to be stopped by hand.
func dieWithParent(*exec.Cmd) {}
