//go:build unix

package interop

import (
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"
)

// connectRival returns a session of go-zookeeper's client.
func connectRival(t testing.TB, servers []string, timeout time.Duration) *rival.Conn {
	t.Helper()
	c, events, err := rival.Connect(servers, timeout, rival.WithLogInfo(false), rival.WithLogger(silentLogger{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	giveUp := time.After(stepTime)
	for {
		select {
		case e := <-events:
			if e.State == rival.StateHasSession {
				return c
			}
		case <-giveUp:
			t.Fatalf("go-zookeeper has no session on %v", servers)
		}
	}
}

// silentLogger silences go-zookeeper, which logs every connection.
type silentLogger struct{}

func (silentLogger) Printf(string, ...any) {}
