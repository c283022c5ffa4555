//go:build unix

package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/txlog"
	"holdfast/interop/peers"
	layouts "holdfast/layout"
	"holdfast/zk"
)

// The logs of a server tell every place in every queue: who had the lock, until when, and how it ended.
func TestLogsTellWhoHeldTheLock(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart+stepTime)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 1})
	closing(t, z, err)
	one := dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = 6 * time.Second })
	two := dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = 6 * time.Second })

	lock := func(c *zk.Client, path, owner string, opts ...holdfast.Option) *holdfast.Hold {
		h, err := holdfast.NewMutex(c, path, append(opts, holdfast.WithOwner(owner))...).Lock(ctx)
		must(t, err)
		return h
	}
	// ann has the lock, and bob gets it after cid has given up.
	ann := lock(one, "/logs/a", "ann")
	waiting, stop := context.WithCancel(ctx)
	gaveUp := make(chan error)
	go func() {
		_, err := holdfast.NewMutex(two, "/logs/a", holdfast.WithOwner("cid")).Lock(waiting)
		gaveUp <- err
	}()
	inLine := func(n int) {
		for {
			list, err := holdfast.List(ctx, one, "/logs/a")
			must(t, err)
			if len(list) == n {
				return
			}
			pause(ctx, 5*time.Millisecond)
		}
	}
	inLine(2)
	next := make(chan *holdfast.Hold)
	go func() { next <- lock(two, "/logs/a", "bob") }()
	inLine(3)
	stop()
	<-gaveUp
	inLine(2)
	at := time.Now()
	pause(ctx, 20*time.Millisecond)
	must(t, ann.Unlock())
	bob := <-next
	must(t, holdfast.Break(ctx, one, "/logs/a", bob.Token()))
	<-bob.Lost()
	// A lock of kazoo's form, a permit, and a session that is closed with a lock.
	lock(two, "/logs/k", "dan", holdfast.WithLayout(layouts.Kazoo))
	permit, err := holdfast.NewSemaphore(one, "/logs/s", 2, holdfast.WithOwner("eve")).Acquire(ctx, 2)
	must(t, err)
	must(t, permit.Unlock())
	must(t, two.Close())

	read := func(until time.Time) (lines, there []string) {
		cfg := txlog.Config{
			Dirs: z.DataDirs(), Until: until, Warn: func(err error) { t.Error(err) },
			Report: func(e txlog.Event) error {
				lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s %s %s %d", e.Lock, e.Type, e.Place.Owner, e.Place.Token), " 0"))
				if e.Type == txlog.Removed && e.By == 0 {
					t.Errorf("%v does not say by whom", e)
				}
				return nil
			},
		}
		now, err := txlog.Read(cfg)
		must(t, err)
		for _, e := range now {
			there = append(there, fmt.Sprintf("%s %s %s", e.Lock, e.Type, e.Place.Owner))
		}
		return lines, there
	}
	lines, there := read(time.Time{})
	if len(there) != 0 {
		t.Errorf("still there at the end: %v", there)
	}
	for i, l := range lines {
		lines[i] = l[:strings.LastIndexByte(l, ' ')]
	}
	want := []string{
		"/logs/a joined ann", "/logs/a acquired ann", "/logs/a joined cid", "/logs/a joined bob", "/logs/a left cid",
		"/logs/a released ann", "/logs/a acquired bob", "/logs/a removed bob",
		"/logs/k joined dan", "/logs/k acquired dan",
		"/logs/s joined eve", "/logs/s acquired eve", "/logs/s released eve",
		"/logs/k closed dan",
	}
	if got := strings.Join(slices.Compact(lines), "\n"); !inOrder(lines, want) {
		t.Errorf("got\n%s\nwant, among others,\n%s", got, strings.Join(want, "\n"))
	}
	if _, there := read(at); !slices.Equal(there, []string{"/logs/a acquired ann", "/logs/a joined bob"}) {
		t.Errorf("at %v: %v", at, there)
	}
}

// inOrder reports whether lines has those of want, in this order.
func inOrder(lines, want []string) bool {
	for _, l := range lines {
		if len(want) > 0 && l == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}
