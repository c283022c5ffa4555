//go:build linux

package interop

import (
	"context"
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"holdfast/interop/peers"
	"holdfast/zklocal"
)

// before is a build of an earlier commit: its servers take part in rows 6 and 7 beside today's,
// with today's client.
var before = flag.String("before", "", "benchmarks: the command of an earlier commit, to be measured beside this one")

// openLocal makes sessions on the store file://dir, for our Mutex. If bin is empty, this process
// hosts the store. Otherwise bin hosts it in a process of its own, as `holdfast run` has it.
func openLocal(tb testing.TB, bin string) func(ctx context.Context) (session, error) {
	dir := filepath.Join(tb.TempDir(), "store") // which nobody else may enter
	cfg := zklocal.Config{Dir: dir}
	if bin != "" {
		cfg.StartHost = func(dir string) error {
			host, err := peers.Start(exec.Command(bin, "serve", "--detached", "--data-dir", dir, "--linger", "10s"))
			if err == nil {
				tb.Cleanup(func() { host.Kill() })
			}
			return err
		}
	}
	store, err := zklocal.Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { store.Close() })
	return func(ctx context.Context) (session, error) {
		cfg := store.Config()
		cfg.SessionTimeout = benchTimeout
		return openOursWith(ctx, cfg)
	}
}

// benchBefore is a server of the earlier commit.
var benchBefore = sharedPeer[*peers.Holdfast]{start: func(ctx context.Context, dir string) (*peers.Holdfast, error) {
	return peers.StartHoldfast(ctx, *before, dir)
}}
