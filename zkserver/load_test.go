package zkserver

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
)

// -load-scale=10, with room for 11,000 files (ulimit -n), makes 100,000 nodes, 10,000 sessions
// and 100,000 watches.
var loadScale = flag.Int("load-scale", 1, "TestMemoryUnderLoad: how many thousand sessions, each with ten nodes and ten watches")

// A server in its own process holds ten nodes and ten watches per session. Each watch is on a
// node of another session.
func TestMemoryUnderLoad(t *testing.T) {
	sessions := *loadScale * 1000
	p := startProcess(t, Config{Dir: t.TempDir(), MaxSessionTimeout: 10 * time.Minute,
		Limits: Limits{ConnectionsPerAddress: -1, ConnectionsPerSecond: -1}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	empty := p.usage()
	began := time.Now()
	const workers = 50
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < sessions; i += workers {
				if err := loadSession(ctx, p.addr, i, sessions); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	u := p.usage()
	if st := u.Stats; st.Sessions != sessions || st.Znodes != 4+10*sessions || st.Watches != 10*sessions || st.Ephemerals != 10*sessions {
		t.Errorf("%d sessions, %d nodes, %d of them ephemeral, %d watches", st.Sessions, st.Znodes, st.Ephemerals, st.Watches)
	}
	t.Logf("%d sessions with 10 nodes and 10 watches each after %v: %d MB resident, %d MB at most, %d MB when empty; %d bytes per session",
		sessions, time.Since(began).Round(time.Millisecond), u.RSS>>20, u.Peak>>20, empty.RSS>>20, (u.RSS-empty.RSS)/int64(sessions))
	if u.Peak > 1<<30 {
		t.Errorf("%d bytes resident at most; want less than 1 GiB", u.Peak)
	}
}

func loadSession(ctx context.Context, addr string, i, sessions int) error {
	c, err := join(ctx, addr)
	if err != nil {
		return err
	}
	var b []byte
	const each = 10
	for j := range each {
		b = append(b, frameOf(zkproto.OpCreate, &zkproto.CreateRequest{
			Path: fmt.Sprintf("/load-%07d-%d", i, j), Data: []byte("0123456789"), ACL: openACL, Flags: zkproto.FlagEphemeral})...)
		b = append(b, frameOf(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: fmt.Sprintf("/load-%07d-%d", (i+1)%sessions, j)})...)
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	var frame []byte
	for answers := 0; answers < 2*each; {
		if frame, err = zkproto.ReadFrame(c, frame, 1<<20); err != nil {
			return err
		}
		var h zkproto.ReplyHeader
		h.Decode(zkproto.NewReader(frame))
		if h.Xid == zkproto.XidNotification {
			continue
		}
		if answers++; h.Err != zkproto.CodeOK {
			return fmt.Errorf("answer %d: %v", answers, h.Err)
		}
	}
	return nil // it stays connected until ctx ends
}
