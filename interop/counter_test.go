//go:build unix

package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// Sixteen loops each run `holdfast run` fifty times, one process after the other. The command
// under the lock loses an update if two ever hold it.
const (
	counterLoops = 16
	counterTurns = 25
	counterTime  = 10 * time.Minute
)

func TestCounterUnderTheLockLosesNoUpdate(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			count(t, b.url(t), nil)
		})
	}
}

func TestCounterLosesNoUpdateWhenTheHostOfItsDirectoryIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("left out: identifying a process needs /proc, so Linux")
	}
	bin, dir := holdfastBin(t), newDirectory(t)
	kills := 0
	count(t, "file://"+dir, func(ctx context.Context, turns *atomic.Int64) error {
		// Wait until locks are being taken: the first turns start the first host.
		for turns.Load() < counterLoops*counterTurns/10 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		every := time.NewTicker(2 * time.Second)
		defer every.Stop()
		for {
			switch _, err := killHost(bin, dir); {
			case err == nil:
				kills++
			case !errors.Is(err, errNoHost):
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-every.C:
			}
		}
	})
	measured(t, "%d hosts killed", kills)
	if kills == 0 {
		t.Error("no host was killed: the test shows nothing")
	}
}

// count runs the loops on the lock "counter" while fault, if there is one, does its worst.
// fault's context ends with the loops.
func count(t *testing.T, url string, fault func(ctx context.Context, turns *atomic.Int64) error) {
	path := newNumber(t)
	ctx, cancel := context.WithTimeout(t.Context(), counterTime)
	defer cancel()
	faultCtx, endFault := context.WithCancel(ctx)
	var (
		turns    atomic.Int64
		loops    sync.WaitGroup
		faultErr = make(chan error, 1)

		mu       sync.Mutex
		failures []string
	)
	began := time.Now()
	if fault != nil {
		go func() { faultErr <- fault(faultCtx, &turns) }()
	} else {
		faultErr <- nil
	}
	for range counterLoops {
		loops.Go(func() {
			for range counterTurns {
				cmd := underLock(ctx, t, url, "counter", increment(path), "--wait", "60s")
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := peers.Run(cmd); err != nil {
					mu.Lock()
					failures = append(failures, fmt.Sprintf("%v: %s", err, &out))
					mu.Unlock()
				}
				turns.Add(1)
			}
		})
	}
	loops.Wait()
	endFault()
	if err := <-faultErr; err != nil {
		t.Error(err)
	}
	elapsed := time.Since(began)
	if len(failures) > 0 {
		t.Errorf("%d of %d runs failed, the first:\n%s", len(failures), counterLoops*counterTurns,
			strings.Join(failures[:min(3, len(failures))], "\n"))
	}
	got, err := readNumber(path)
	must(t, err)
	if want := counterLoops * counterTurns; got != want {
		t.Errorf("the number is %d; want %d", got, want)
	}
	measured(t, "%d processes × %d turns: %v", counterLoops, counterTurns, elapsed.Round(time.Millisecond))
}
