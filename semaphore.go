package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"holdfast/zk"
)

// A Semaphore is a lock that up to a limit of permits can be held of at a time, by
// whoever comes first. It has no state of its own and is safe for concurrent use.
//
// Its nodes are those of Curator's InterProcessSemaphoreV2 (or, with LayoutKazoo, of
// kazoo's Semaphore): permits are children of one directory, and who wants some goes
// through a turnstile, a Mutex in another. So who asks for many is not passed for ever by
// those who ask for few, and a permit that is given back wakes one waiter.
//
// The limit is stored in the node at the semaphore's path, where the others do not look
// (kazoo does). It lasts as long as that node. Acquire makes it as a container, which the
// server removes some time after it fell empty.
//
// The names <path>/locks and <path>/leases are reserved below the path of every lock: a
// semaphore at <path> keeps its turnstile and its permits there. A lock at <path> looks for
// nodes there, and fails with ErrKind if it finds a place or a permit. So do not give a lock
// such a path if another lock is at <path>.
type Semaphore struct {
	queue     queue
	turnstile queue
	limit     int
}

// NewSemaphore names the semaphore at path and claims that its limit is limit. The first
// who acquires stores it; after that, Acquire fails with ErrLimit where the claim differs
// from what is stored, since programs that disagree would let too many in. A limit of 0
// claims nothing and follows what is stored, also when SetLimit changes it. Reentrant
// has no effect.
func NewSemaphore(c *zk.Client, path string, limit int, opts ...Option) *Semaphore {
	o := newOptions(opts)
	turn := o // its nodes say who waits, and what for
	return &Semaphore{
		queue:     queue{client: c, path: path, kind: kindSemaphore, options: o},
		turnstile: queue{client: c, path: path + o.grammar.semaphore.turnstile, kind: kindTurnstile, options: turn},
		limit:     limit,
	}
}

// Acquire waits for one permit. The Hold has it until Unlock.
func (s *Semaphore) Acquire(ctx context.Context) (*Hold, error) { return s.AcquireN(ctx, 1) }

// AcquireN waits for n permits and takes them at once, all or none; Unlock gives all of
// them back, and if one is lost, all are. See [Mutex.Lock] for ctx, and for what happens
// when the session ends.
//
// ErrLimit: n is more than the limit, or the limit is not what was claimed. ErrDeadlock:
// ctx descends from a Hold of this semaphore; somebody in between may be waiting for the
// permits of that. ErrKind: another kind of lock has this name.
func (s *Semaphore) AcquireN(ctx context.Context, n int) (*Hold, error) {
	h, err := outlive(ctx, func() (*Hold, error) { return s.enter(ctx, n, true) })
	if err != nil {
		return nil, &Error{Op: "acquire", Path: s.queue.path, Err: err}
	}
	return h, nil
}

// TryAcquire takes a permit if one is free and nobody waits; otherwise the error is
// ErrLocked. Somebody who is just being let in counts as waiting.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Hold, error) { return s.TryAcquireN(ctx, 1) }

// TryAcquireN is TryAcquire for n permits, all or none.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int) (*Hold, error) {
	h, err := s.enter(ctx, n, false)
	if err != nil {
		return nil, &Error{Op: "try acquire", Path: s.queue.path, Err: err}
	}
	return h, nil
}

// Locker is one permit as a Locker, for Do and MultiLock.
func (s *Semaphore) Locker() Locker { return permit{s} }

type permit struct{ s *Semaphore }

func (p permit) Lock(ctx context.Context) (*Hold, error)    { return p.s.Acquire(ctx) }
func (p permit) TryLock(ctx context.Context) (*Hold, error) { return p.s.TryAcquire(ctx) }

// SetLimit stores a new limit. Who waits is let in as it allows; nobody who has a permit
// loses it, so after a cut there are too many until enough have been given back. If there
// is no node to store it in, one is made that stays.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if err := s.setLimit(ctx, limit); err != nil {
		return &Error{Op: "set limit", Path: s.queue.path, Err: err}
	}
	return nil
}

func (s *Semaphore) setLimit(ctx context.Context, limit int) error {
	if limit < 1 {
		return fmt.Errorf("%w: %d", ErrLimit, limit)
	}
	if err := validatePath(s.queue.path); err != nil {
		return err
	}
	session, err := s.queue.client.Session(ctx)
	if err != nil {
		return err
	}
	p := &place{queue: &s.queue, session: session}
	data := []byte(strconv.Itoa(limit))
	for {
		// To say the same again does no harm.
		err := repeat(ctx, func() error {
			_, err := session.Set(ctx, s.queue.path, data, zk.AnyVersion)
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			if i := strings.LastIndexByte(s.queue.path, '/'); i > 0 {
				if err := p.ensure(ctx, s.queue.path[:i]); err != nil {
					return err
				}
			}
			err = repeat(ctx, func() error {
				_, _, err := session.Create(ctx, s.queue.path, data, zk.Persistent, s.queue.acl...)
				return err
			})
		}
		if !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

// Available says how many permits are free and how many there are, at some moment after
// the call. ErrLimit: no limit is stored, and none was claimed.
func (s *Semaphore) Available(ctx context.Context) (free, limit int, err error) {
	free, limit, err = s.available(ctx)
	if err != nil {
		err = &Error{Op: "available", Path: s.queue.path, Err: err}
	}
	return free, limit, err
}

func (s *Semaphore) available(ctx context.Context) (free, limit int, err error) {
	if err := validatePath(s.queue.path); err != nil {
		return 0, 0, err
	}
	session, err := s.queue.client.Session(ctx)
	if err != nil {
		return 0, 0, err
	}
	// The server that we read from may be behind the one that gave permits away.
	if err := retry(ctx, func() error { return session.Sync(ctx, s.queue.path) }); err != nil {
		return 0, 0, err
	}
	v, err := s.look(ctx, session, false, "")
	if err != nil {
		return 0, 0, err
	}
	if !v.exists || v.limit == 0 {
		v.limit = s.limit
	}
	if v.limit == 0 {
		return 0, 0, fmt.Errorf("%w: none is stored", ErrLimit)
	}
	return max(v.limit-v.used, 0), v.limit, nil
}
