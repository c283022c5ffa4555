package zkserver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A client sets its watches again in portions. Requests of others are served in between, and the
// client gets one answer.
func TestWatchesAreTakenOverInPortions(t *testing.T) {
	const n = 3*watchPortion + 7
	var data, recursive []string
	for i := range n {
		data = append(data, fmt.Sprint("/data", i))
		recursive = append(recursive, fmt.Sprint("/recursive", i))
	}
	for name, tt := range map[string]struct {
		op      zkproto.Op
		m       message
		watches int
	}{
		"setWatches":  {zkproto.OpSetWatches, &zkproto.SetWatchesRequest{RelativeZxid: 1 << 40, Exist: data}, n},
		"setWatches2": {zkproto.OpSetWatches2, &zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{RelativeZxid: 1 << 40, Exist: data}, PersistentRecursive: recursive}, 2 * n},
	} {
		t.Run(name, func(t *testing.T) {
			// One request at a time: the portions must make room for each other.
			inBubble(t, Config{Limits: Limits{Outstanding: 1}}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c, other := dial(), dial()
				c.connect(10*time.Second, nil)
				other.connect(10*time.Second, nil)
				if a := c.call(tt.op, tt.m); a.Err != zkproto.CodeOK || a.Xid != c.xid {
					t.Errorf("answer %+v", a.ReplyHeader)
				}
				other.create("/data5", 0)
				other.create(fmt.Sprint("/data", n-1), 0)
				for range 2 {
					if e := c.event(); e.Type != zkproto.EventNodeCreated {
						t.Errorf("event %+v", e)
					}
				}
				if a := c.call(zkproto.OpPing, nil); a.Xid != zkproto.XidPing { // no second answer
					t.Errorf("answer %+v", a.ReplyHeader)
				}
				synctest.Wait()
				if st := s.Stats(); st.Watches != tt.watches-2 || st.Outstanding != 0 {
					t.Errorf("%d watches, %d requests in flight", st.Watches, st.Outstanding)
				}
			})
		})
	}
}

// portions keeps all paths, in their lists and in their order.
func TestPortionsOfSetWatches(t *testing.T) {
	all := make([]string, 5*watchPortion)
	for i := range all {
		all[i] = fmt.Sprint("/", i)
	}
	lists := func(m *zkproto.SetWatches2Request) []*[]string {
		return []*[]string{&m.Data, &m.Exist, &m.Child, &m.Persistent, &m.PersistentRecursive}
	}
	for name, tt := range map[string]struct {
		op    zkproto.Op
		sizes [5]int
		cut   int // bytes that are missing at the end
		want  int // requests
	}{
		"nothing":               {zkproto.OpSetWatches2, [5]int{}, 0, 1},
		"short":                 {zkproto.OpSetWatches2, [5]int{3, 3, 3, 3, 3}, 0, 1},
		"one portion":           {zkproto.OpSetWatches2, [5]int{watchPortion, 0, 0, 0, 0}, 0, 1},
		"one more":              {zkproto.OpSetWatches2, [5]int{watchPortion, 1, 0, 0, 0}, 0, 2},
		"all lists":             {zkproto.OpSetWatches2, [5]int{watchPortion, watchPortion - 1, 17, 2 * watchPortion, watchPortion}, 0, 6},
		"three lists":           {zkproto.OpSetWatches, [5]int{watchPortion, 2 * watchPortion, 5, 0, 0}, 0, 4},
		"the end is missing":    {zkproto.OpSetWatches, [5]int{watchPortion, 2 * watchPortion, 5, 0, 0}, 1, 1},
		"one list is missing":   {zkproto.OpSetWatches2, [5]int{watchPortion, 2 * watchPortion, 5, 0, 0}, 4, 1},
		"the last list only":    {zkproto.OpSetWatches2, [5]int{0, 0, 0, 0, 2*watchPortion + 1}, 0, 3},
		"the last path is long": {zkproto.OpSetWatches2, [5]int{2 * watchPortion, 0, 0, 0, 1}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{RelativeZxid: 77}}
			for i, list := range lists(&m) {
				*list = all[:tt.sizes[i]]
			}
			frame := (&zkproto.RequestHeader{Xid: 9, Op: tt.op}).Append(nil)
			if tt.op == zkproto.OpSetWatches {
				frame = m.SetWatchesRequest.Append(frame)
			} else {
				frame = m.Append(frame)
			}
			r := &request{kind: kindOperation, frame: frame[:len(frame)-tt.cut]}
			if err := r.decode(); err != nil {
				t.Fatal(err)
			}
			rs := r.portions()
			if len(rs) != tt.want {
				t.Fatalf("%d requests; want %d", len(rs), tt.want)
			}
			if tt.cut > 0 {
				return
			}
			var got zkproto.SetWatches2Request
			for i, r := range rs {
				if r.undecoded {
					new(Server).decodeMulti(r)
				}
				n := 0
				for j, list := range lists(&r.setWatches) {
					*lists(&got)[j] = append(*lists(&got)[j], *list...)
					n += len(*list)
				}
				if r.bad || n > watchPortion || r.xid != 9 || r.op != tt.op || r.setWatches.RelativeZxid != 77 || r.more != (i < len(rs)-1) {
					t.Errorf("portion %d: bad %v, %d paths, xid %d, %v, zxid %d, more %v", i, r.bad, n, r.xid, r.op, r.setWatches.RelativeZxid, r.more)
				}
			}
			for i, list := range lists(&m) {
				if !slices.Equal(*list, *lists(&got)[i]) {
					t.Errorf("list %d: %d paths; want %d", i, len(*lists(&got)[i]), len(*list))
				}
			}
		})
	}
}

