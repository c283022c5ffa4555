package chaos_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A pipe is one direction of a link.
type pipe struct {
	link *link
	way  way

	mu       sync.Mutex // guards the fields below
	changed  sync.Cond  // uses mu
	under    []packet   // packets in flight
	last     time.Time  // when the latest of them arrives
	arrived  []byte
	end      error // the reader's error after those
	refuse   error // the writer's error
	deserted bool  // what is written arrives nowhere
	deadline *time.Timer
	late     bool
	set      int
}

type packet struct {
	at   time.Time
	data []byte
	end  error
}

func (p *pipe) init(k *link) {
	p.link = k
	p.changed.L = &p.mu
}

// send puts data in flight.
func (p *pipe) send(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	if len(data) > 0 && !p.deserted {
		p.enqueue(packet{data: data})
	}
	return nil
}

// enqueue requires that mu is held.
func (p *pipe) enqueue(k packet) {
	n := p.link.line.net
	n.mu.Lock()
	k.at = time.Now().Add(p.delay())
	n.mu.Unlock()
	if !k.at.After(p.last) {
		k.at = p.last.Add(1)
	}
	p.last = k.at
	p.under = append(p.under, k)
	time.AfterFunc(time.Until(k.at), p.deliver)
}

// delay returns how long a frame takes. The network's mutex must be held.
func (p *pipe) delay() time.Duration {
	ln, rng := p.link.line, p.link.rng
	if plan := ln.net.plan; plan != nil {
		return plan.delay(p)
	}
	d, lost := p.way.take(rng)
	ln.lostFrames += lost
	if ln.slow > 0 {
		ln.slowFrames++
		d += time.Duration(rng.Int64N(int64(ln.slow)))
	}
	return d
}

// deliver delivers due packets, unless the line is cut.
func (p *pipe) deliver() {
	ln := p.link.line
	p.mu.Lock()
	defer p.mu.Unlock()
	due := 0
	for due < len(p.under) && !p.under[due].at.After(time.Now()) {
		due++
	}
	if due == 0 {
		return
	}
	ln.net.mu.Lock()
	c := ln.isCut(p.link.server)
	held := (p == &p.link.up && c.up || p == &p.link.down && c.down) && !p.link.orphan.Load()
	if held {
		ln.heldFrames++
	}
	ln.net.mu.Unlock()
	if held {
		return
	}
	for _, k := range p.under[:due] {
		p.arrived = append(p.arrived, k.data...)
		if k.end != nil && p.end == nil {
			p.end = k.end
		}
	}
	p.under = p.under[due:]
	p.changed.Broadcast()
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.late:
			return 0, os.ErrDeadlineExceeded
		case len(p.arrived) > 0:
			n := copy(b, p.arrived)
			p.arrived = append(p.arrived[:0], p.arrived[n:]...)
			return n, nil
		case p.end != nil:
			return 0, p.end
		}
		p.changed.Wait()
	}
}

// finish ends the pipe, for the writer now and for the reader after the packets in flight, or instead of
// them.
func (p *pipe) finish(end error, instead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return
	}
	p.refuse = end
	if errors.Is(end, io.EOF) {
		p.refuse = net.ErrClosed
	}
	if instead {
		p.under = nil
	}
	p.enqueue(packet{end: end})
}

// abandon is finish by the reader, which wants no more packets.
func (p *pipe) abandon(end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end, p.arrived, p.under = end, nil, nil
	if p.refuse == nil {
		p.refuse = syscall.EPIPE
	}
	p.changed.Broadcast()
}

// desert is abandon that the writer does not notice: somebody else has the reader's end, too.
func (p *pipe) desert(end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end, p.arrived, p.under, p.deserted = end, nil, nil, true
	p.changed.Broadcast()
}

func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline != nil {
		p.deadline.Stop()
		p.deadline = nil
	}
	p.set++
	p.late = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !p.late {
		mine := p.set
		p.deadline = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.set == mine {
				p.late = true
				p.changed.Broadcast()
			}
		})
	}
	p.changed.Broadcast()
}
