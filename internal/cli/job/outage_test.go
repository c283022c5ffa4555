//go:build unix

package job

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zklocal"
	"holdfast/zktest"
)

// least returns the shortest time that a hold has left before, during and after an outage of some length.
func least(t *testing.T, timeout, tick time.Duration, mode zk.LeaseMode, refused bool, phase, outage time.Duration) (left time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(zktest.TickTime(3 * time.Second)) // so that it grants 60 s
		defer srv.Close()
		var down atomic.Bool
		cfg := srv.Config()
		cfg.Lease, cfg.SessionTimeout, cfg.TickTime = mode, timeout, tick
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return dial(ctx, network, addr)
		}
		c, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		h, err := holdfast.NewMutex(c, "/job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + phase)
		left = time.Until(h.Deadline())
		watch := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				left = min(left, time.Until(h.Deadline()))
			}
		}
		resume := func() { down.Store(false) }
		if refused {
			down.Store(true)
			srv.CloseClientConnections()
		} else {
			resume = srv.Stall()
		}
		watch(outage)
		resume()
		watch(5 * time.Second)
	})
	return left
}

// The table in the documents, and what doctor says, come from survives. The client must keep it, at any moment and in both ways
// in which the servers can be away.
func TestCommandsSurviveTheseOutages(t *testing.T) {
	for _, timeout := range []time.Duration{9 * time.Second, 15 * time.Second, 30 * time.Second, zk.DefaultSessionTimeout, zklocal.DefaultSessionTimeout} {
		for name, mode := range map[string]zk.LeaseMode{"alone": zk.LeasePing, "ensemble": zk.LeaseQuorum} {
			for _, tick := range []time.Duration{2 * time.Second, 3 * time.Second} {
				for _, refused := range []bool{true, false} {
					if timeout == 9*time.Second && tick == 3*time.Second { // too short for such an ensemble
						continue
					}
					t.Run(fmt.Sprintf("%v/%s/%v/refused %v", timeout, name, tick, refused), func(t *testing.T) {
						t.Parallel()
						grace := GraceOf(timeout)
						alone := mode == zk.LeasePing
						sure := Survives(timeout, grace, tick, alone)
						shortest := timeout
						phases := 25
						if testing.Short() {
							phases = 5
						}
						for i := range phases {
							phase := time.Duration(i) * timeout / time.Duration(3*phases)
							left := least(t, timeout, tick, mode, refused, phase, sure)
							if shortest = min(shortest, left); left <= grace {
								t.Errorf("%v into the session, an outage of %v leaves %v: the command gets TERM %v before the end", phase, sure, left, grace)
							}
						}
						t.Logf("an outage of %v leaves %v at least, and TERM comes at %v", sure, shortest, grace)
						if left := least(t, timeout, tick, mode, refused, 0, TermAfter(timeout, grace)+time.Second/10); left > grace {
							t.Errorf("an outage of %v leaves %v", TermAfter(timeout, grace), left)
						}
					})
				}
			}
		}
	}
}

// outageTable is the table of docs/reference/run.md.
func outageTable() string {
	var b strings.Builder
	b.WriteString("| Session timeout | `--term-before` | TERM, after the last proof | One server | Ensemble, tickTime 2 s | Ensemble, tickTime 3 s |\n|---|---|---|---|---|---|\n")
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
	for _, row := range []struct{ timeout, grace time.Duration }{
		{6 * time.Second, 0}, {10 * time.Second, 0}, {15 * time.Second, 0}, {15 * time.Second, time.Second}, {20 * time.Second, 0},
		{30 * time.Second, 0}, {30 * time.Second, 12 * time.Second}, {40 * time.Second, 0}, {60 * time.Second, 0}, {120 * time.Second, 0},
	} {
		grace, given := row.grace, "given"
		if grace == 0 {
			grace, given = GraceOf(row.timeout), "default"
		}
		fmt.Fprintf(&b, "| %v s | %s (%s) | %.2f s |", row.timeout.Seconds(), seconds(grace), given, TermAfter(row.timeout, grace).Seconds())
		for _, on := range []struct {
			tick  time.Duration
			alone bool
		}{{0, true}, {2 * time.Second, false}, {3 * time.Second, false}} {
			cell := seconds(Survives(row.timeout, grace, on.tick, on.alone))
			if !on.alone && row.timeout < shortestTimeout(on.tick) {
				cell = "refused"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shortestTimeout is the shortest session timeout with which package zk gives leases on an ensemble.
func shortestTimeout(tick time.Duration) time.Duration {
	every := tick/2 + tick/8
	return max(6*every+time.Second, (3*every+time.Second)*16/13)
}

func TestDocumentHasTheTableOfOutages(t *testing.T) {
	const doc = "../../../docs/reference/run.md"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), outageTable()) {
		t.Errorf("%s lacks the table\n%s", doc, outageTable())
	}
}
