//go:build unix

package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
)

// While Apache's ensemble answers, no command is asked to stop, however long its lock was waited for. A reader
// takes its lease only when its turn comes. With a timeout of 15 s, the proof of a session that was 4 to 7
// seconds old was good enough to begin with, but came closer to its end than the 5 seconds of --term-before.
func TestCommandGoesOnWhileTheEnsembleAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, TickTime: 2 * time.Second})
	closing(t, z, err)
	for _, wait := range []time.Duration{4 * time.Second, 4800 * time.Millisecond, 5600 * time.Millisecond, 6400 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			path := "/holdfast/locks/waits-" + wait.String()
			c := dialURL(t, z.URL())
			writer, err := holdfast.NewRWMutex(c, path).Lock(t.Context())
			must(t, err)
			reader := exec.CommandContext(t.Context(), holdfastBin(t), "run", "--server", z.URL(), "--shared", "--session-timeout", "15s", "waits-"+wait.String(), "--", "sleep", "8")
			reader.Env = append(os.Environ(), "HOME="+t.TempDir())
			out := new(bytes.Buffer)
			reader.Stdout, reader.Stderr = out, out
			must(t, reader.Start())
			for names := []string(nil); len(names) < 2; time.Sleep(10 * time.Millisecond) {
				names, _, err = c.Children(t.Context(), path)
				must(t, err)
			}
			time.Sleep(wait) // the age of the session is what is tested
			must(t, writer.Unlock())
			if err := reader.Wait(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
