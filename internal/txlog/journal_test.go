package txlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/txlog"
	"holdfast/zk"
	"holdfast/zklocal"
)

// An account is what the observers of locks say.
type account struct {
	mu    sync.Mutex
	lines []string
}

func (a *account) add(what string, e holdfast.Event) {
	if e.Hold == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf("%s %s %d", e.Path, what, e.Hold.Token()))
}

func (a *account) observer() holdfast.Option {
	return holdfast.WithObserver(&holdfast.Observer{
		Acquired: func(_ context.Context, e holdfast.Event) { a.add("acquired", e) },
		Released: func(_ context.Context, e holdfast.Event) { a.add("over", e) },
	})
}

// readStore reads the journals in dir.
func readStore(t *testing.T, dir string) (events []txlog.Event, now []txlog.Event) {
	t.Helper()
	before := files(t, dir)
	now, err := txlog.Read(txlog.Config{
		Dirs: []string{dir}, Warn: func(err error) { t.Error(err) },
		Report: func(e txlog.Event) error { events = append(events, e); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("reading has changed the directory: %q, and before %q", after, before)
	}
	return events, now
}

// files describes the files in the store.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Name(), info.Size(), info.ModTime()))
	}
	return all
}

func dial(t *testing.T, store *zklocal.Store) *zk.Client {
	t.Helper()
	c, err := zk.Dial(t.Context(), store.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func openStore(t *testing.T, dir string) *zklocal.Store {
	t.Helper()
	store, err := zklocal.Open(zklocal.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// The journals of a server tell what the clients' observers tell, while it runs and after it has ended. Nobody has to write
// anything beside.
func TestJournalsTellWhatObserversSaw(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	store := openStore(t, dir)
	one, two := dial(t, store), dial(t, store)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen account
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lock := func(c *zk.Client, path, owner string) *holdfast.Hold {
		h, err := holdfast.NewMutex(c, path, holdfast.WithOwner(owner), seen.observer()).Lock(ctx)
		must(err)
		return h
	}
	for range 3 {
		ann := lock(one, "/locks/job", "ann")
		next := make(chan *holdfast.Hold)
		go func() {
			h, _ := holdfast.NewMutex(two, "/locks/job", holdfast.WithOwner("bob"), seen.observer()).Lock(ctx)
			next <- h
		}()
		for {
			list, err := holdfast.List(ctx, one, "/locks/job")
			must(err)
			if len(list) == 2 {
				break
			}
		}
		must(ann.Unlock())
		bob := <-next
		must(bob.Unlock())
		permits, err := holdfast.NewSemaphore(one, "/locks/pool", 3, holdfast.WithOwner("eve"), seen.observer()).Acquire(ctx, 2)
		must(err)
		must(permits.Unlock())
	}
	lock(two, "/locks/last", "dan")
	must(two.Close())

	check := func() {
		t.Helper()
		events, now := readStore(t, dir)
		var got, ended []string
		for _, e := range events {
			line := fmt.Sprintf("%s %s %d", e.Lock, e.Type, e.Place.Token)
			switch {
			case e.Lock == "/locks/pool/locks": // the turnstile of the first waiter, while there are no permits yet, looks like a lock
				continue
			case e.Type == txlog.Acquired:
			case e.Type == txlog.Gone && e.Place.Held:
				line = fmt.Sprintf("%s over %d", e.Lock, e.Place.Token)
			case e.Type == txlog.Ended:
				ended = append(ended, e.Lock+" "+e.Place.Owner)
				continue
			default:
				continue
			}
			if e.Place.Owner == "" || e.At.IsZero() || time.Since(e.At) > time.Minute {
				t.Errorf("%+v", e)
			}
			got = append(got, line)
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		want := slices.DeleteFunc(slices.Clone(seen.lines), func(l string) bool { return strings.HasPrefix(l, "/locks/last over") })
		// A handoff is one commit: whose line is first does not matter.
		slices.Sort(got)
		slices.Sort(want)
		if got := slices.Compact(got); !slices.Equal(got, want) || !slices.Equal(ended, []string{"/locks/last dan"}) || len(now) > 0 {
			t.Errorf("the journals tell\n%s\nthe observers\n%s\nended %q, there at the end %v", strings.Join(got, "\n"), strings.Join(want, "\n"), ended, now)
		}
	}
	check()
	must(one.Close())
	must(store.Close())
	check()
}

// The history begins with the last snapshot of the store. The holders of that moment are known.
func TestJournalsBeginWithTheSnapshot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := dial(t, openStore(t, dir))
	h, err := holdfast.NewMutex(c, "/locks/job", holdfast.WithOwner("ann")).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 500_000)
	if _, _, err := c.Create(t.Context(), "/data", data, zk.Persistent); err != nil {
		t.Fatal(err)
	}
	snapshots := func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "store", "*.snapshot"))
		return err == nil && len(found) > 0
	}
	for !snapshots() {
		if _, err := c.Set(t.Context(), "/data", data, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	var events, now []txlog.Event
	begun := func() bool { return len(events) == 1 }
	for deadline := time.Now().Add(10 * time.Second); !begun() && time.Now().Before(deadline); { // it may be merging
		events, now = nil, nil
		now, err = txlog.Read(txlog.Config{Dirs: []string{dir}, Report: func(e txlog.Event) error { events = append(events, e); return nil }})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !begun() || events[0].Type != txlog.Acquired || !events[0].Since || events[0].Place.Token != h.Token() || len(now) != 1 {
		t.Errorf("got %+v, at the end %+v", events, now)
	}
}

// A holdfast server has transactions of its own, so its directory is read alone.
func TestJournalsAreReadAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	store := openStore(t, dir)
	dial(t, store).Close()
	_, err := txlog.Read(txlog.Config{Dirs: []string{dir, t.TempDir()}})
	if !errors.Is(err, txlog.ErrSeveral) {
		t.Errorf("got %v", err)
	}
}
