package lockwatch

import (
	"sync"
	"time"

	"holdfast/zk"
)

// An arrival is an event of the persistent watch and when it came.
type arrival struct {
	zk.Event
	at     time.Time
	looked bool // learn has read what is to be read for it
}

// A pump takes events from a persistent watch, which drops events if nobody does.
type pump struct {
	mu    sync.Mutex
	all   []arrival
	more  chan struct{}      // has a token after a change
	asked chan chan struct{} // take asks for all events of the watch; the pump closes the channel when it has them
	ended chan struct{}      // closed when no more will come
}

func newPump(c <-chan zk.Event) *pump {
	p := &pump{more: make(chan struct{}, 1), asked: make(chan chan struct{}), ended: make(chan struct{})}
	go func() {
		defer p.wake()
		defer close(p.ended)
		for {
			select {
			case ev, ok := <-c:
				if !ok {
					return
				}
				p.put(arrival{Event: ev, at: time.Now()})
			case done := <-p.asked:
				for len(c) > 0 {
					p.put(arrival{Event: <-c, at: time.Now()})
				}
				close(done)
			}
		}
	}()
	return p
}

func (p *pump) put(a arrival) {
	p.mu.Lock()
	if len(p.all) >= pendingLimit {
		p.all = p.all[:0]
		a = arrival{Event: zk.Event{Err: zk.ErrEventsMissed}, at: a.at}
	}
	p.all = append(p.all, a)
	p.mu.Unlock()
	p.wake()
}

func (p *pump) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// take returns the events that have come, and whether no more will. The client puts an event into the watch
// before it returns an answer that came later. So take returns every event that came before an answer.
func (p *pump) take() (all []arrival, over bool) {
	done := make(chan struct{})
	select {
	case p.asked <- done:
		<-done
	case <-p.ended:
		over = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, p.all = p.all, nil
	return all, over
}
