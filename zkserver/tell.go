package zkserver

import (
	"runtime"
	"sync"
	"time"
)

// A teller wakes the writers of clients that have notifications and no answers to read, one after
// the other. One write may cause thousands of notifications, and each wakes a goroutine for one
// system call. If they were woken together, they would take all processors, and clients that wait
// for answers would come after them. While writers wait here, notifications of later writes join
// the bytes for the same client and are sent with them.
type teller struct {
	wake    chan struct{} // holds a token while conns is not empty
	written chan struct{} // holds a token when a woken writer has written
	ended   chan struct{}

	mu    sync.Mutex
	conns []*conn
	end   bool
}

const (
	// tellAtOnce is how many writers are woken without a teller.
	tellAtOnce = 8

	// tellPatience is how long the teller waits for one writer, since its client may not read.
	tellPatience = time.Millisecond

	// tellLong is the time of work after which the teller sleeps for as long. Then other goroutines
	// get the processor, and Go polls the network.
	tellLong = time.Millisecond
)

func newTeller() *teller {
	return &teller{wake: make(chan struct{}, 1), written: make(chan struct{}, 1), ended: make(chan struct{})}
}

// tell arranges that the writers of conns are woken soon.
func (t *teller) tell(conns []*conn) {
	t.mu.Lock()
	t.conns = append(t.conns, conns...)
	t.mu.Unlock()
	t.again()
}

// finish wakes the writers that are left and ends the teller.
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
				slow := c.told.Swap(true) // still busy with its last notifications
				c.beingTold.Store(false)  // cleared before its writer looks
				c.signal()
				if end || slow || c.gone.Load() {
					continue
				}
				patience.Reset(tellPatience)
				select {
				case <-t.written:
				case <-patience.C:
				}
				runtime.Gosched() // else the teller and the writer alternate until their time slice is over
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

// wrote is called by the writer of c when it has written or has nothing to write.
func (t *teller) wrote(c *conn) {
	if c.told.Swap(false) {
		select {
		case t.written <- struct{}{}:
		default:
		}
	}
}
