//go:build unix

package interop

import (
	"context"
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
	cons, ok := rival.FLWCons([]string{h.Addr()}, stepTime)
	if !ok || len(cons[0].Clients) != 1 {
		t.Fatalf("cons: %+v", cons[0])
	}
	if got := cons[0].Clients[0]; got.SessionID != c.SessionID() || got.LastOperation != "CREA" || got.Timeout != 10000 || got.Received != 2 {
		t.Errorf("cons: %+v; want the session 0x%x", got, c.SessionID())
	}
}
