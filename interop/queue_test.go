//go:build unix

package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/interop/peers"
)

// Our Mutex, go-zookeeper's Lock and Curator's InterProcessMutex take turns in one queue,
// because our nodes are named like Curator's.
func TestMutexSharesItsQueueWithCuratorAndGoZookeeper(t *testing.T) {
	t.Run("on Apache ZooKeeper", func(t *testing.T) {
		shareQueue(t, curatorClasses(t), oneZooKeeper.get(t).Addrs()[0])
	})
	t.Run("on holdfast serve", func(t *testing.T) {
		shareQueue(t, curatorClasses(t), oneHoldfast.get(t).Addr())
	})
}

func shareQueue(t *testing.T, classes, addr string) {
	const turns = 40
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
	defer cancel()
	path, number := "/shared-queue/lock", newNumber(t)

	ours := holdfast.NewMutex(dialURL(t, "zk://"+addr), path)
	theirs := rival.NewLock(connectRival(t, []string{addr}, 10*time.Second), path, rival.WorldACL(rival.PermAll))
	curator, err := startTurns(ctx, t, classes, addr, path, strconv.Itoa(turns), number)
	must(t, err)

	// Who held the lock at which number: a shared queue mixes them.
	done := make(chan error, 2)
	var seen [2][]int
	go func() {
		done <- takeTurns(turns, number, &seen[0], func() (func() error, error) {
			hold, err := ours.Lock(ctx)
			if err != nil {
				return nil, err
			}
			return hold.Unlock, nil
		})
	}()
	go func() {
		done <- takeTurns(turns, number, &seen[1], func() (func() error, error) {
			return theirs.Unlock, theirs.Lock()
		})
	}()
	must(t, curator.begin())
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := curator.end(); err != nil {
		t.Error(err)
	}
	got, err := readNumber(number)
	must(t, err)
	if want := 3 * turns; got != want {
		t.Errorf("the number is %d after %d turns: two held the lock at once", got, want)
	}
	for i, who := range []string{"holdfast", "go-zookeeper"} {
		slices.Sort(seen[i])
		gaps := 0
		for j := 1; j < len(seen[i]); j++ {
			if seen[i][j] != seen[i][j-1]+1 {
				gaps++
			}
		}
		if gaps < turns/4 {
			t.Errorf("%s had its %d turns with %d interruptions: it did not queue with the others", who, turns, gaps)
		}
	}
}

// takeTurns adds one to the number, under the lock, this many times.
func takeTurns(turns int, number string, seen *[]int, lock func() (unlock func() error, err error)) error {
	for range turns {
		unlock, err := lock()
		if err != nil {
			return err
		}
		n, err := readNumber(number)
		*seen = append(*seen, n)
		if err := errors.Join(err, addOne(number), unlock()); err != nil {
			return err
		}
	}
	return nil
}

// curatorTurns is a running CuratorTurns.
type curatorTurns struct {
	begin func() error
	end   func() error
}

// startTurns starts the program and returns when it is connected. The program takes its turns
// after begin, and end waits until it has.
func startTurns(ctx context.Context, t *testing.T, classes string, args ...string) (*curatorTurns, error) {
	cmd := peers.Curator(ctx, classes, "CuratorTurns", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	expect := func(want string) error {
		if !lines.Scan() || lines.Text() != want {
			return fmt.Errorf("CuratorTurns printed %q; want %q", lines.Text(), want)
		}
		return nil
	}
	process, err := peers.Start(cmd)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("CuratorTurns: %v\n%s", process.Err(), &stderr)
		}
	})
	if err := expect("ready"); err != nil {
		return nil, err
	}
	return &curatorTurns{
		begin: func() error { _, err := stdin.Write([]byte("\n")); return err },
		end:   func() error { return expect("ok turns") },
	}, nil
}
