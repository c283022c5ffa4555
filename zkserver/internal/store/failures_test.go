package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// A fault makes one call fail and, if full is set, every later change of the disk.
type fault struct {
	at    int // number of the call; 0: none
	err   error
	short bool
	full  bool // the disk is full from then on

	mu      sync.Mutex
	calls   int
	failed  crashfs.Call
	hit     bool
	loading bool           // a start is under way
	atLoad  bool           // so it was at that call
	again   []crashfs.Call // changes that the store tried afterwards
}

func (f *fault) fail(c crashfs.Call) (keep int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	switch {
	case f.at == 0 || f.calls < f.at:
		return 0, nil
	case f.calls == f.at:
		f.failed, f.hit, f.atLoad = c, true, f.loading
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
	return keep, f.err
}

func (f *fault) String() string {
	return fmt.Sprintf("call %d (%s %s: %v; short: %v, full: %v)", f.at, f.failed.Op, f.failed.Name, f.err, f.short, f.full)
}

// stops reports whether the failed call is one of those that the store cannot do without: of the current journal, of
// the name of the next one, of the witness, or of a start.
func (f *fault) stops() bool {
	c := f.failed
	switch {
	case f.atLoad, c.Op == "syncdir", c.Name == store.WitnessFile:
		return true
	case strings.HasSuffix(c.Name, ".journal"):
		return c.Op != "open" && c.Op != "read" && c.Op != "remove" && c.Op != "truncate"
	case strings.HasSuffix(c.Name, ".journal.tmp"):
		return c.Op == "rename"
	}
	return false
}

// life opens a store, writes to it and closes it, twice. It returns the history and the first
// error. After an error, every Commit must fail. If settle is false, it commits batches while
// snapshots are in progress. At the end of each round there is time for another attempt.
func life(t *testing.T, fs *crashfs.FS, start map[string]string, settle bool, f *fault) (*history, error) {
	t.Helper()
	w := writer{rng: rand.New(rand.NewPCG(1, 2)), value: 200, batch: 3, later: 0.3}
	h := &history{start: start, acks: []ack{{}}}
	for range 2 {
		j := store.OpenOn(fs, 1<<10)
		was := f.hit
		f.loading = true
		_, err := load(j)
		f.loading = false
		for range 3 {
			if err == nil {
				err = w.write(j, fs, h, 10)
			}
			if err == nil && settle {
				err = j.Settle()
			}
		}
		_, trouble := j.Trouble()
		for n := 0; err == nil && (n < 2 || trouble != nil && n < 5); n++ {
			time.Sleep(time.Minute)
			if err = w.write(j, fs, h, 2); err == nil {
				err = j.Settle()
			}
			_, trouble = j.Trouble()
		}
		if err == nil && trouble != nil && !f.full {
			t.Errorf("%v: %v is still reported after another attempt", f, trouble)
		}
		if err != nil {
			for range 2 {
				if again := j.Commit(put("/x", "x")); again == nil || !errors.Is(err, f.err) {
					t.Errorf("commit after %v: %v", err, again)
				}
			}
		}
		if failures, _ := j.Trouble(); f.hit && !was && err == nil && failures == 0 && f.failed.Changes() && !f.stops() && f.failed.Op != "truncate" && f.failed.Op != "remove" {
			t.Errorf("%v: the failure was not reported", f)
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

// Any call fails, or is partly done, or finds the disk full for the first time. If the store can do without it, it tries
// again, and loses nothing. Otherwise Commit fails. Then the error names the operation and the file, and nothing is written
// to the journal afterwards. No file stays open. The next start has everything that was acknowledged, even if power fails
// then. A store of format 3 is no exception.
func TestFailedCallsLoseNothing(t *testing.T) {
	for _, settle := range []bool{true, false} {
		for _, format := range []int{store.Format, 3} {
			t.Run(fmt.Sprint("settle ", settle, " format ", format), func(t *testing.T) { failCalls(t, settle, format) })
		}
	}
}

func failCalls(t *testing.T, settle bool, format int) {
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	begin := disk{boot: store.BootID{1}, nodes: map[string]string{}}
	if format != store.Format {
		var err error
		if begin, err = older(rng, 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	clean := &fault{}
	live := func(fs *crashfs.FS, f *fault) (h *history, err error) {
		fs.Fail = f.fail
		synctest.Test(t, func(t *testing.T) { h, err = life(t, fs, begin.nodes, settle, f) })
		return h, err
	}
	if _, err := live(crashfs.New(begin.files), clean); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	tried, stopped := 0, 0
	for at := 1; at <= clean.calls; at++ {
		faults := []*fault{{err: syscall.EIO, short: true}, {err: syscall.ENOSPC, full: true}}
		for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
			if faults = append(faults, &fault{err: err}); testing.Short() {
				break
			}
		}
		for _, f := range faults {
			f.at = at
			fs := crashfs.New(begin.files)
			h, err := live(fs, f)
			if !f.hit {
				continue // this run had fewer calls
			}
			tried++
			switch {
			case err != nil:
				stopped++
				if !errors.Is(err, f.err) || !strings.Contains(err.Error(), crashfs.Dir) ||
					!f.full && !strings.Contains(err.Error(), f.failed.Op+" "+crashfs.Dir) {
					t.Errorf("%v: %v; want operation and path", f, err)
				}
				if !f.full && !f.stops() {
					t.Errorf("%v: the store has stopped: %v", f, err)
				}
				for _, c := range f.again {
					if f.failed.Changes() && f.failed.Op != "truncate" && (c.Op == "write" || c.Op == "sync") && c.Name == f.failed.Name && !strings.HasSuffix(c.Name, ".tmp") {
						t.Errorf("%v: %s %s was tried after the failure", f, c.Op, c.Name)
					}
				}
			case f.failed.Op == "syncdir" && !f.atLoad: // that of a snapshot is tried again
			case f.failed.Changes() && f.stops():
				t.Errorf("%v: the store goes on", f)
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
				names, _ := on.List()
				if i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".tmp") }); i >= 0 {
					t.Errorf("%v: %s: %s is left", f, what, names[i])
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
	t.Logf("%d failures of %d calls, the store stopped for %d of them, nothing lost", tried, clean.calls, stopped)
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
