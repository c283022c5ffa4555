package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/internal/queue"
)

// newestCallers is how many callers of each process want the lock whose waiters make room for each other.
const newestCallers = 5

// Events of a call on that lock. Text is its owner, which is the name of the call.
const (
	newestBegun      = "newest: begun"
	newestRan        = "newest: ran"        // Lock is the node, Read its token, Value the arrival (0: not known); Count is 1 if it supersedes others
	newestSuperseded = "newest: superseded" // By is the owner of the call that has the place, and Value its arrival
	newestDropped    = "newest: dropped"    // likewise
	newestFull       = "newest: full"
)

// arrive is a caller of the lock whose waiters make room for each other: of most calls only the newest stays, of others a
// number, and some are plain. Nobody deletes nodes there.
func (c *chaosClient) arrive(ctx context.Context, i int, rng *rand.Rand) {
	z, session := c.clients[i%len(c.clients)], c.sessions[i%len(c.clients)]
	client := c.Process*1000 + 800 + i
	for n := 0; ctx.Err() == nil; n++ {
		lock, owner := chaosPath("newest", 0), fmt.Sprintf("call %d of %d", n, client)
		opts := []holdfast.Option{holdfast.WithOwner(owner)}
		supersedes := false
		switch rng.IntN(8) {
		case 0:
		case 1, 2:
			opts = append(opts, holdfast.WithQueueMax(3, rng.IntN(4) > 0))
		default:
			opts, supersedes = append(opts, holdfast.WithSupersede()), true
		}
		a := chaos.Attempt{Client: client, Session: session.Load, Locks: []chaos.Op{{Lock: lock, Type: chaos.Mutex}}}
		patient, cancel := context.WithTimeout(ctx, 10*time.Second)
		c.event(chaosEvent{What: newestBegun, Text: owner, Lock: lock})
		claim, err := c.log.Acquire(patient, a, holdfast.NewMutex(z, lock, opts...).Lock)
		cancel()
		if err != nil {
			c.yielded(owner, lock, err)
			pause(ctx, time.Duration(rng.Int64N(int64(50*time.Millisecond))))
			continue
		}
		context.AfterFunc(claim.Context(), func() { c.mustBeOurs(ctx, i, claim.Hold) })
		ran := chaosEvent{What: newestRan, Text: owner, Lock: claim.Path(), Read: claim.Token()}
		if supersedes {
			ran.Count = 1
		}
		if data, _, err := z.Get(claim.Context(), claim.Path()); err == nil {
			if note, ok := queue.ParseNote(data); ok && note.Sort != "" {
				ran.Value = cmp.Or(note.Arrived, claim.Token())
			}
		}
		c.event(ran)
		held := time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
		if rng.IntN(40) == 0 {
			held = time.Duration(rng.Int64N(int64(2 * chaosTimeout)))
		}
		pause(claim.Context(), held)
		c.unlock(claim, 1)
	}
}

// yielded records how a call has ended that has not acquired the lock.
func (c *chaosClient) yielded(owner, lock string, err error) {
	e := chaosEvent{Text: owner, Lock: lock}
	by, ok := holdfast.SupersededBy(err)
	switch e.By, e.Value = by.Owner, by.Token; {
	case errors.Is(err, holdfast.ErrSuperseded):
		e.What = newestSuperseded
	case errors.Is(err, holdfast.ErrQueueFull) && ok:
		e.What = newestDropped
	case errors.Is(err, holdfast.ErrQueueFull):
		e.What = newestFull
	default: // it has given up, or the process ends
		return
	}
	c.event(e)
}

// mustBeOurs looks at a Hold that has ended: nobody may have removed its node while its session lasts.
func (c *chaosClient) mustBeOurs(ctx context.Context, i int, h *holdfast.Hold) {
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) || !errors.Is(cause, queue.ErrGone) {
		return
	}
	pause(ctx, chaosTimeout)
	if session, err := c.clients[i%len(c.clients)].Session(ctx); err == nil && session.ID() == h.SessionID() {
		c.odd(fmt.Errorf("newest: the node %s of a holder was removed, and its session 0x%x lasts", h.Path(), uint64(h.SessionID())))
	}
}

