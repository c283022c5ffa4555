package holdfast

import (
	"context"
	"slices"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
	"holdfast/zk"
)

// A Slots is a set of n slots with the numbers 0 to n-1. A caller that acquires a slot gets a number that nobody else
// holds: the id of a worker, a port, a node of a snowflake generator. It is the lowest free number, or one that the
// caller prefers. If all are taken, callers are served first come, first served.
//
// A slot is an ephemeral node whose name is the number, so the server never has one number twice (see Names that come
// back). The slot of a client that has crashed is taken until the server removes the node at the end of the session.
// A caller passes a turnstile to get a slot, as at a Semaphore. It takes the slot in a transaction that checks the
// turnstile and n.
//
// A Hold's token is larger than all earlier tokens of its number. So it can fence a resource that belongs to a
// number; [Hold.Tokens] has the path of the slot for that.
//
// The node at the path has the number n, and lasts as that of a Semaphore does. The names <path>/slots and
// <path>/slot-queue are reserved below the path of every lock, as those of a Semaphore are.
type Slots struct {
	semaphore *Semaphore // that counts the slots, keeps the turnstile and stores n
}

// NewSlots names n slots at path and claims that there are n. The number is stored as the limit of a Semaphore is,
// and the same is true of claims that differ, and of 0 (see [NewSemaphore]).
func NewSlots(c *zk.Client, path string, n int, opts ...Option) *Slots {
	o := newOptions("a Slots", opts)
	o.grammar = names.Slots
	return &Slots{semaphoreOf(c, path, n, queue.Slots, o)}
}

// Path is the path of the lock.
func (s *Slots) Path() string { return s.semaphore.lock.Path }

// Acquire waits for a slot and takes the first of the preferred ones that is free, or else the lowest. A process that
// restarts can keep its number with that. Acquire never waits for a preferred slot while another one is free.
// [Hold.Slot] returns its number. The Hold keeps it until Unlock. ctx and the errors are those of
// [Semaphore.Acquire]; ErrLimit also means that the number of slots is not known.
func (s *Slots) Acquire(ctx context.Context, prefer ...int) (*Hold, error) {
	return s.semaphore.lock.attempt(ctx, "acquire", 0, func(ctx context.Context) (*Hold, error) {
		return outlive(ctx, func() (*Hold, error) { return s.enter(ctx, prefer, true) })
	})
}

// TryAcquire is Acquire without a wait, as [Semaphore.TryAcquire] is.
func (s *Slots) TryAcquire(ctx context.Context, prefer ...int) (*Hold, error) {
	return s.semaphore.lock.attempt(ctx, "try acquire", 0, func(ctx context.Context) (*Hold, error) { return s.enter(ctx, prefer, false) })
}

// Locker is one slot as a Locker, for Do and MultiLock. A MultiLock takes one slot, however often it names
// these slots. The preferred ones are then those of the first.
func (s *Slots) Locker(prefer ...int) Locker { return slot{s, prefer} }

type slot struct {
	s      *Slots
	prefer []int
}

func (l slot) Lock(ctx context.Context) (*Hold, error)    { return l.s.Acquire(ctx, l.prefer...) }
func (l slot) TryLock(ctx context.Context) (*Hold, error) { return l.s.TryAcquire(ctx, l.prefer...) }

// SetLimit stores a new number of slots, as [Semaphore.SetLimit] does for permits. Slots from n on are not given
// again; the others are, as they become free.
func (s *Slots) SetLimit(ctx context.Context, n int) error { return s.semaphore.SetLimit(ctx, n) }

// Available is [Semaphore.Available] for slots.
func (s *Slots) Available(ctx context.Context) (free, n int, err error) {
	return s.semaphore.Available(ctx)
}

func (s *Slots) enter(ctx context.Context, prefer []int, wait bool) (*Hold, error) {
	take := func(turn *queue.Place, v view, _ int) ([]*queue.Place, error) {
		p, err := s.place(turn, choose(v, prefer))
		return []*queue.Place{p}, err
	}
	return s.semaphore.enter(ctx, 1, take, wait)
}

// choose returns the number to take. At least one number is free.
func choose(v view, prefer []int) int {
	taken := make(map[int]bool)
	for _, name := range v.listed {
		if number, ok := names.SlotOf(name); ok {
			taken[number] = true
		}
	}
	for _, number := range prefer {
		if number >= 0 && number < min(v.limit, names.MaxSlot) && !taken[number] {
			return number
		}
	}
	lowest := 0
	for taken[lowest] {
		lowest++
	}
	return lowest
}

// place returns the place of a slot that is to be made. The node's name is the number, whoever makes it. So
// the data tell one attempt from another.
func (s *Slots) place(turn *queue.Place, number int) (*queue.Place, error) {
	l := &s.semaphore.lock
	a := names.Attempt{Prefix: names.SlotName(number), ID: names.NewID()}
	data, err := l.data(a)
	if err != nil {
		return nil, err
	}
	return &queue.Place{Queue: l.Queue, Session: turn.Session, Dir: s.semaphore.permitDir(), Attempt: a, Exact: true, Shared: true, Data: data}, nil
}

// Slot is the number of the slot that h holds. In a MultiLock it is that of the first [Slots]. It is -1 if h
// holds no slot.
func (h *Hold) Slot() int {
	i := slices.IndexFunc(h.tenures, func(t *tenure.Tenure) bool { return t.Kind == queue.Slots })
	if i < 0 {
		return -1
	}
	number, _ := names.SlotOf(h.tenures[i].Places[0].Name())
	return number
}
