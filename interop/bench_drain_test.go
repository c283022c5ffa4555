//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zk/admin"
)

// crowdSessions are the sessions that a crowd of waiters comes through.
const crowdSessions = 16

// A crowd stands in line for one lock behind a holder.
type crowd struct {
	// join starts so many waiters, once the holder has the lock, and does not wait for them.
	join func(ctx context.Context, name string, waiters int) error
	// drain releases the holder's lock; each waiter releases as soon as it has it. The time
	// is from then until the last has.
	drain func(ctx context.Context) (time.Duration, error)
}

// libraryCrowd is one of a Go library's.
func libraryCrowd(tb testing.TB, open func(ctx context.Context) (session, error)) crowd {
	var sessions []session
	tb.Cleanup(func() { together(len(sessions), func(i int) error { sessions[i].close(); return nil }) })
	var release func() error // the holder's
	var done chan error
	var check func() error
	return crowd{
		join: func(ctx context.Context, name string, waiters int) error {
			for len(sessions) < crowdSessions {
				s, err := open(ctx)
				if err != nil {
					return err
				}
				sessions = append(sessions, s)
			}
			take, err := sessions[0].lock(name, 0)
			if err != nil {
				return err
			}
			unlock, err := take(ctx)
			if err != nil {
				return err
			}
			guarded := new(sideline)
			number := guarded.enter()
			release = func() error {
				guarded.leave(number)
				return unlock()
			}
			check = func() error { return guarded.check(name, waiters+1) }
			done = make(chan error, 1)
			go func() {
				done <- together(waiters, func(i int) error {
					take, err := sessions[i%crowdSessions].lock(name, 0)
					if err != nil {
						return err
					}
					unlock, err := take(ctx)
					if err != nil {
						return err
					}
					guarded.leave(guarded.enter())
					return unlock()
				})
			}()
			return nil
		},
		drain: func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			if err := errors.Join(release(), <-done); err != nil {
				return 0, err
			}
			return time.Since(began), check()
		},
	}
}

// curatorCrowd is one thread per waiter in Curator's JVM.
func curatorCrowd(p *program) crowd {
	return crowd{
		join: func(ctx context.Context, name string, waiters int) error {
			_, err := p.ask(ctx, "join %d %d %s", crowdSessions, waiters, name)
			return err
		},
		drain: func(ctx context.Context) (time.Duration, error) {
			line, err := p.ask(ctx, "drain")
			if err != nil {
				return 0, err
			}
			var seconds float64
			_, err = fmt.Sscan(line, &seconds)
			return time.Duration(seconds * 1e9), err
		},
	}
}

var crowdNumber atomic.Int64

// sample lets a crowd join and drain. onlooker sees the queue on the server pid.
func (c crowd) sample(ctx context.Context, onlooker *zk.Client, pid, waiters int) (figures, error) {
	name := fmt.Sprintf("crowd-%d", crowdNumber.Add(1))
	began := time.Now()
	if err := c.join(ctx, name, waiters); err != nil {
		return nil, err
	}
	if err := awaitCrowd(ctx, onlooker, pid, "/bench/"+name, waiters+1); err != nil {
		return nil, err
	}
	joined := time.Since(began) - crowdQuiet
	before := written(pid)
	drained, err := c.drain(ctx)
	if err != nil {
		return nil, err
	}
	n := float64(waiters)
	return figures{
		"handoffs/s": n / drained.Seconds(),
		"joins/s":    n / joined.Seconds(),
		"B/handoff":  float64(written(pid)-before) / n,
	}, nil
}

// crowdQuiet is how long a server must have had next to nothing to say for a crowd to
// stand: the last node is there before its owner has its answers.
const crowdQuiet = 200 * time.Millisecond

func awaitCrowd(ctx context.Context, onlooker *zk.Client, pid int, path string, nodes int) error {
	const look = 20 * time.Millisecond
	const fewBytes = 2000 // per look: our own question, and everybody's pings
	quiet, said := time.Duration(0), written(pid)
	for quiet < crowdQuiet {
		n, err := admin.AllChildrenNumber(ctx, onlooker, path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d stand in line: %w", n, nodes, context.Cause(ctx))
		case <-time.After(look): // nobody tells when nothing happens
		}
		now := written(pid)
		if n >= nodes && now-said < fewBytes {
			quiet += look
		} else {
			quiet = 0
		}
		said = now
	}
	return nil
}

// written is how many bytes the process has written, to its sockets and to its log.
func written(pid int) int64 {
	var n int64
	_, after, _ := strings.Cut(fileText(fmt.Sprintf("/proc/%d/io", pid)), "wchar: ")
	fmt.Sscan(after, &n)
	return n
}

// crowdSizes are those of row 4; the last is for us alone, since a peer, whose time grows with
// the square of the crowd, would take minutes.
func crowdSizes() []int {
	if *quick {
		return []int{30, 100, 1000}
	}
	return []int{300, 1000, *largest}
}

func crowdName(name string, n int) string { return fmt.Sprintf("%s, %s", name, grouped(float64(n))) }

// drainGoals compare our largest crowd with the largest of each peer, per waiter. That
// flatters the peer: its time grows with the square of the crowd, and it has the smaller
// one. The same sizes stand beside each other, too.
func drainGoals() []goal {
	sizes := crowdSizes()
	var goals []goal
	for _, peer := range []string{goZooKeeper, curator} {
		goals = append(goals, goal{who: crowdName(oursOnApache, sizes[2]), than: crowdName(peer, sizes[1]), atLeast: 5},
			goal{who: crowdName(oursOnApache, sizes[1]), than: crowdName(peer, sizes[1]), atLeast: 5})
	}
	return append(goals, goal{unit: "B/handoff", who: crowdName(oursOnApache, sizes[2]), than: crowdName(oursOnApache, sizes[0]), atMost: 1.1})
}

func drainSides(tb testing.TB) []side {
	apache, ours := benchApache.get(tb), benchHoldfast.get(tb)
	onApache, onOurs := dialURL(tb, apache.URL()), dialURL(tb, ours.URL())
	var sides []side
	add := func(name string, waiters int, c crowd, onlooker *zk.Client, pid int) {
		sides = append(sides, side{crowdName(name, waiters), func(ctx context.Context) (figures, error) {
			return c.sample(ctx, onlooker, pid, waiters)
		}})
	}
	we := libraryCrowd(tb, openOurs(apache.URL()))
	they := libraryCrowd(tb, openGoZooKeeper(apache.Addrs()[0]))
	java := curatorCrowd(benchCurator.get(tb))
	sizes := crowdSizes()
	for _, n := range sizes {
		add(oursOnApache, n, we, onApache, apache.Pid(0))
	}
	for _, n := range sizes[:2] {
		add(goZooKeeper, n, they, onApache, apache.Pid(0))
	}
	for _, n := range sizes[:2] {
		add(curator, n, java, onApache, apache.Pid(0))
	}
	add(oursOnOurs, sizes[2], libraryCrowd(tb, openOurs(ours.URL())), onOurs, ours.Pid())
	return sides
}
