//go:build unix

package peers

import (
	"context"
	"os/exec"
)

const zkCliPath = "/usr/share/zookeeper/bin/zkCli.sh"

// NeedZkCli reports what zkCli.sh lacks on this machine, as a [MissingError], or
// nil.
func NeedZkCli() error {
	if err := NeedZooKeeper(); err != nil {
		return err
	}
	_, err := needFile(zkCliPath, zookeeperPackage)
	return err
}

// ZkCli is the command that connects ZooKeeper's own shell to addr. With args it
// executes one command and ends; without, it takes commands from standard input.
func ZkCli(ctx context.Context, addr string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, zkCliPath, append([]string{"-server", addr}, args...)...)
}
