//go:build unix

package interop

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// go-zookeeper's tests that cannot pass here, with the reason. They skip themselves unless the
// environment has ZK_VERSION.
var gozkCannot = map[string]string{
	"TestIntegration_IncrementalReconfig": "changes the members of an ensemble",
	"TestIntegration_Reconfig":            "changes the members of an ensemble",
}

// go-zookeeper's module contains its tests, so they are compiled from the module cache.
func TestGoZookeepersOwnTestsPassOnHoldfastServe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // the tests wait a lot: a minute even alone
	defer cancel()
	bin := filepath.Join(t.TempDir(), "gozk.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, "github.com/go-zookeeper/zk").CombinedOutput(); err != nil {
		t.Fatalf("compile go-zookeeper's tests: %v\n%s", err, out)
	}
	dir, pretenders := t.TempDir(), startPretenders(t)
	var out bytes.Buffer
	run := func(args ...string) error {
		out.Reset()
		cmd := exec.CommandContext(ctx, bin, append([]string{"-test.v"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ZOOKEEPER_BIN_PATH="+pretenders)
		cmd.Stdout, cmd.Stderr = &out, &out
		return peers.Run(cmd)
	}
	// This test restarts its server and creates a node at once. It fails if the client sends the
	// request before it learns that the connection is closed. No server can change that.
	const racy = "TestIntegration_DNSHostProviderReconnect"
	var err error
	for range 5 {
		if err = run("-test.run=^" + racy + "$"); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("%s fails five times in a row:\n%s", racy, out.String())
	}
	if err := run("-test.skip=^" + racy + "$"); err != nil {
		t.Errorf("go-zookeeper's tests: %v", err)
	}
	count := make(map[string]int)
	outcome := regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)
	for lines := bufio.NewScanner(bytes.NewReader(out.Bytes())); lines.Scan(); {
		m := outcome.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		reason, known := gozkCannot[m[2]]
		switch {
		case known && m[1] == "PASS":
			t.Errorf("%s passes, though it %s", m[2], reason)
		case known:
			count["cannot"]++
		case m[1] == "PASS":
			count["ok"]++
		default:
			t.Errorf("%s: %s", m[2], m[1])
		}
	}
	count["ok"]++ // the test that ran alone
	if count["ok"] < 45 {
		t.Errorf("only %d tests passed", count["ok"])
	}
	if t.Failed() {
		t.Log(out.String())
	}
	measured(t, "%d of go-zookeeper's own tests pass, %d cannot pass on one node", count["ok"], count["cannot"])
}