// Sessions that expire together end in portions. Requests are served in between, and each session ends
// with all its nodes.
func TestSessionsExpireInPortions(t *testing.T) {
	const sessions, nodes = 5, 2 * expirePortion / 3
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		watcher := dial()
		watcher.connect(40*time.Second, nil)
		watcher.create("/n", 0)
		for i := range sessions {
			c := dial()
			c.connect(10*time.Second, nil)
			for first := 0; first < nodes; first += 500 {
				m := new(zkproto.MultiRequest)
				for n := first; n < min(first+500, nodes); n++ {
					m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("/n/%d-%d", i, n), ACL: openACL, Flags: zkproto.FlagEphemeral})
				}
				if a := c.call(zkproto.OpMulti, m); a.Err != zkproto.CodeOK {
					t.Fatal(a.Err)
				}
			}
			c.nc.Close()
		}
		synctest.Wait()
		left := func() (sessions, nodes int) { return len(s.owner.sessions) - 1, s.owner.tree.EphemeralCount() }
		var seen []int
		asked := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() {
			s.owner.now = s.owner.now.Add(15 * time.Second) // all sessions but the watcher's have expired
			s.expire()
			var look func()
			look = func() { // runs after the next portion
				live, nodes := left()
				if nodes != live*(2*expirePortion/3) {
					t.Errorf("%d sessions have %d nodes", live, nodes)
				}
				if seen = slices.Compact(append(seen, live)); live > 0 {
					s.queue.push(&request{kind: kindCall, call: look})
				} else {
					close(asked)
				}
			}
			look()
		}})
		<-asked
		if !slices.Equal(seen, []int{3, 1, 0}) {
			t.Errorf("sessions left after each portion: %v", seen)
		}
	})
}

// A session that is heard between a check and its portion stays alive.
func TestSessionHeardBetweenPortionsLives(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		r := c.connect(10*time.Second, nil)
		synctest.Wait()
		done := make(chan bool)
		s.queue.push(&request{kind: kindCall, call: func() {
			at := s.owner.now.Add(5 * time.Second) // the time of a check
			s.owner.now = at.Add(time.Minute)      // this process has been stopped since
			s.expireAt(at)
			_, lives := s.owner.sessions[r.SessionID]
			done <- lives
		}})
		if !<-done {
			t.Error("a session expired because the server was late")
		}
	})
}
