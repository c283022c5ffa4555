package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// A fault makes one call fail and, if full is set, every later change of the disk.
type fault struct {
	at    int // number of the call; 0: none
	short bool
	full  bool // the disk is full from then on

	mu     sync.Mutex
	calls  int
	failed crashfs.Call
	hit    bool
	again  []crashfs.Call // changes that the store tried afterwards
}

func (f *fault) fail(c crashfs.Call) (keep int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	switch {
	case f.at == 0 || f.calls < f.at:
		return 0, nil
	case f.calls == f.at:
		f.failed, f.hit = c, true
	case c.Changes():
		f.again = append(f.again, c)
		if !f.full {
			return 0, nil
		}
	default:
		return 0, nil
	}
	if f.short {
		keep = 13
	}
	return keep, crashfs.ErrInjected
}

func (f *fault) String() string {
	return fmt.Sprintf("call %d (%s %s; short: %v, full: %v)", f.at, f.failed.Op, f.failed.Name, f.short, f.full)
}

// life opens a store, writes to it and closes it, twice. It returns the history and the first
// error. After an error, every Commit must fail. If settle is false, it commits batches while
// snapshots are in progress.
func life(t *testing.T, fs *crashfs.FS, settle bool) (*history, error) {
	t.Helper()
	w := writer{rng: rand.New(rand.NewPCG(1, 2)), value: 200, batch: 3, later: 0.3}
	h := &history{start: map[string]string{}, acks: []ack{{}}}
	for range 2 {
		j := store.OpenOn(fs, 1<<10)
		_, err := load(j)
		for range 3 {
			if err == nil {
				err = w.write(j, fs, h, 10)
			}
			if err == nil && settle {
				err = j.Settle()
			}
		}
		if err != nil {
			for range 2 {
				if again := j.Commit(put("/x", "x")); again == nil || !errors.Is(err, crashfs.ErrInjected) {
					t.Errorf("commit after %v: %v", err, again)
				}
			}
		}
		if closing := j.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return h, err
		}
		h.synced = len(h.batches)
	}
	return h, nil
}

// Any call fails, or is partly done, or finds the disk full for the first time. The error names
// the operation and the file. Nothing is written to the journal afterwards, and no file stays
// open. The next start has everything that was acknowledged, even if power fails then.
func TestFailedCallsLoseNothing(t *testing.T) {
	for _, settle := range []bool{true, false} {
		t.Run(fmt.Sprint("settle ", settle), func(t *testing.T) { failCalls(t, settle) })
	}
}

func failCalls(t *testing.T, settle bool) {
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	clean := &fault{}
	fs := crashfs.New(nil)
	fs.Fail = clean.fail
	if _, err := life(t, fs, settle); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	tried, reported := 0, 0
	for at := 1; at <= clean.calls; at++ {
		for _, f := range []*fault{{at: at}, {at: at, short: true}, {at: at, full: true}} {
			fs := crashfs.New(nil)
			fs.Fail = f.fail
			h, err := life(t, fs, settle)
			if !f.hit {
				continue // this run had fewer calls
			}
			tried++
			switch {
			case err != nil:
				reported++
				if !errors.Is(err, crashfs.ErrInjected) || !strings.Contains(err.Error(), crashfs.Dir) ||
					!f.full && !strings.Contains(err.Error(), f.failed.Op+" "+crashfs.Dir) {
					t.Errorf("%v: %v; want operation and path", f, err)
				}
				for _, c := range f.again {
					if f.failed.Changes() && f.failed.Op != "truncate" && (c.Op == "write" || c.Op == "sync") && c.Name == f.failed.Name && !strings.HasSuffix(c.Name, ".tmp") {
						t.Errorf("%v: %s %s was tried after the failure", f, c.Op, c.Name)
					}
				}
			case f.failed.Op == "remove" && strings.HasSuffix(f.failed.Name, ".tmp"): // the next start removes it
			case f.failed.Changes() && f.failed.Op != "truncate", f.failed.Op == "open" && f.failed.Name != store.WitnessFile:
				t.Errorf("%v: the failure was not reported", f)
			}
			if n := fs.StillOpen(); n != 0 {
				t.Errorf("%v: %d files are still open", f, n)
			}
			fs.Fail = nil
			check := func(what string, on *crashfs.FS, atLeast int) int {
				j := store.OpenOn(on, 1<<10)
				c, err := load(j)
				n := 0
				if err == nil {
					n, err = h.check(c.nodes, atLeast)
				}
				if err != nil {
					t.Errorf("%v: %s: %v", f, what, err)
				}
				j.Close()
				return n
			}
			at := h.acknowledged(fs.Now())
			power := crashfs.New(fs.Image(fs.Now(), rng))
			power.BootID = nextBoot()
			check("power fails", power, h.synced)
			n := check("next start", fs, at.written)
			power = crashfs.New(fs.Image(fs.Now(), rng))
			power.BootID = nextBoot()
			check("next start, and power fails", power, n)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	t.Logf("%d failures of %d calls, %d reported, nothing lost", tried, clean.calls, reported)
}

// After a failed sync, the kernel may mark pages clean that are not on disk. The next process
// reads them and relies on them, so it must write them again.
func TestBytesThatASyncHasDroppedAreWrittenAgain(t *testing.T) {
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<14)
	mustLoad(t, j)
	mustCommit(t, j, put("/a", "a"))
	fs.Fail = func(c crashfs.Call) (int, error) {
		if c.Op == "sync" {
			return 0, crashfs.ErrInjected
		}
		return 0, nil
	}
	if err := j.Commit(put("/b", "b")); !errors.Is(err, crashfs.ErrInjected) {
		t.Fatalf("commit: %v", err)
	}
	fs.Fail = nil
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = store.OpenOn(fs, 1<<14)
	if c := mustLoad(t, j); c.nodes["/b"] != "b" {
		t.Fatalf("nodes: %q", c.nodes)
	}
	mustClose(t, j)
	for i := range uint64(50) {
		j := store.OpenOn(crashfs.New(fs.Image(fs.Now(), rand.New(rand.NewPCG(i, 0)))), 1<<14)
		if c, err := load(j); err != nil || c.nodes["/b"] != "b" {
			t.Fatalf("power failed after the start that had found it: %v, %q", err, c.nodes)
		}
		mustClose(t, j)
	}
}
