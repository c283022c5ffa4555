package holdfast

import (
	"context"
	"sync"
	"time"

	"holdfast/zk"
)

// youth is how long a tenure lasts before it watches its nodes. A watch costs a request,
// an answer and at Unlock an event, which is as much as the lock itself but for the two
// commits; who is done by then is spared it. Nothing is missed: the watch is set by a read,
// which shows what has happened to the node by then. So all that it changes is that a
// holder whose node was removed by hand, or who was asked to let go, is told some
// milliseconds later in the beginning; it is told after the fact in any case. A cycle of
// an uncontended lock takes about one millisecond, and 5 ms of delay nobody sees.
const youth = 5 * time.Millisecond

// A nursery has the tenures of one session that do not watch their nodes yet. They share a
// timer, because to set one wakes a thread, as a goroutine that is started does. It is there
// as long as the session.
type nursery struct {
	timer *time.Timer

	mu    sync.Mutex // guards the fields below
	young []*tenure  // the oldest first; some have ended
	armed bool       // the timer is running
}

var nurseries = struct {
	sync.Mutex // guards m
	m          map[*zk.Session]*nursery
}{m: make(map[*zk.Session]*nursery)}

func nurseryOf(s *zk.Session) *nursery {
	nurseries.Lock()
	defer nurseries.Unlock()
	n := nurseries.m[s]
	if n == nil {
		n = &nursery{}
		nurseries.m[s] = n
		context.AfterFunc(s.Context(), func() {
			nurseries.Lock()
			defer nurseries.Unlock()
			delete(nurseries.m, s)
		})
	}
	return n
}

// add takes in a tenure that has just begun.
func (n *nursery) add(t *tenure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.young = append(n.young, t)
	if n.armed {
		return
	}
	n.armed = true
	if n.timer == nil {
		n.timer = time.AfterFunc(youth, n.release)
		return
	}
	n.timer.Reset(youth)
}

// release lets those go that are old enough, or have ended.
func (n *nursery) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	gone := 0
	for _, t := range n.young {
		if t.ctx.Err() == nil {
			if left := youth - now.Sub(t.began); left > 0 {
				n.timer.Reset(left)
				break
			}
			t.startWatching()
		}
		gone++
	}
	rest := copy(n.young, n.young[gone:])
	clear(n.young[rest:])
	n.young = n.young[:rest]
	n.armed = rest > 0
}
