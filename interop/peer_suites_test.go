//go:build unix

package interop

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// kazoo's tests that cannot pass here, with the reason. The tests of reconfig wait for an
// ensemble for ever, so they are not started.
var kazooCannot = map[string]string{
	"test_client.TestClient.test_update_host_list":    "wants a second server",
	"test_connection.TestReadOnlyMode.test_read_only": "wants an ensemble",
}

func TestKazoosOwnTestsPassOnHoldfastServe(t *testing.T) {
	need(t, peers.NeedKazoo())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // the tests wait a lot: a minute and a half even alone
	defer cancel()
	// If the program is killed, the server ends by itself.
	cmd := peers.Kazoo(ctx, "py/peer_suites_kazoo.py", addr, holdfastBin(t), "serve",
		"--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", addr, "--linger", "20s")
	var details strings.Builder
	cmd.Stderr = &details
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		outcome, name, _ := strings.Cut(lines.Text(), " ")
		reason, known := kazooCannot[name]
		switch {
		case known:
			count["cannot"]++
			if outcome == "ok" {
				t.Errorf("%s passes, though it %s", name, reason)
			}
		case outcome == "ok", outcome == "skip":
			count[outcome]++
		default:
			t.Errorf("%s: %s", name, outcome)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("kazoo's tests: %v", err)
	}
	if count["ok"] < 250 {
		t.Errorf("only %d tests passed", count["ok"])
	}
	if t.Failed() {
		t.Log(details.String())
	}
	measured(t, "%d of kazoo's own tests pass, %d leave themselves out, %d cannot pass on one node", count["ok"], count["skip"], count["cannot"])
}
