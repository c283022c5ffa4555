//go:build unix

package peers

import (
	"context"
	"os/exec"
)

// The shell of Apache's C client, multi-threaded.
const cliPath = "/usr/lib/zookeeper/bin/cli_mt"

// NeedCClient reports what the C client's shell lacks on this machine, as a
// [MissingError], or nil.
func NeedCClient() error {
	_, err := needFile(cliPath, "zookeeper-bin")
	return err
}

// CClient is the command that connects the C client's shell to addr. It takes commands
// from standard input and says everything on standard error.
func CClient(ctx context.Context, addr string) *exec.Cmd {
	return exec.CommandContext(ctx, cliPath, addr)
}
