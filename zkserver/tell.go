package zkserver

import (
	"slices"
	"sync"
	"time"
)

// A teller wakes the writers of clients that have notifications to read and no answers.
// One write may have thousands of them, and each wakes one goroutine for one system call:
// whoever waits for an answer would come behind all of them. While they wait here, what
// later writes have for the same client is added to what is sent at once.
type teller struct {
	wake  chan struct{} // holds a token while conns is not empty
	ended chan struct{}

	mu    sync.Mutex
	conns []*conn
	end   bool
}

// tellAtOnce is how many are woken in one go. Then the teller sleeps, so that Go has a look
// at the network, for tellPause: some of a writer's time.
const (
	tellAtOnce = 64
	tellPause  = 100 * time.Microsecond
)

func newTeller() *teller {
	return &teller{wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// tell has the writers of conns woken soon.
func (t *teller) tell(conns []*conn) {
	t.mu.Lock()
	t.conns = append(t.conns, conns...)
	t.mu.Unlock()
	t.again()
}

// finish wakes those that are left and ends the teller.
func (t *teller) finish() {
	t.mu.Lock()
	t.end = true
	t.mu.Unlock()
	t.again()
	<-t.ended
}

func (t *teller) again() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run is the teller's goroutine.
func (t *teller) run() {
	defer close(t.ended)
	for range t.wake {
		for {
			t.mu.Lock()
			n := len(t.conns)
			if !t.end {
				n = min(n, tellAtOnce)
			}
			now := slices.Clone(t.conns[:n])
			t.conns = slices.Delete(t.conns, 0, n)
			left, end := len(t.conns), t.end
			t.mu.Unlock()
			for _, c := range now {
				c.beingTold.Store(false) // before its writer looks
				c.signal()
			}
			if end {
				return
			}
			if left == 0 {
				break
			}
			time.Sleep(tellPause)
		}
	}
}
