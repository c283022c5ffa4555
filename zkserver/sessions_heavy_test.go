package zkserver

import (
	"fmt"
	"testing"
	"time"

	"holdfast/zkproto"
)

// A session ends whose nodes are below nodes of a megabyte. That writes the counters of these nodes, and not their data.
func TestTheEndOfASessionBelowHeavyNodesWritesLittle(t *testing.T) {
	const heavy = 3 // too few for a snapshot
	for _, end := range []string{"closed", "ended by the next start"} {
		t.Run(end, func(t *testing.T) {
			cfg := Config{Dir: t.TempDir()}
			s, l := serve(t, cfg)
			c := dialRaw(t, l)
			session := c.connect(40*time.Second, nil)
			for i := range heavy {
				parent := fmt.Sprint("/heavy", i)
				for _, m := range []*zkproto.CreateRequest{
					{Path: parent, Data: make([]byte, 1_000_000), ACL: openACL},
					{Path: parent + "/e", ACL: openACL, Flags: zkproto.FlagEphemeral},
				} {
					if a := c.call(zkproto.OpCreate, m); a.Err != zkproto.CodeOK {
						t.Fatal(a.Err)
					}
				}
			}
			before := s.Stats()
			if end == "closed" {
				c.call(zkproto.OpCloseSession, nil)
			} else {
				onOwner(s, func() {
					sess := s.owner.sessions[session.SessionID]
					sess.ending = true
					s.saveSession(sess)
				})
				if err := s.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.Close()
				s, _ = serve(t, cfg)
			}
			defer s.Close()
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := s.Stats()
			if n := after.JournalBytes - before.JournalBytes; n > 100<<10 {
				t.Errorf("%d bytes were written at the end of a session with %d nodes", n, heavy)
			}
			if after.Ephemerals != 0 || after.Sessions != 0 {
				t.Errorf("%d sessions with %d nodes are left", after.Sessions, after.Ephemerals)
			}
		})
	}
}