// makingRoom looks at what the calls have told, and counts it. The call that has another's place is newer, had begun by
// then, and was not superseded by an older one. (Its arrival is later than its first node if it has never known of that.) Of the calls that supersede each other, no older one has run after a newer
// one, as long as the directory with the record was there.
func makingRoom(events []chaosEvent) (count map[string]int, wrong []string) {
	begun, ended := make(map[string]chaosEvent), make(map[string]chaosEvent) // by owner
	var ran []chaosEvent
	count = make(map[string]int)
	for _, e := range events {
		switch e.What {
		case newestBegun:
			begun[e.Text] = e
		case newestRan:
			ran = append(ran, e)
			fallthrough
		case newestSuperseded, newestDropped, newestFull:
			ended[e.Text] = e
			count[e.What]++
		}
	}
	for owner, e := range ended {
		if e.What != newestSuperseded && e.What != newestDropped {
			continue
		}
		first, ok := begun[e.By]
		last := ended[e.By]
		switch {
		case !ok || first.Lock != e.Lock:
			wrong = append(wrong, fmt.Sprintf("%s: %s has made room for %q, which is no call", e.Lock, owner, e.By))
		case first.At > e.At:
			wrong = append(wrong, fmt.Sprintf("%s: %s has made room for %s before that had begun", e.Lock, owner, e.By))
		case last.What == e.What && last.Value <= e.Value, last.What == newestRan && last.Value != 0 && last.Value < e.Value:
			wrong = append(wrong, fmt.Sprintf("%s: %s has made room for %s, arrival %d, which has ended so: %+v", e.Lock, owner, e.By, e.Value, last))
		}
	}
	return count, append(wrong, olderAfterNewer(ran, count)...)
}

// newestOrdered counts pairs of calls that have run one after the other.
const newestOrdered = "newest: one after the other"

// olderAfterNewer looks at the calls that have run. Their tokens are in the order in which they have.
func olderAfterNewer(ran []chaosEvent, count map[string]int) (wrong []string) {
	ran = slices.DeleteFunc(ran, func(e chaosEvent) bool { return e.Value == 0 || e.Count == 0 })
	slices.SortFunc(ran, func(a, b chaosEvent) int {
		return cmp.Or(cmp.Compare(path.Dir(a.Lock), path.Dir(b.Lock)), cmp.Compare(a.Read, b.Read))
	})
	number := func(e chaosEvent) int {
		n, _ := strconv.Atoi(e.Lock[len(e.Lock)-10:])
		return n
	}
	for i := 1; i < len(ran); i++ {
		a, b := ran[i-1], ran[i]
		if path.Dir(a.Lock) != path.Dir(b.Lock) || number(b) < number(a) { // the directory was made again
			continue
		}
		if count[newestOrdered]++; b.Value < a.Value {
			wrong = append(wrong, fmt.Sprintf("%s: %s, arrival %d, ran after %s, arrival %d", path.Dir(a.Lock), b.Text, b.Value, a.Text, a.Value))
		}
	}
	return wrong
}

// A call that made room for one that is no newer, and an older one that runs after a newer one, are found.
func TestChaosFindsAnOlderCallThatFollows(t *testing.T) {
	const lock = "/chaos/1/newest-0"
	event := func(what, owner, by string, at time.Duration, value int64) chaosEvent {
		e := chaosEvent{What: what, Text: owner, By: by, Lock: lock, At: at, Value: value}
		if what == newestRan {
			e.Lock, e.Read, e.Count = fmt.Sprintf("%s/_c_x-lock-%010d", lock, at), int64(at), 1
		}
		return e
	}
	begun := func(owner string, at time.Duration) chaosEvent { return event(newestBegun, owner, "", at, 0) }
	for _, c := range []struct {
		name   string
		events []chaosEvent
		wrong  int
	}{
		{"the newest runs", []chaosEvent{begun("a", 1), begun("b", 2), event(newestSuperseded, "a", "b", 3, 12), event(newestRan, "b", "", 4, 12)}, 0},
		{"its session has ended meanwhile", []chaosEvent{begun("a", 1), begun("b", 2), event(newestRan, "a", "", 3, 11), event(newestRan, "b", "", 4, 12)}, 0},
		{"nobody has the place", []chaosEvent{begun("a", 1), event(newestSuperseded, "a", "c", 3, 12)}, 1},
		{"the other comes later", []chaosEvent{begun("a", 1), event(newestSuperseded, "a", "b", 3, 12), begun("b", 4)}, 1},
		{"each for the other", []chaosEvent{begun("a", 1), begun("b", 2), event(newestSuperseded, "a", "b", 3, 12), event(newestSuperseded, "b", "a", 3, 11)}, 1},
		{"an older arrival", []chaosEvent{begun("a", 1), begun("b", 2), event(newestSuperseded, "a", "b", 3, 12), event(newestRan, "b", "", 4, 11)}, 1},
		{"the older follows", []chaosEvent{begun("a", 1), begun("b", 2), event(newestRan, "b", "", 3, 12), event(newestRan, "a", "", 4, 11)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, wrong := makingRoom(c.events); len(wrong) != c.wrong {
				t.Errorf("%q; want %d", wrong, c.wrong)
			}
		})
	}
}
