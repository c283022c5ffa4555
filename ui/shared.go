package ui

import (
	"sync"
	"time"
)

const (
	// rest bounds the cost of a value: after it was made, it is kept for rest times the time that making it took.
	rest = 4
	// longestRest bounds that time. To make a value can mean to wait for a server.
	longestRest = 5 * time.Second
)

// A shared value is made from the state, once for all that ask for it. It is safe for concurrent use.
type shared[T any] struct {
	mu      sync.Mutex    // guards the fields below
	making  chan struct{} // closed when the value that is being made is there; nil if none is
	value   T
	version uint64 // of the state
	made    time.Time
	until   time.Time // the value stays until then, also if the state changes
}

// get returns the value of a version of the state. It makes the value if there is none, if the state has changed, or if
// the value is older than most, where 0 is no limit. While one caller makes it, the others wait. A value that was made a
// moment ago stays, for least or for its rest. If get returns a value of an older version for that reason, old is the
// time when a new one can be made. from makes the value, and returns the version that it has used.
func (s *shared[T]) get(version uint64, least, most time.Duration, from func() (T, uint64)) (value T, made, old time.Time) {
	s.mu.Lock()
	for s.making != nil {
		making := s.making
		s.mu.Unlock()
		<-making
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case !s.made.IsZero() && s.version >= version && (most == 0 || now.Sub(s.made) < most || now.Before(s.until)):
		return s.value, s.made, time.Time{}
	case now.Before(s.until):
		return s.value, s.made, s.until
	}
	s.making = make(chan struct{})
	s.mu.Unlock()
	defer func() { // also if from panics
		close(s.making)
		s.making = nil
	}()
	value, version = func() (T, uint64) {
		defer s.mu.Lock()
		return from()
	}()
	s.value, s.version, s.made = value, version, now
	s.until = time.Now().Add(max(least, min(longestRest, rest*time.Since(now))))
	return value, now, time.Time{}
}
