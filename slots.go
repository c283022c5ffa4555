package holdfast

import (
	"context"
	"slices"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
	"holdfast/zk"
)

// A Slots is a set of n slots with the numbers 0 to n-1. A caller that acquires slots gets numbers that nobody else
// holds: the id of a worker, a port, GPUs of a machine. It gets the lowest free ones, or those that it prefers. If too
// few are free, callers are served first come, first served, whatever number they ask for.
//
// A slot is an ephemeral node whose name is the number, so the server never has one number twice (see Names that come
// back). The slots of a client that has crashed are taken until the session ends. A caller passes a turnstile, as at a
// Semaphore, and takes its slots in one transaction that checks the turnstile and n.
//
// A Hold's token is larger than all earlier tokens of its numbers. So it can fence a resource that belongs to a
// number; [Hold.Tokens] has the path of each slot for that.
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

// Acquire waits for n slots and takes them at once, all or none. It takes the preferred ones that are free, in that
// order, and then the lowest, and never waits for a preferred one while enough others are free. So a process that
// restarts can keep its numbers. Callers behind one that needs many wait, even if enough are free for them: so it does
// not starve. [Hold.Slots] returns the numbers; if one is lost, all are. ctx and the errors are those of
// [Semaphore.Acquire]; ErrLimit also means that the number of slots is not known.
func (s *Slots) Acquire(ctx context.Context, n int, prefer ...int) (*Hold, error) {
	return s.semaphore.lock.attempt(ctx, "acquire", n, func(ctx context.Context) (*Hold, error) {
		return outlive(ctx, func() (*Hold, error) { return s.enter(ctx, n, prefer, true) })
	})
}

// TryAcquire is Acquire without a wait, as [Semaphore.TryAcquire] is.
func (s *Slots) TryAcquire(ctx context.Context, n int, prefer ...int) (*Hold, error) {
	return s.semaphore.lock.attempt(ctx, "try acquire", n, func(ctx context.Context) (*Hold, error) {
		return s.enter(ctx, n, prefer, false)
	})
}

// Locker is n slots as a Locker, for Do and MultiLock. If a MultiLock names these slots more than once, it takes the
// largest of the numbers, not their sum. The preferred ones are then those of the largest.
func (s *Slots) Locker(n int, prefer ...int) Locker { return someSlots{s, n, prefer} }

type someSlots struct {
	s      *Slots
	n      int
	prefer []int
}

func (l someSlots) Lock(ctx context.Context) (*Hold, error) {
	return l.s.Acquire(ctx, l.n, l.prefer...)
}
func (l someSlots) TryLock(ctx context.Context) (*Hold, error) {
	return l.s.TryAcquire(ctx, l.n, l.prefer...)
}

// SetLimit stores a new number of slots, as [Semaphore.SetLimit] does for permits. Slots from n on are not given
// again; the others are, as they become free.
func (s *Slots) SetLimit(ctx context.Context, n int) error { return s.semaphore.SetLimit(ctx, n) }

// Available is [Semaphore.Available] for slots.
func (s *Slots) Available(ctx context.Context) (free, n int, err error) {
	return s.semaphore.Available(ctx)
}

func (s *Slots) enter(ctx context.Context, n int, prefer []int, wait bool) (*Hold, error) {
	take := func(turn *queue.Place, v view, n int) (places []*queue.Place, err error) {
		for _, number := range choose(v, n, prefer) {
			p, err := s.place(turn, number)
			if err != nil {
				return nil, err
			}
			places = append(places, p)
		}
		return places, nil
	}
	return s.semaphore.enter(ctx, n, take, wait)
}

// choose returns the n numbers to take, the lowest first. At least n numbers are free.
func choose(v view, n int, prefer []int) []int {
	taken := make(map[int]bool)
	for _, name := range v.listed {
		if number, ok := names.SlotOf(name); ok {
			taken[number] = true
		}
	}
	var chosen []int
	take := func(number int) {
		if !taken[number] && len(chosen) < n {
			taken[number] = true
			chosen = append(chosen, number)
		}
	}
	for _, number := range prefer {
		if number >= 0 && number < min(v.limit, names.MaxSlot) {
			take(number)
		}
	}
	for lowest := 0; len(chosen) < n; lowest++ {
		take(lowest)
	}
	slices.Sort(chosen)
	return chosen
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

// Slots are the numbers of the slots that h holds, the lowest first. In a MultiLock they are those of the first
// [Slots]. They are nil if h holds no slot.
func (h *Hold) Slots() []int {
	i := slices.IndexFunc(h.tenures, func(t *tenure.Tenure) bool { return t.Kind == queue.Slots })
	if i < 0 {
		return nil
	}
	var numbers []int
	for _, p := range h.tenures[i].Places {
		number, _ := names.SlotOf(p.Name())
		numbers = append(numbers, number)
	}
	return numbers
}

// Slot is the first of [Hold.Slots], for callers that acquire one. It is -1 if h holds no slot.
func (h *Hold) Slot() int {
	if numbers := h.Slots(); len(numbers) > 0 {
		return numbers[0]
	}
	return -1
}
