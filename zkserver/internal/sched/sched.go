// Package sched decides in which order a server applies the requests of its connections, and
// how many of them go into one batch.
//
// Every client with a reply in a batch waits for the whole batch. So one connection must not fill the
// batches of the others. A connection may have hundreds of requests under way. Each of them may be a
// megabyte long, have an answer of a megabyte, or notify thousands of watchers.
//
// A small request whose connection owes no work is applied on arrival, whatever else waits. Each
// batch pays off a share of the work that the connection has caused. If no connection waits for a
// turn, the connection of the request may use a whole share. Every other request waits.
//
// Deficit round-robin (Shreedhar and Varghese, 1995) chooses among the connections with waiting
// requests until the batch is full. A connection whose client does not read its answers gets no more
// answers until it does.
//
// The package counts work and batches and knows no clock, so the same requests make the same
// batches on every machine. Its types are not safe for concurrent use, and it starts no goroutines.
package sched

import "math"

// Work is counted in bytes of requests and answers. Other work counts as the bytes that take the
// same time.
const (
	// Share is the work that a connection may cause before another connection has its turn. The
	// request that exceeds the share is the last. Later shares pay for the excess.
	Share = 128 << 10

	// Full is the work from which a batch takes no more waiting requests. It takes the first in any
	// case.
	Full = 256 << 10

	// maxDebt bounds how long a connection pays for one request.
	maxDebt = 2 << 20
)

// A Flow is a connection as a Scheduler sees it. The zero Flow is a connection that has sent
// nothing.
type Flow[R any] struct {
	waits []waiting[R]
	next  *Flow[R] // in the ring
	aside bool     // its client does not read
	spent int      // work that shares have not paid yet; the flow may continue while it is less than Share
	paid  int64    // the number of the last batch whose share is paid
}

type waiting[R any] struct {
	request R
	size    int   // the least work that the request causes
	since   int64 // the number of the batch in which it arrived
}

// Waiting returns how many requests of f wait.
func (f *Flow[R]) Waiting() int { return len(f.waits) }

// pay subtracts n shares from what f has spent.
func (f *Flow[R]) pay(n int64) {
	f.spent = max(f.spent-int(min(n, maxDebt/Share+1))*Share, 0)
}

// A Scheduler has the waiting requests of all connections.
type Scheduler[R any] struct {
	stalled func(R) bool

	first, last *Flow[R]              // the ring: flows with requests that may be applied
	aside       map[*Flow[R]]struct{} // flows with requests whose clients do not read

	batch int64 // the number of the batch that is being filled
	work  int   // of the batch
	taken bool  // the batch has requests that waited

	newest, second arrival[R] // the latest request that did not wait, and the latest one of another flow

	waited, turns int64
}

// An arrival is a request that did not wait.
type arrival[R any] struct {
	flow  *Flow[R]
	batch int64
}

// New returns a Scheduler without requests. It calls stalled to ask whether the client of a request
// has too many unread answers. The caller calls Resume when that is over.
func New[R any](stalled func(R) bool) *Scheduler[R] {
	return &Scheduler[R]{stalled: stalled, aside: make(map[*Flow[R]]struct{})}
}

// Admit reports whether r, a request of f, is applied now. Otherwise r waits until Next returns
// it. size is the least work of r. A large request always waits.
func (s *Scheduler[R]) Admit(f *Flow[R], r R, size int, large bool) bool {
	if len(f.waits) == 0 {
		f.pay(s.batch - f.paid)
		f.paid = s.batch
		sparse := f.spent == 0
		if !large && (sparse || f.spent < Share && s.work < Full && s.first == nil) && !s.stalled(r) {
			return true
		}
		s.push(f)
	}
	f.waits = append(f.waits, waiting[R]{r, size, s.batch})
	return false
}

// Heard records that f has sent a request that did not have to wait. The caller may omit it for
// requests such as pings, for which no client waits.
func (s *Scheduler[R]) Heard(f *Flow[R]) {
	if s.newest.flow != f {
		s.second = s.newest
	}
	s.newest = arrival[R]{f, s.batch}
}

// Silence returns the number of batches since the Scheduler heard a connection. If only one
// connection has waiting requests, Silence ignores that connection. It is 0 in the batch in which a
// connection is heard, and the largest number if none was.
func (s *Scheduler[R]) Silence() int64 {
	heard := s.newest
	if s.first != nil && s.first == s.last && s.first == heard.flow {
		heard = s.second
	}
	if heard.flow == nil {
		return math.MaxInt64
	}
	return s.batch - heard.batch
}

// Ready reports whether there are waiting requests whose clients read.
func (s *Scheduler[R]) Ready() bool { return s.first != nil }

// Next removes and returns the next waiting request. It returns false if there is none, or none
// that fits into this batch. The first one fits into every batch.
func (s *Scheduler[R]) Next() (r R, ok bool) {
	for f := s.first; f != nil; f = s.first {
		w := f.waits[0]
		switch {
		case s.stalled(w.request):
			s.pop()
			f.aside = true
			s.aside[f] = struct{}{}
			continue
		case s.taken && s.work+w.size > Full:
			return r, false
		case f.spent >= Share:
			f.pay(1)
			s.pop()
			s.push(f)
			continue
		}
		s.take(f)
		if len(f.waits) == 0 {
			s.pop()
		}
		s.taken = true
		return w.request, true
	}
	return r, false
}

// Charge counts the work that a request of f has caused.
func (s *Scheduler[R]) Charge(f *Flow[R], work int) {
	f.spent = min(f.spent+work, maxDebt)
	s.work += work
}

// HandedOver begins a new batch.
func (s *Scheduler[R]) HandedOver() {
	s.batch++
	s.work, s.taken = 0, false
}

// Resume returns f to the ring. The caller calls it when the client of f has read its answers, or
// has disconnected.
func (s *Scheduler[R]) Resume(f *Flow[R]) {
	if f.aside {
		f.aside = false
		delete(s.aside, f)
		s.push(f)
	}
}

// Drain calls apply with waiting requests, as long as it returns true, and reports whether none is left.
// Requests of one connection keep their order.
func (s *Scheduler[R]) Drain(apply func(R) (more bool)) (done bool) {
	for f := range s.aside {
		s.Resume(f)
	}
	for f := s.first; f != nil; f = s.first {
		r := f.waits[0].request
		if s.take(f); len(f.waits) == 0 {
			s.pop()
		}
		if !apply(r) {
			return false
		}
	}
	return true
}

// Waited returns how many applied requests had waited, and the sum of the batches that each waited.
func (s *Scheduler[R]) Waited() (requests, batches int64) { return s.waited, s.turns }

// take removes the first request of f.
func (s *Scheduler[R]) take(f *Flow[R]) {
	s.waited++
	s.turns += s.batch - f.waits[0].since
	f.waits[0] = waiting[R]{}
	if f.waits = f.waits[1:]; len(f.waits) == 0 {
		f.waits = nil
		f.paid = s.batch
	}
}

// push puts f at the end of the ring.
func (s *Scheduler[R]) push(f *Flow[R]) {
	if s.last == nil {
		s.first = f
	} else {
		s.last.next = f
	}
	s.last = f
}

// pop removes the first flow from the ring.
func (s *Scheduler[R]) pop() {
	f := s.first
	if s.first = f.next; s.first == nil {
		s.last = nil
	}
	f.next = nil
}
