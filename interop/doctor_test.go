//go:build unix

package interop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// diagnose runs holdfast doctor and returns its output and exit code.
func diagnose(ctx context.Context, t *testing.T, server string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, holdfastBin(t), append([]string{"doctor", "--server", server}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// finds fails the test unless doctor's output has a line for each pattern.
func finds(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)^" + p).MatchString(out) {
			t.Errorf("doctor does not find %q:\n%s", p, out)
		}
	}
}

// Doctor knows the mode of each server of Apache's ensemble, sees when some are missing and when they have no
// quorum, and leaves no node.
func TestDoctorExaminesAnEnsemble(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3})
	closing(t, z, err)
	// Without the tickTime in the address, no lock could be proven with so short a session.
	out, code := diagnose(ctx, t, z.URL(), "--session-timeout", "8s")
	if code != 1 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	finds(t, out, `problem +session +\S+: locks would fail: .*session timeout too short`, ` +hint: give a longer --session-timeout, or add \?tick=500ms to the address`)

	server := z.URL() + "?tick=500ms"
	out, code = diagnose(ctx, t, server, "--session-timeout", "8s")
	if code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	finds(t, out, `ok +server +\S+: leader, 3\.8\.\S+, connected in `, `ok +server +\S+: follower, 3\.8\.`,
		`ok +session +\S+: grants the 8s that you ask for; its minimum is 1s, two ticks of 500ms by default$`,
		`ok +clock `, `ok +servers +all 3 addresses belong to one service$`, `ok +locks +0 locks in use`)
	if n := strings.Count(out, ": follower, "); n != 2 {
		t.Errorf("%d followers; want 2:\n%s", n, out)
	}
	c := dialURL(t, z.URL())
	names, _, err := c.Children(ctx, "/")
	must(t, err)
	if !slices.Equal(names, []string{"zookeeper"}) {
		t.Errorf("doctor leaves %q", names)
	}

	// A run that lasts some seconds says so, too.
	run := exec.CommandContext(ctx, holdfastBin(t), "run", "--server", z.URL()+"?tick=100ms", "job", "--", "sleep", "8")
	var said strings.Builder
	run.Stderr = &said
	must(t, run.Run())
	finds(t, said.String(), `holdfast: the session timeouts of the server: a minimum of 1s suggests a tickTime of 500ms, and holdfast assumes 100ms\. if tickTime in the servers' zoo\.cfg is 500ms, add \?tick=500ms to the address`)

	must(t, z.Kill(0))
	for { // the others may elect a leader first
		out, code = diagnose(ctx, t, server, "--session-timeout", "8s")
		if strings.Contains(out, "2 of 3 addresses") || ctx.Err() != nil {
			break
		}
	}
	if code != 1 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	finds(t, out, `problem +server +\S+: connection refused$`, `warning +servers +2 of 3 addresses can be used$`)

	must(t, z.Kill(1))
	for { // the last one notices that its quorum is gone
		out, code = diagnose(ctx, t, server, "--timeout", "4s")
		if code == 1 && strings.Contains(out, "has no quorum") || ctx.Err() != nil {
			break
		}
	}
	finds(t, out, `problem +server +\S+: the server runs, but does not serve: it has no quorum, or starts up$`)
}

// Doctor tells a server alone from a member, and a session timeout below its minimum from a fitting one.
func TestDoctorExaminesAServerAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{TickTime: 2 * time.Second})
	closing(t, z, err)
	out, code := diagnose(ctx, t, z.URL())
	if code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	finds(t, out, `ok +server +\S+: standalone, 3\.8\.`, `ok +session +\S+: grants the 40s that you ask for; its minimum is 4s`)
	out, code = diagnose(ctx, t, z.URL(), "--session-timeout", "3s")
	if code != 1 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	finds(t, out, `problem +session +\S+: grants 4s, not the 3s that you ask for`)
}

// The locks exclude each other on Apache's servers, and bench leaves no node there.
func TestBenchOnApachesServers(t *testing.T) {
	for name, server := range map[string]*sharedPeer[*peers.ZooKeeper]{"alone": &oneZooKeeper, "ensemble": &ensemble} {
		t.Run(name, func(t *testing.T) {
			url := server.get(t).URL() + "/bench-" + name + "?tick=500ms"
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, args := range [][]string{
				{"--duration", "1s"}, {"--duration", "1s", "--mode", "rw", "--locks", "2"}, {"--duration", "1s", "--mode", "semaphore", "--clients", "5"},
			} {
				cmd := exec.CommandContext(ctx, holdfastBin(t), append([]string{"bench", "--server", url, "--session-timeout", "9s"}, args...)...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
				finds(t, string(out), `[1-9][0-9]* cycles`, `0 violations, 0 lost updates, 0 refused, 0 lost, 0 errors$`)
			}
			c := dialURL(t, server.get(t).URL())
			if _, there, err := c.Exists(ctx, "/bench-"+name); there || err != nil {
				t.Errorf("bench leaves its nodes: %v, %v", there, err)
			}
		})
	}
}
