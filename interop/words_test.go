//go:build unix

package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast/interop/peers"
)

// startHoldfast starts a server for this test alone.
func startHoldfast(t *testing.T, flags ...string) *peers.Holdfast {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	h, err := peers.StartHoldfast(ctx, holdfastBin(t), t.TempDir(), flags...)
	return closing(t, h, err)
}

func TestGoZooKeeperReadsOurFourLetterWords(t *testing.T) {
	h := startHoldfast(t, "--four-letter-words", "*")
	c, _, err := rival.Connect([]string{h.Addr()}, 10*time.Second, rival.WithLogInfo(false))
	must(t, err)
	defer c.Close()
	_, err = c.Create("/words", nil, rival.FlagEphemeral, rival.WorldACL(rival.PermAll))
	must(t, err)
	if ok := rival.FLWRuok([]string{h.Addr()}, stepTime); !ok[0] {
		t.Error("ruok: not ok")
	}
	stats, ok := rival.FLWSrvr([]string{h.Addr()}, stepTime)
	if !ok || stats[0].Mode != rival.ModeStandalone || stats[0].NodeCount != 5 || stats[0].Received < 2 || stats[0].Connections < 2 {
		t.Errorf("srvr: %+v", stats[0])
	}
	// It cannot read the line of the connection that asks, here and on Apache's server, and goes on.
	cons, _ := rival.FLWCons([]string{h.Addr()}, stepTime)
	if len(cons[0].Clients) != 1 {
		t.Fatalf("cons: %+v", cons[0])
	}
	if got := cons[0].Clients[0]; got.SessionID != c.SessionID() || got.LastOperation != "CREA" || got.Timeout != 10000 || got.Received != 2 {
		t.Errorf("cons: %+v; want the session 0x%x", got, c.SessionID())
	}
}

// The words that list connections have the one that asks, as those of Apache's server do.
func TestWordsListTheConnectionThatAsks(t *testing.T) {
	z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{Settings: []string{"4lw.commands.whitelist=*"}})
	closing(t, z, err)
	h := startHoldfast(t, "--four-letter-words", "*")
	for name, addr := range map[string]string{"Apache ZooKeeper": z.Addrs()[0], "holdfast serve": h.Addr()} {
		for word, want := range map[string]string{
			"cons": "\n %s[0](queued=0,recved=1,sent=0)\n", "stat": "\n %s[0](queued=0,recved=1,sent=0)\n", "dump": "\n\tip: %s sessionId: 0x0\n",
		} {
			nc, err := net.Dial("tcp", addr)
			must(t, err)
			_ = nc.SetDeadline(time.Now().Add(stepTime))
			_, err = io.WriteString(nc, word)
			must(t, err)
			got, err := io.ReadAll(nc)
			must(t, err)
			_ = nc.Close()
			if line := fmt.Sprintf(want, "/"+nc.LocalAddr().String()); !strings.Contains("\n"+string(got), line) {
				t.Errorf("%s, %s: no %q in\n%s", name, word, line, got)
			}
		}
	}
}
