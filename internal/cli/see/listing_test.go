package see

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// ls of many locks is bounded in memory and in requests under way.
func TestLsOfManyLocks(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 locks")
	}
	const locks = 10_000
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	ctx := t.Context()
	for _, path := range []string{"/holdfast", "/holdfast/locks"} {
		if _, _, err := c.Create(ctx, path, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < locks; i += 100 {
		var ops []zk.Op
		for n := i; n < i+100; n++ {
			dir := fmt.Sprintf("/holdfast/locks/lock%05d", n)
			ops = append(ops, zk.CreateOp(dir, nil, zk.Container), zk.CreateOp(dir+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte(`{"owner":"ann@web1:100"}`), zk.EphemeralSequential))
		}
		if _, err := c.Pipeline(ctx, ops...); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	found, err := Query{Prefix: "/holdfast/locks/", Namespace: "/"}.Read(ctx, c)
	took := time.Since(began)
	if err != nil || len(found) != locks {
		t.Fatalf("%d locks, %v", len(found), err)
	}
	var printed bytes.Buffer
	g := &conn.Flags{Namespace: "/holdfast/locks"}
	if err := term.Show(&printed, &term.Printer{Format: "json"}, Listing(g.LockName, found, time.Now())); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(found)
	t.Logf("%d locks in %v; the process got %d MiB from the system meanwhile; %d MiB of JSON", locks, took,
		(after.Sys-before.Sys)>>20, printed.Len()>>20)
	if grown := after.Sys - before.Sys; grown > 256<<20 {
		t.Errorf("ls of %d locks took %d MiB", locks, grown>>20)
	}
}

// kazoo keeps the queue of a semaphore beside it. ls shows the two as one, also when the semaphore is free.
func TestKazoosSemaphoreIsOneLock(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	ctx := t.Context()
	sem := holdfast.NewSemaphore(c, "/locks/pool", 2, holdfast.WithLayout(layout.Kazoo))
	h, err := sem.Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1/2 held", "0/2 free"} {
		found, err := Query{Prefix: "/locks/", Namespace: "/", Layout: locks.Compiled(layout.Kazoo)}.Read(ctx, c)
		if err != nil || len(found) != 1 || found[0].Path != "/locks/pool" || found[0].Permits.String()+" "+found[0].State() != want {
			t.Errorf("got %+v, %v; want the semaphore, %s", found, err, want)
		}
		if err := h.Unlock(); err != nil && want == "1/2 held" {
			t.Fatal(err)
		}
	}
}

// The server throttles: the reads are sent again. An expired session of a command that only reads is no lost lock.
func TestReadsAreSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		h, err := holdfast.NewSemaphore(c, "/locks/pool", 1).Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Unlock()
		for _, op := range []zkproto.Op{zkproto.OpMultiRead, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists} {
			n := 0
			srv.Intercept(op, func(string) zktest.Action {
				if n++; n <= 6 {
					return zktest.Throttle
				}
				return zktest.Pass
			})
		}
		found, err := Query{Prefix: "/locks/", Namespace: "/"}.Read(t.Context(), c)
		if err != nil || len(found) != 1 || found[0].Permits.String() != "1/1" {
			t.Errorf("ls: %+v, %v", found, err)
		}
	})
}
