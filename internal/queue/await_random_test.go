package queue

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

	"holdfast/internal/queue/names"
	"holdfast/zk"
	"holdfast/zktest"
)

var (
	randomSeed = flag.Uint64("seed", 0, "of the random queue; 0: another every time")
	randomRuns = flag.Int("runs", 150, "how many random queues")
)

// A random queue of mutexes, writers and readers, each with its own connection. They join
// and leave, nodes are removed and written by hand, connections break and come back. The
// model is the order of the nodes. A client that gets a Hold must have been at the head at
// some moment of the history, with the node of the Hold. A client at the head that hears
// of it has a Hold.
func TestRandomQueueGrantsNobodyBeforeItsTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
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
						t.Fatalf("go test ./internal/queue -run %s -seed %d -runs 1\n%s", "TestRandomQueue", seed, strings.Join(m.story, "\n"))
					}
				}
			})
		})
	}
}

// The same for places of two sessions that share their lists.
func TestRandomCrowdGrantsNobodyBeforeItsTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range (*randomRuns + 4) / 5 {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			defer setShareFrom(rng.IntN(4))()
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				m := &queueModel{rng: rng, srv: srv, admin: client(t, srv), headed: make(map[string]bool)}
				m.crowd = []*line{newLine(t, srv), newLine(t, srv)}
				for range 60 {
					m.step(t)
					if t.Failed() {
						t.Fatalf("go test ./internal/queue -run %s -seed %d -runs 1\n%s", "TestRandomCrowd", seed, strings.Join(m.story, "\n"))
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
	headed map[string]bool // nodes that have had nobody ahead
	crowd  []*line         // the connections they share; nil: each has its own
	story  []string
}

func (m *queueModel) tell(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf(format, args...))
}

func (m *queueModel) step(t *testing.T) {
	var order []string // the order in which nodes are removed, if there are several
	s := m.any()
	switch n := m.rng.IntN(12); {
	case s == nil && len(m.crowd) == 0 || n < 3 && len(m.crowd) == 0 && len(m.all) < 9:
		m.all = append(m.all, stand(t, m.srv, m.kind()))
		m.tell("%s joins", m.all[len(m.all)-1].node)
	case s == nil || n < 3 && len(m.crowd) > 0 && len(m.all) < 30:
		m.flock(t)
	case n < 6: // leaves, by cancelling or unlocking
		m.tell("%s leaves", s.node)
		if s.isCut() {
			m.mend(s)
			m.look(t, nil)
		}
		if s.waiting() {
			s.cancel()
		} else if err := s.hold.Unlock(); err != nil && !errors.Is(err, ErrGone) {
			t.Error(err)
		}
		m.all = slices.DeleteFunc(m.all, func(o *standing) bool { return o == s })
	case n < 9 && len(m.line) > 0: // some are removed by hand
		var ops []zk.Op
		for range 1 + m.rng.IntN(4) {
			name := m.line[m.rng.IntN(min(3, len(m.line)))]
			if s.isCut() { // its own node, then those ahead of it
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
		m.admin.Set(t.Context(), s.node, []byte("changed"), zk.AnyVersion) // the node may be gone
	default:
		if s.isCut() {
			m.mend(s)
		} else {
			m.tell("%s: cut", s.node)
			s.slowly.Store(m.rng.IntN(2) == 0)
			s.cut()
		}
	}
	slowest := 20 * time.Millisecond // for clients that receive slowly
	if len(m.crowd) > 0 {
		slowest *= 20 // all of them receive, one after the other
	}
	time.Sleep(slowest)
	m.look(t, order)
	// No session may end, or the order in which its nodes went would be unknown.
	for _, s := range m.all {
		if s.isCut() && m.rng.IntN(3) == 0 {
			m.mend(s)
			m.look(t, nil)
		}
	}
}

func (m *queueModel) kind() func(*zk.Client) locker {
	return [...]func(*zk.Client) locker{mutexAt, writeAt, readAt}[m.rng.IntN(3)]
}

// flock makes several join at the same moment, all through one connection.
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
		s.waiter = start(ctx, of(s.Client))
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
			return s // a removal at a difficult moment
		}
	}
	return m.all[m.rng.IntN(len(m.all))]
}

// look updates the order of the nodes and compares.
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
	m.line, _ = contendersOf(now)
	m.head()
	heads := m.heads()
	for _, s := range m.all {
		if s.waiting() {
			// Its node may not be the first: when that was removed, it queued again.
			continue
		}
		if s.err != nil {
			t.Errorf("%s: %v", s.node, s.err)
			continue
		}
		name := strings.TrimPrefix(s.hold.Path(), lockPath+"/")
		if !m.headed[name] {
			t.Errorf("%s has a Hold, but was never at the head", name)
		}
		delete(heads, name)
	}
	for name := range heads {
		if !slices.ContainsFunc(m.all, func(s *standing) bool { return s.isCut() }) {
			t.Errorf("%s is at the head, but has no Hold", name)
		}
	}
}

// contendersOf returns the queue of the default layout, first place first: the names, and
// for each the names it waits for.
func contendersOf(listed []string) (queue []string, waitsFor map[string][]string) {
	waitsFor = make(map[string][]string)
	in := names.Default.InQueue(listed)
	for i, c := range in {
		queue = append(queue, c.Name)
		for _, other := range in[:i] {
			if c.WaitsFor(other) {
				waitsFor[c.Name] = append(waitsFor[c.Name], other.Name)
			}
		}
	}
	return queue, waitsFor
}

// heads returns the nodes that wait for nobody.
func (m *queueModel) heads() map[string]bool {
	queue, waitsFor := contendersOf(m.line)
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
