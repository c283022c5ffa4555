//go:build unix

package interop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// A herd is many sessions in one queue. One of them holds the lock until it is told to release
// it; it does not queue again.
type herd struct {
	held    func(ctx context.Context) error // returns when the next of them acquires the lock
	release func() error                    // by the holder; may return before the release is done
}

// A recipe is a way to take turns. Many sessions that connect to the relay use it.
type recipe struct {
	name  string
	line  string // its name in the plot
	skip  int    // releases before the measurement
	need  func() error
	start func(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd
}

func needsNothing() error { return nil }

var herdRecipes = []recipe{
	{"R1: everybody watches the parent, and lists it after every wake", "R1, crowd watching", 0, needsNothing, startCrowdWatchers},
	{"R2: each watches the one ahead, and lists after every wake", "R2, predecessor watching", 0, needsNothing, startPredecessorWatchers},
	{"Curator's InterProcessMutex", "Curator", 0, peers.NeedCurator, startCurator},
	{"kazoo's Lock", "kazoo", 0, peers.NeedKazoo, startKazoo},
	{"go-zookeeper's Lock", "go-zookeeper", 0, needsNothing, startGoZookeeper},
	mutex,
}

// The first two holders of our Mutex have not learned that the queue has become long, and leave
// no watermark (see internal/queue). So the clients two places behind them list the queue, as
// with R2. They come before the measurement.
var mutex = recipe{"holdfast's Mutex", "holdfast", 3, needsNothing, startMutex}

// joinedShort is how many join one by one, so that they find a short queue. The measured ones
// are among them.
const joinedShort = 40

// herdTimeout is the sessions' timeout: the longest that the server allows, so that many idle
// sessions in one process do not miss it.
const herdTimeout = 40 * time.Second

// inProcess returns a herd of goroutines, each of which takes its turn with take. When the test
// ends, hangUp ends those that still wait.
func inProcess(ctx context.Context, t *testing.T, sessions int, hangUp func(), take func(ctx context.Context, i int) (func() error, error)) herd {
	held, turn := make(chan error), make(chan chan<- error)
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			release, err := take(ctx, i)
			if ctx.Err() != nil {
				return
			}
			select {
			case held <- err:
			case <-ctx.Done():
				return
			}
			select {
			case done := <-turn:
				done <- release()
			case <-ctx.Done():
			}
		})
	}
	t.Cleanup(func() { cancel(); hangUp(); all.Wait() })
	return herd{
		held: func(ctx context.Context) error {
			select {
			case err := <-held:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		release: func() error {
			done := make(chan error, 1)
			turn <- done
			return <-done
		},
	}
}

// eachOf calls f for all sessions, some at a time.
func eachOf(sessions int, f func(i int) error) error {
	errs := make(chan error, sessions)
	room := make(chan struct{}, 32)
	for i := range sessions {
		room <- struct{}{}
		go func() { errs <- f(i); <-room }()
	}
	var err error
	for range sessions {
		err = errors.Join(err, <-errs)
	}
	return err
}

// dialHerd makes this many sessions of our client. hangUp breaks their connections before it
// closes them. Otherwise each session's end would wake all waiters that share their lists, and
// they would list again.
func dialHerd(ctx context.Context, t *testing.T, relay *countingRelay, sessions int) (clients []*zk.Client, hangUp func()) {
	t.Helper()
	clients = make([]*zk.Client, sessions)
	hangUp = func() {
		relay.close()
		for _, c := range clients {
			if c != nil {
				c.Close()
			}
		}
	}
	t.Cleanup(hangUp)
	must(t, eachOf(sessions, func(i int) (err error) {
		clients[i], err = zk.Dial(ctx, zk.Config{Servers: []string{relay.addr()}, SessionTimeout: herdTimeout})
		return err
	}))
	return clients, hangUp
}

func startMutex(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd {
	clients, hangUp := dialHerd(ctx, t, relay, sessions)
	return inProcess(ctx, t, sessions, hangUp, func(ctx context.Context, i int) (func() error, error) {
		// If they joined together, all could find a long queue, which is the easy case.
		if err := awaitChildren(ctx, clients[i], path, min(i, joinedShort)); err != nil {
			return nil, err
		}
		hold, err := holdfast.NewMutex(clients[i], path).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	})
}

// startPredecessorWatchers is the textbook's R2, on a bare client.
func startPredecessorWatchers(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd {
	clients, hangUp := dialHerd(ctx, t, relay, sessions)
	must(t, makeParent(ctx, clients[0], path))
	return inProcess(ctx, t, sessions, hangUp, func(ctx context.Context, i int) (func() error, error) {
		c := clients[i]
		mine, _, err := c.Create(ctx, path+"/"+bookName(i), nil, zk.EphemeralSequential)
		for err == nil {
			names, _, err := c.Children(ctx, path)
			if err != nil {
				return nil, err
			}
			slices.SortFunc(names, byNumber)
			at := slices.Index(names, filepath.Base(mine))
			if at == 0 {
				return func() error { return c.Delete(ctx, mine, zk.AnyVersion) }, nil
			}
			if at < 0 {
				return nil, fmt.Errorf("%s is gone", mine)
			}
			_, there, watch, err := c.ExistsW(ctx, path+"/"+names[at-1])
			if err != nil {
				return nil, err
			}
			if there {
				err = awaitEvent(ctx, watch)
			}
			watch.Stop()
			if err != nil {
				return nil, err
			}
		}
		return nil, err
	})
}

// startCrowdWatchers is R1. All make their nodes before the first of them looks. If they came
// one after the other, each would wake all before it. A thousand would then read the list half
// a million times before the measurement begins.
func startCrowdWatchers(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd {
	clients, hangUp := dialHerd(ctx, t, relay, sessions)
	must(t, makeParent(ctx, clients[0], path))
	nodes := make([]string, sessions)
	must(t, eachOf(sessions, func(i int) (err error) {
		nodes[i], _, err = clients[i].Create(ctx, path+"/"+bookName(i), nil, zk.EphemeralSequential)
		return err
	}))
	return inProcess(ctx, t, sessions, hangUp, func(ctx context.Context, i int) (func() error, error) {
		c, mine := clients[i], nodes[i]
		for {
			names, _, watch, err := c.ChildrenW(ctx, path)
			if err != nil {
				return nil, err
			}
			if filepath.Base(mine) == slices.MinFunc(names, byNumber) {
				watch.Stop()
				return func() error { return c.Delete(ctx, mine, zk.AnyVersion) }, nil
			}
			err = awaitEvent(ctx, watch)
			watch.Stop()
			if err != nil {
				return nil, err
			}
		}
	})
}

// bookName returns the name of a node as in R1, a GUID and its purpose. It is as long as
// Curator's, so that lists of the same queue have the same size.
func bookName(i int) string { return fmt.Sprintf("_c_00000000-0000-4000-8000-%012d-lock-", i) }

func byNumber(a, b string) int {
	number := func(s string) int { n, _ := strconv.Atoi(s[max(0, len(s)-10):]); return n }
	return number(a) - number(b)
}

func makeParent(ctx context.Context, c *zk.Client, path string) error {
	_, _, err := c.Create(ctx, path, nil, zk.Persistent)
	return err
}

func awaitEvent(ctx context.Context, w *zk.Watch) error {
	select {
	case ev := <-w.C:
		return ev.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func startGoZookeeper(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd {
	conns := make([]*rival.Conn, sessions)
	hangUp := func() {
		relay.close()
		var all sync.WaitGroup // Close waits a second for an answer
		for _, c := range conns {
			if c != nil {
				all.Go(c.Close)
			}
		}
		all.Wait()
	}
	t.Cleanup(hangUp)
	must(t, eachOf(sessions, func(i int) error {
		c, events, err := rival.Connect([]string{relay.addr()}, herdTimeout, rival.WithLogInfo(false),
			rival.WithLogger(silentLogger{}), rival.WithMaxBufferSize(256<<10)) // the library allocates twice that for each
		if err != nil {
			return err
		}
		conns[i] = c
		for {
			select {
			case e := <-events:
				if e.State == rival.StateHasSession {
					return nil
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}))
	return inProcess(ctx, t, sessions, hangUp, func(ctx context.Context, i int) (func() error, error) {
		l := rival.NewLock(conns[i], path, rival.WorldACL(rival.PermAll))
		return l.Unlock, l.Lock()
	})
}

func startCurator(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd {
	cmd := peers.Curator(ctx, curatorClasses(t), "Herd", relay.addr(), path, strconv.Itoa(sessions))
	return asProgram(startTurnTaker(t, cmd))
}

func startKazoo(ctx context.Context, t *testing.T, relay *countingRelay, path string, sessions int) herd {
	cmd := peers.Kazoo(ctx, filepath.Join("py", "herd.py"), relay.addr(), path, strconv.Itoa(sessions))
	return asProgram(startTurnTaker(t, cmd))
}

// asProgram returns a herd in another process, which is connected. It prints "held" whenever
// one of its sessions acquires the lock, and releases it at a line on its standard input.
func asProgram(p *turnTaker) herd {
	return herd{
		held:    func(context.Context) error { return p.expect("held") },
		release: p.begin,
	}
}
