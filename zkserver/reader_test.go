package zkserver

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// What a client sends together reaches the owner together.
func TestWhatIsSentTogetherIsOneRound(t *testing.T) {
	const pairs = 500 // by chance the owner may wake up late for some, but not for all
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		synctest.Wait()
		rounds := func() (n int64) {
			s.queue.push(&request{kind: kindCall, call: func() { n = s.owner.round }})
			synctest.Wait()
			return n
		}
		before := rounds()
		exists := frameOf(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"})
		for range pairs {
			c.nc.Write(append(exists[:len(exists):len(exists)], exists...))
			c.read()
			c.read()
			synctest.Wait()
		}
		if took := rounds() - before - 1; took != pairs {
			t.Errorf("%d pairs of requests took %d rounds", pairs, took)
		}
	})
}

// However many frames come at once, and wherever the reads of the network part them: all
// are answered, in order, also those before one that ends the connection.
func TestFramesAreParted(t *testing.T) {
	exists := frameOf(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"})
	var all []byte
	for range 10 * maxAtOnce {
		all = append(all, exists...)
	}
	all = append(all, 0, 0, 0, 2, 'n', 'o')
	for _, piece := range []int{1, 3, 5, len(exists) - 1, len(exists) + 1, 4095, 4096, len(all)} {
		inBubble(t, Config{Limits: Limits{Outstanding: maxAtOnce / 2}}, func(t *testing.T, s *Server, dial func() *rawClient) {
			c := dial()
			c.connect(10*time.Second, nil)
			go func() {
				for rest := all; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
					c.nc.Write(rest[:min(piece, len(rest))])
				}
			}()
			for i := range 10 * maxAtOnce {
				if a := c.read(); a.Xid != 1 || a.Err != zkproto.CodeOK {
					t.Fatalf("in pieces of %d: answer %d is %+v", piece, i, a.ReplyHeader)
				}
			}
			synctest.Wait()
			if n := s.Stats().Outstanding; n != 0 {
				t.Errorf("in pieces of %d: %d requests count as unanswered", piece, n)
			}
		})
	}
}
