package holdfast_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

var (
	randomSeed = flag.Uint64("seed", 0, "of the random queue; 0: another every time")
	randomRuns = flag.Int("runs", 150, "how many random queues")
)

// A random queue of mutexes, writers and readers, each with a connection of its own: they
// come and go, nodes are removed and written to by hand, connections break and come
// back. The model is the line of the nodes. Whoever gets a Hold must have been at the
// head of it at some moment of the history, with the node of the Hold; and whoever is at
// the head and hears of it has one.
func TestRandomQueueGrantsNobodyBeforeItsTurn(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range *randomRuns {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				m := &queueModel{rng: rand.New(rand.NewPCG(seed, 0)), srv: srv, admin: client(t, srv), headed: make(map[string]bool)}
				for range 60 {
					m.step(t)
					if t.Failed() {
						t.Fatalf("go test -run %s -seed %d -runs 1\n%s", "TestRandomQueue", seed, strings.Join(m.story, "\n"))
					}
				}
			})
		})
	}
}

// The same for the places of two sessions that share their lists.
func TestRandomCrowdGrantsNobodyBeforeItsTurn(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range (*randomRuns + 4) / 5 {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			defer holdfast.SetShareFrom(rng.IntN(4))()
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				m := &queueModel{rng: rng, srv: srv, admin: client(t, srv), headed: make(map[string]bool)}
				m.crowd = []*line{newLine(t, srv), newLine(t, srv)}
				for range 60 {
					m.step(t)
					if t.Failed() {
						t.Fatalf("go test -run %s -seed %d -runs 1\n%s", "TestRandomCrowd", seed, strings.Join(m.story, "\n"))
					}
				}
			})
		})
	}
}

type queueModel struct {
	rng    *rand.Rand
	srv    *zktest.Server
	admin  *zk.Client
	all    []*standing
	line   []string        // the nodes, in order
	headed map[string]bool // those that have had nobody ahead
	crowd  []*line         // that all come through; nil: everybody has a connection
	story  []string
}

func (m *queueModel) tell(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf(format, args...))
}

func (m *queueModel) step(t *testing.T) {
	var order []string // in which nodes are removed, if it is more than one
	s := m.any()
	switch n := m.rng.IntN(12); {
	case s == nil && len(m.crowd) == 0 || n < 3 && len(m.crowd) == 0 && len(m.all) < 9:
		m.all = append(m.all, stand(t, m.srv, m.kind()))
		m.tell("%s joins", m.all[len(m.all)-1].node)
	case s == nil || n < 3 && len(m.crowd) > 0 && len(m.all) < 30:
		m.flock(t)
	case n < 6: // leaves, in its way
		m.tell("%s leaves", s.node)
		if s.isCut() {
			m.mend(s)
			m.look(t, nil)
		}
		if s.waiting() {
			s.cancel()
		} else if err := s.hold.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
		m.all = slices.DeleteFunc(m.all, func(o *standing) bool { return o == s })
	case n < 9 && len(m.line) > 0: // some are removed by hand
		var ops []zk.Op
		for range 1 + m.rng.IntN(4) {
			name := m.line[m.rng.IntN(min(3, len(m.line)))]
			if s.isCut() { // itself, and then those ahead of it
				i := slices.Index(m.line, strings.TrimPrefix(s.node, lockPath+"/"))
				name = m.line[max(i-len(order), 0)]
			}
			if !slices.Contains(order, name) && slices.Contains(m.line, name) {
				if m.rng.IntN(4) == 0 {
					ops = append(ops, zk.SetOp(lockPath+"/"+name, []byte("changed"), zk.AnyVersion))
				}
				order, ops = append(order, name), append(ops, zk.DeleteOp(lockPath+"/"+name, zk.AnyVersion))
			}
		}
		m.tell("removed: %v", order)
		if len(ops) == 0 {
			break
		}
		if _, err := m.admin.Pipeline(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	case n < 10:
		m.tell("%s: data changed", s.node)
		m.admin.Set(t.Context(), s.node, []byte("changed"), zk.AnyVersion) // it may be gone
	default:
		if s.isCut() {
			m.mend(s)
		} else {
			m.tell("%s: cut", s.node)
			s.slowly.Store(m.rng.IntN(2) == 0)
			s.cut()
		}
	}
	slowest := 20 * time.Millisecond // for those who hear slowly
	if len(m.crowd) > 0 {
		slowest *= 20 // what all of them hear, one after the other
	}
	time.Sleep(slowest)
	m.look(t, order)
	// No session may end: then nobody would know in which order the nodes went.
	for _, s := range m.all {
		if s.isCut() && m.rng.IntN(3) == 0 {
			m.mend(s)
			m.look(t, nil)
		}
	}
}

func (m *queueModel) kind() func(*zk.Client) holdfast.Locker {
	return [...]func(*zk.Client) holdfast.Locker{mutexAt, writeAt, readAt}[m.rng.IntN(3)]
}

// flock has several join at the same moment, all through one connection.
func (m *queueModel) flock(t *testing.T) {
	s := standing{line: m.crowd[m.rng.IntN(len(m.crowd))]}
	if s.isCut() {
		return
	}
	n := 1 + m.rng.IntN(8)
	for range n {
		s := s
		s.node = fmt.Sprintf("number %d", len(m.all))
		ctx, cancel := context.WithCancel(t.Context())
		s.cancel = cancel
		of := m.kind()
		s.waiter = &waiter{done: make(chan struct{})}
		go func() {
			defer close(s.done)
			s.hold, s.err = of(s.Client).Lock(ctx)
		}()
		m.all = append(m.all, &s)
	}
	m.tell("%d join", n)
}

func (m *queueModel) mend(s *standing) {
	m.tell("%s: connected", s.node)
	s.mend()
}

func (m *queueModel) any() *standing {
	if len(m.all) == 0 {
		return nil
	}
	for _, s := range m.all {
		if s.isCut() && m.rng.IntN(2) == 0 {
			return s // where it is difficult
		}
	}
	return m.all[m.rng.IntN(len(m.all))]
}

// look brings the line up to date and compares.
func (m *queueModel) look(t *testing.T, order []string) {
	synctest.Wait()
	now := queued(t, m.admin)
	for _, name := range m.line {
		if !slices.Contains(now, name) && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		m.line = slices.DeleteFunc(m.line, func(n string) bool { return n == name })
		m.head()
	}
	m.line, _ = holdfast.ContendersOf(now)
	m.head()
	heads := m.heads()
	for _, s := range m.all {
		if s.waiting() {
			// Its node may be another than the first: when that was removed, it queued again.
			continue
		}
		if s.err != nil {
			t.Errorf("%s: %v", s.node, s.err)
			continue
		}
		name := strings.TrimPrefix(s.hold.Path(), lockPath+"/")
		if !m.headed[name] {
			t.Errorf("%s has a Hold, and was never at the head", name)
		}
		delete(heads, name)
	}
	for name := range heads {
		if !slices.ContainsFunc(m.all, func(s *standing) bool { return s.isCut() }) {
			t.Errorf("%s is at the head and has no Hold", name)
		}
	}
}

// heads are the nodes that wait for nobody.
func (m *queueModel) heads() map[string]bool {
	queue, waitsFor := holdfast.ContendersOf(m.line)
	heads := make(map[string]bool)
	for _, name := range queue {
		if len(waitsFor[name]) == 0 {
			heads[name] = true
		}
	}
	return heads
}

func (m *queueModel) head() {
	for name := range m.heads() {
		m.headed[name] = true
	}
}
