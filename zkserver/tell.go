package zkserver

import (
	"runtime"
	"sync"
	"time"
)

// A teller wakes the writers of clients that have notifications to read and no answers,
// one after the other. One write may have thousands of them, and each wakes one goroutine
// for one system call: whoever waits for an answer would come behind all of them, and they
// would take all processors. While they wait here, what later writes have for the same
// client is added to what is sent at once.
type teller struct {
	wake    chan struct{} // holds a token while conns is not empty
	written chan struct{} // holds a token when one that was woken has written
	ended   chan struct{}

	mu    sync.Mutex
	conns []*conn
	end   bool
}

const (
	// tellAtOnce is how many are woken without a teller.
	tellAtOnce = 8

	// tellPatience is how long the teller waits for one of them: it may not read.
	tellPatience = time.Millisecond

	// After tellLong of this the teller sleeps for as long, so that others have the
	// processor, and Go a look at the network.
	tellLong = time.Millisecond
)

func newTeller() *teller {
	return &teller{wake: make(chan struct{}, 1), written: make(chan struct{}, 1), ended: make(chan struct{})}
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
	patience := time.NewTimer(0)
	defer patience.Stop()
	for range t.wake {
		began := time.Now()
		for {
			t.mu.Lock()
			now, end := t.conns, t.end
			t.conns = nil
			t.mu.Unlock()
			if len(now) == 0 && !end {
				break
			}
			for _, c := range now {
				slow := c.told.Swap(true) // is still at the last
				c.beingTold.Store(false)  // before its writer looks
				c.signal()
				if end || slow || c.gone.Load() {
					continue
				}
				patience.Reset(tellPatience)
				select {
				case <-t.written:
				case <-patience.C:
				}
				runtime.Gosched() // or the two of us take turns until our time is up
				if took := time.Since(began); took > tellLong {
					time.Sleep(took)
					began = time.Now()
				}
			}
			if end {
				return
			}
		}
	}
}

// wrote is called by the writer of c when it has written, or has nothing to write.
func (t *teller) wrote(c *conn) {
	if c.told.Swap(false) {
		select {
		case t.written <- struct{}{}:
		default:
		}
	}
}
