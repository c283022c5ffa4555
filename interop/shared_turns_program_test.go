//go:build unix

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"reflect"
	"strconv"
	"sync"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/zk"
)

// turnsProgram takes turns on locks that others use too, each recipe on its own lock, in its
// own process. It does for holdfast and go-zookeeper what SharedTurns does for Curator.
//
// Its arguments are ADDR TURNS [RECIPE LAYOUT PATH DIR]...; the recipe "go-zookeeper" is that
// library's Lock. It prints "ready" when connected and starts at the first line on standard
// input.
func turnsProgram(args []string) error {
	addr := args[0]
	turns, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	// It ends only if the program hangs, after the test has given up on it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	cfg, err := zk.ParseURL("zk://" + addr)
	if err != nil {
		return err
	}
	cfg.TickTime = 500 * time.Millisecond // the peers' tick
	ours, err := zk.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer ours.Close()
	theirs, events, err := rival.Connect([]string{addr}, 10*time.Second, rival.WithLogInfo(false), rival.WithLogger(silentLogger{}))
	if err != nil {
		return err
	}
	defer theirs.Close()
	for e := range events {
		if e.State == rival.StateHasSession {
			break
		}
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards errs
	var errs []error
	for r := args[2:]; len(r) >= 4; r = r[4:] {
		take := func(i int) error { return ourTurn(ctx, ours, r[0], r[1], r[2], r[3], i) }
		if r[0] == "go-zookeeper" {
			lock := rival.NewLock(theirs, r[2], rival.WorldACL(rival.PermAll))
			take = func(int) error { return rivalTurn(theirs, lock, r[3]) }
		}
		all.Go(func() {
			for i := range turns {
				if err := take(i); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("%s on %s, turn %d: %w", r[0], r[2], i, err))
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Println("ok turns")
	return nil
}

// ourTurn is the i-th turn of one of our locks.
func ourTurn(ctx context.Context, c *zk.Client, recipe, layoutName, at, dir string, i int) error {
	layout, err := holdfast.ParseLayout(layoutName)
	if err != nil {
		return err
	}
	in, mode := holdfast.WithLayout(layout), "W"
	var l holdfast.Locker
	switch recipe {
	case "mutex":
		l = holdfast.NewMutex(c, at, in)
	case "rwmutex":
		m := holdfast.NewRWMutex(c, at, in)
		if l = m; i%3 != 0 {
			l, mode = m.RLocker(), "R"
		}
	case "semaphore":
		l, mode = holdfast.NewSemaphore(c, at, sharedPermits, in).Locker(1), "P"
	case "election":
		l = candidate{holdfast.NewElection(c, at, in), strconv.Itoa(i)}
	case "preferred":
		l = candidate{holdfast.NewElection(c, at, in, holdfast.WithPreference(i%3, 20*time.Millisecond)), strconv.Itoa(i)}
	default:
		return fmt.Errorf("no recipe %q", recipe)
	}
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(takeTurn(dir, mode, path.Base(h.Path()), h.Token()), h.Unlock())
}

// rivalTurn is one turn of go-zookeeper's Lock.
func rivalTurn(c *rival.Conn, lock *rival.Lock, dir string) error {
	if err := lock.Lock(); err != nil {
		return err
	}
	node := rivalNode(lock)
	_, stat, err := c.Exists(node)
	if err == nil {
		err = takeTurn(dir, "W", path.Base(node), stat.Czxid)
	}
	return errors.Join(err, lock.Unlock())
}

// rivalNode returns the node of a held lock, which the library does not expose.
func rivalNode(lock *rival.Lock) string {
	return reflect.ValueOf(lock).Elem().FieldByName("lockPath").String()
}
