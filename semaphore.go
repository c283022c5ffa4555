package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// A Semaphore admits up to limit permits at a time, first come, first served. Its nodes are those of Curator's
// InterProcessSemaphoreV2, or with layout.Kazoo those of kazoo's Semaphore. Permits are children of one directory. A
// caller passes a turnstile to get some, a Mutex in another directory. So callers that ask for few permits never
// overtake one that asks for many, and a permit that is given back wakes one waiter.
//
// The limit is stored in the node at the semaphore's path, a container, and lasts as long as that node. kazoo reads
// it there, Curator does not.
//
// The names <path>/locks and <path>/leases are reserved below the path of every lock: a semaphore at <path> keeps its
// turnstile and its permits there. A lock at <path> fails with ErrKind if it finds a place or a permit there. So do
// not give a lock such a path if another lock is at <path>.
type Semaphore struct {
	lock      lock
	turnstile lock
	limit     int
}

// NewSemaphore names the semaphore at path and claims that its limit is limit. The first Acquire stores the limit. A
// claim that differs from the stored limit replaces it if nobody has a permit and nobody else waits. Otherwise
// Acquire fails with ErrLimit, since programs that disagree would admit too many; the error says who uses the stored
// limit. A limit of 0 claims nothing and follows the stored limit, also when SetLimit changes it.
func NewSemaphore(c *zk.Client, path string, limit int, opts ...Option) *Semaphore {
	o := newOptions("a Semaphore", opts)
	return semaphoreOf(c, path, limit, queue.Semaphore, o)
}

// Path is the path of the lock.
func (s *Semaphore) Path() string { return s.lock.Path }

func semaphoreOf(c *zk.Client, path string, limit int, kind queue.Kind, o options) *Semaphore {
	waiter := o
	waiter.note.Of = limit
	s := &Semaphore{
		lock:      newLock(c, path, kind, o),
		turnstile: newLock(c, path+o.grammar.Semaphore.Turnstile, queue.Turnstile, waiter), // its nodes say who waits, and what for
		limit:     limit,
	}
	s.turnstile.Surround(path, nil)
	s.turnstile.Beside = s.looks() // a caller that need not wait has them with its turn
	return s
}

// Acquire waits for n permits and takes them at once, all or none. Unlock gives all of them back. If one is lost, all
// are. See [Mutex.Lock] for ctx, the end of the session, and ErrKind.
//
// The error is ErrLimit if n exceeds the limit or the limit differs from the claim. It is ErrDeadlock if ctx descends
// from a Hold of this semaphore: a caller in between may wait for the permits of that Hold.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Hold, error) {
	return s.lock.attempt(ctx, "acquire", n, func(ctx context.Context) (*Hold, error) {
		return outlive(ctx, func() (*Hold, error) { return s.enter(ctx, n, s.permits, true) })
	})
}

// TryAcquire takes n permits if they are free and nobody waits. Otherwise the error is ErrLocked. A caller
// that is just being admitted counts as waiting.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Hold, error) {
	return s.lock.attempt(ctx, "try acquire", n, func(ctx context.Context) (*Hold, error) { return s.enter(ctx, n, s.permits, false) })
}

// Locker is n permits as a Locker, for Do and MultiLock. If a MultiLock names permits of one semaphore more than
// once, it takes the largest of the numbers, not their sum.
func (s *Semaphore) Locker(n int) Locker { return permits{s, n} }

type permits struct {
	s *Semaphore
	n int
}

func (p permits) Lock(ctx context.Context) (*Hold, error)    { return p.s.Acquire(ctx, p.n) }
func (p permits) TryLock(ctx context.Context) (*Hold, error) { return p.s.TryAcquire(ctx, p.n) }

// SetLimit stores a new limit, whoever uses the old one. Nobody loses a permit, so after a cut there are too many
// until enough are given back. Waiters that claim nothing, or the new limit, are admitted as it allows. Any other
// waiter fails with ErrLimit when it is first in line. A program that claims another limit can replace this one, as
// [NewSemaphore] says. If there is no node to store the limit in, SetLimit makes one that stays.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if err := s.setLimit(ctx, limit); err != nil {
		return &Error{Op: "set limit", Path: s.lock.Path, Err: err}
	}
	return nil
}

func (s *Semaphore) setLimit(ctx context.Context, limit int) error {
	if limit < 1 {
		return fmt.Errorf("%w: %d: want 1 or more", ErrLimit, limit)
	}
	if err := s.lock.valid(); err != nil {
		return err
	}
	session, err := s.lock.Client.Session(ctx)
	if err != nil {
		return err
	}
	p := &queue.Place{Queue: s.lock.Queue, Session: session}
	data := []byte(strconv.Itoa(limit))
	for {
		// Storing the same limit twice does no harm.
		err := zk.Repeat(ctx, func() error {
			_, err := session.Set(ctx, s.lock.Path, data, zk.AnyVersion)
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			if i := strings.LastIndexByte(s.lock.Path, '/'); i > 0 {
				if err := p.Ensure(ctx, s.lock.Path[:i]); err != nil {
					return err
				}
			}
			err = zk.Repeat(ctx, func() error {
				_, _, err := session.Create(ctx, s.lock.Path, data, zk.Persistent, s.lock.ACL...)
				return err
			})
		}
		if !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

// Available returns how many permits are free and how many there are, at some moment after the call. The
// error is ErrLimit if no limit is stored and none was claimed.
func (s *Semaphore) Available(ctx context.Context) (free, limit int, err error) {
	free, limit, err = s.available(ctx)
	if err != nil {
		err = &Error{Op: "available", Path: s.lock.Path, Err: err}
	}
	return free, limit, err
}

func (s *Semaphore) available(ctx context.Context) (free, limit int, err error) {
	if err := s.lock.valid(); err != nil {
		return 0, 0, err
	}
	session, err := s.lock.Client.Session(ctx)
	if err != nil {
		return 0, 0, err
	}
	// The server that we read from may be behind the one that granted permits.
	if err := queue.Barrier(ctx, session, s.lock.Path); err != nil {
		return 0, 0, err
	}
	v, err := s.look(ctx, session, false, "", nil)
	if err != nil {
		return 0, 0, err
	}
	if !v.exists || v.limit == 0 {
		v.limit = s.limit
	}
	if v.limit == 0 {
		return 0, 0, fmt.Errorf("%w: none is stored, and this caller claims none: claim one, or store one with SetLimit", ErrLimit)
	}
	return max(v.limit-s.used(v), 0), v.limit, nil
}

// permits is the choice of a semaphore: all permits are alike.
func (s *Semaphore) permits(turn *queue.Place, _ view, n int) ([]*queue.Place, error) {
	nodes := &s.lock.Grammar.Semaphore
	places := make([]*queue.Place, n)
	for i := range places {
		a := nodes.Lease.Attempt(turn.Session.ID())
		data, err := s.lock.data(a)
		if err != nil {
			return nil, err
		}
		places[i] = &queue.Place{Queue: s.lock.Queue, Session: turn.Session, Dir: s.permitDir(), Attempt: a, Exact: !nodes.Numbered, Shared: true, Data: data}
	}
	return places, nil
}
