package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/internal/waitgraph"
	"holdfast/layout"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func newServer(t *testing.T) *zktest.Server {
	srv := zktest.NewServer()
	t.Cleanup(srv.Close)
	return srv
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sessionOf(t *testing.T, c *zk.Client) int64 {
	t.Helper()
	s, err := c.Session(t.Context())
	must(t, err)
	return s.ID()
}

// waitBehind lets a client wait for a lock until the test ends, and returns when its node is there: when a
// survey shows one more place.
func waitBehind(t *testing.T, c *zk.Client, l holdfast.Locker) {
	t.Helper()
	before := places(survey(t, c, nil).Graph())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h, err := l.Lock(ctx); err == nil {
			t.Error("the waiter has acquired the lock")
			h.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	for places(survey(t, c, nil).Graph()) == before {
		time.Sleep(time.Millisecond)
	}
}

func places(locks []waitgraph.Lock) (n int) {
	for _, l := range locks {
		n += len(l.Queue) + len(l.Permits)
	}
	return n
}

func survey(t *testing.T, c *zk.Client, layout *Layout) *Survey {
	t.Helper()
	s, err := Read(t.Context(), c, Query{Prefix: "/", Layout: layout})
	must(t, err)
	return s
}

// sketch writes a lock as text: the letters are the sessions, in the order given.
func sketch(l waitgraph.Lock, sessions ...int64) string {
	letters := func(all []waitgraph.Place) string {
		var b strings.Builder
		for _, p := range all {
			letter := rune('a' + slices.Index(sessions, p.Session))
			if p.Shared {
				letter += 'A' - 'a'
			}
			b.WriteRune(letter)
			if p.Idle {
				b.WriteRune('~')
			}
		}
		return b.String()
	}
	s := fmt.Sprintf("%s %s %s %s", l.Kind, l.Layout, l.Path, letters(l.Queue))
	if l.Counted {
		s += fmt.Sprintf(" permits %s of %d", letters(l.Permits), l.Limit)
	}
	return s
}

func wantLocks(t *testing.T, got []waitgraph.Lock, sessions []int64, want ...string) {
	t.Helper()
	var all []string
	for _, l := range got {
		all = append(all, sketch(l, sessions...))
	}
	if !slices.Equal(all, want) {
		t.Errorf("locks\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	}
}

// The names of the nodes tell the layout, and the order is that of the queue.
func TestEveryLayoutIsRecognized(t *testing.T) {
	for _, tt := range []struct {
		layout holdfast.Layout
		label  string
	}{
		{layout.Curator, "curator"}, {layout.LeaderLatch, "leaderlatch"}, {layout.Kazoo, "kazoo"},
		{layout.GoZookeeper, "curator"}, // the names are of Curator's form
		{layout.WriteLock, "writelock"}, {layout.HostRW, "hostrw"}, {layout.SessionID, "sessionid"},
		{layout.Article, "article"}, {layout.Named("db"), "named:db"},
	} {
		t.Run(tt.layout.Name, func(t *testing.T) {
			srv := newServer(t)
			a, b := srv.Client(), srv.Client()
			_, err := holdfast.NewMutex(a, "/x/lock", holdfast.WithLayout(tt.layout), holdfast.WithOwner("me"), holdfast.WithReason("work"), lend.WithinSession(7).(holdfast.Option)).Lock(t.Context())
			must(t, err)
			waitBehind(t, b, holdfast.NewMutex(b, "/x/lock", holdfast.WithLayout(tt.layout)))
			s := survey(t, a, nil)
			wantSame(t, a, s.Graph())
			idle := ""
			if tt.label == "leaderlatch" {
				idle = "~"
			}
			wantLocks(t, s.Graph(), []int64{sessionOf(t, a), sessionOf(t, b)}, "lock "+tt.label+" /x/lock ab"+idle)
			if p := s.Graph()[0].Queue[0]; p.Owner != "me" || p.Reason != "work" || p.Within != 7 || p.Zxid == 0 || p.Since.IsZero() {
				t.Errorf("place %+v", p)
			}
			again, err := Again(t.Context(), a, s.Graph(), nil)
			must(t, err)
			if g := waitgraph.Stable(s.Graph(), again); places(g) != 2 {
				t.Errorf("%d places are the same in the second reading; want 2", places(g))
			}
		})
	}
}

// Permits and slots that a client has taken at once are one holder. The place of a slot tells its number.
func TestHoldersOfSeveral(t *testing.T) {
	srv := newServer(t)
	a, b := srv.Client(), srv.Client()
	hold := func(l holdfast.Locker) {
		_, err := l.Lock(t.Context())
		must(t, err)
	}
	hold(holdfast.NewSemaphore(a, "/pool", 6).Locker(2))
	hold(holdfast.NewSemaphore(a, "/pool", 6).Locker(1))
	hold(holdfast.NewSemaphore(b, "/pool", 6).Locker(3))
	hold(holdfast.NewSlots(a, "/gpu", 4).Locker(2, 1, 3))
	hold(holdfast.NewSlots(b, "/gpu", 4).Locker(1))
	hold(holdfast.NewRWMutex(a, "/rw").RLocker())
	hold(holdfast.NewRWMutex(b, "/rw").RLocker())
	hold(holdfast.NewMutex(a, "/slots"))
	for _, l := range survey(t, a, nil).Locks {
		var numbers []int
		for _, p := range l.Queue {
			if number, ok := p.Slot(); ok {
				numbers = append(numbers, number)
			}
		}
		got := fmt.Sprintf("%s: %d places, %d holders, slots %v", l.Path, l.Holders(), l.Tenures(), numbers)
		want := map[string]string{
			"/pool":  "/pool: 6 places, 3 holders, slots []",
			"/gpu":   "/gpu: 3 places, 2 holders, slots [0 1 3]",
			"/rw":    "/rw: 2 places, 2 holders, slots []",
			"/slots": "/slots: 1 places, 1 holders, slots []",
		}
		if got != want[l.Path] {
			t.Errorf("%s; want %s", got, want[l.Path])
		}
	}
}

func TestKinds(t *testing.T) {
	srv := newServer(t)
	a, b := srv.Client(), srv.Client()
	sessions := []int64{sessionOf(t, a), sessionOf(t, b)}
	hold := func(l holdfast.Locker) *holdfast.Hold {
		h, err := l.Lock(t.Context())
		must(t, err)
		return h
	}
	hold(holdfast.NewSemaphore(a, "/pool", 2).Locker(2))
	waitBehind(t, b, holdfast.NewSemaphore(b, "/pool", 2).Locker(1))
	kazoo := holdfast.WithLayout(layout.Kazoo)
	hold(holdfast.NewSemaphore(a, "/kpool", 1, kazoo).Locker(1))
	waitBehind(t, b, holdfast.NewSemaphore(b, "/kpool", 1, kazoo).Locker(1))
	hold(holdfast.NewSlots(a, "/ids", 1).Locker(1))
	waitBehind(t, b, holdfast.NewSlots(b, "/ids", 1).Locker(1))
	hold(holdfast.NewNodeLock(a, "/node"))
	// A writer that has taken the read side, too, has one place.
	w := hold(holdfast.NewRWMutex(a, "/rw"))
	_, err := holdfast.NewRWMutex(a, "/rw").RLock(w.Context())
	must(t, err)
	waitBehind(t, b, holdfast.NewRWMutex(b, "/rw").RLocker())
	hold(holdfast.NewTree(a, "/tree").Path("x/y"))
	want := []string{
		"slots curator /ids b permits a of 1",
		"semaphore kazoo /kpool b permits a of 1",
		"node  /node a",
		"semaphore curator /pool b permits aa of 2",
		"lock curator /rw aB",
		"tree curator /tree A",
		"tree curator /tree/x A",
		"tree curator /tree/x/y a",
	}
	s := survey(t, a, nil)
	wantLocks(t, s.Graph(), sessions, want...)
	wantSame(t, a, s.Graph())
	if len(s.Strange) > 0 {
		t.Errorf("strange: %v", s.Strange)
	}
	again, err := Again(t.Context(), a, s.Graph(), nil)
	must(t, err)
	wantLocks(t, again, sessions, want...)
	// A part of the tree, and one layout.
	part, err := Read(t.Context(), a, Query{Prefix: "/k"})
	must(t, err)
	wantLocks(t, part.Graph(), sessions, want[1])
	part, err = Read(t.Context(), a, Query{Prefix: "/rw", Layout: &Layout{Name: "hostrw", Exclusive: []string{"*-W-"}}})
	must(t, err)
	wantLocks(t, part.Graph(), sessions)
	none, err := Read(t.Context(), a, Query{Prefix: "/none/at/all/"})
	must(t, err)
	wantLocks(t, none.Graph(), sessions)
}

// The workers of a Shards queue to lead and for shards that move, and work meanwhile.
func TestShardsDoNotWait(t *testing.T) {
	srv := newServer(t)
	a, b := srv.Client(), srv.Client()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for _, c := range []*zk.Client{a, b} {
		go func() {
			done <- shards.New(c, "/pool", 2).Run(ctx, func(ctx context.Context, _ shards.Shard) error { <-ctx.Done(); return nil })
		}()
	}
	defer func() {
		cancel()
		<-done
		<-done
	}()
	workers := func() *waitgraph.Lock { // when there are two, and shards
		all := survey(t, a, nil).Graph()
		i := slices.IndexFunc(all, func(l waitgraph.Lock) bool { return l.Path == "/pool/workers" && len(l.Queue) == 2 })
		if i < 0 || !strings.HasPrefix(all[0].Path, "/pool/shards/") {
			return nil
		}
		return &all[i]
	}
	l := workers()
	for ; l == nil; l = workers() {
		time.Sleep(time.Millisecond)
	}
	if l.Queue[0].Idle || !l.Queue[1].Idle {
		t.Errorf("%+v; want a worker that leads, and an idle one", l.Queue)
	}
}

// make creates ephemeral nodes by hand, as another library would.
func makeNodes(t *testing.T, c *zk.Client, paths ...string) {
	t.Helper()
	for _, path := range paths {
		for i := range path {
			if i > 0 && path[i] == '/' {
				if _, ok, err := c.Exists(t.Context(), path[:i]); err == nil && !ok {
					_, _, err = c.Create(t.Context(), path[:i], nil, zk.Persistent)
					must(t, err)
				}
			}
		}
		_, _, err := c.Create(t.Context(), path, []byte("10.0.0.5"), zk.Ephemeral)
		must(t, err)
	}
}

func TestNodesOfOtherLibraries(t *testing.T) {
	const uuid, hex = "6266cbe9-453b-4a50-8718-b39f57879b6e", "6266cbe9453b4a508718b39f57879b6e"
	srv := newServer(t)
	a, b := srv.Client(), srv.Client()
	sessions := []int64{sessionOf(t, a), sessionOf(t, b)}
	// go-zookeeper respects kazoo's nodes: one queue. Curator and kazoo ignore each other: two.
	makeNodes(t, a, "/mixed/_c_"+hex+"-lock-0000000001", "/two/_c_"+uuid+"-lock-0000000001")
	makeNodes(t, b, "/mixed/"+hex+"__lock__0000000002", "/two/"+hex+"__lock__0000000002")
	// Curator's semaphore makes the node of the permit, and then waits. It stores no limit.
	makeNodes(t, a, "/sem/leases/_c_"+uuid+"-lease-0000000000")
	makeNodes(t, b, "/sem/locks/_c_"+uuid+"-lock-0000000001", "/sem/leases/_c_"+uuid+"-lease-0000000001")
	// kazoo's permits have no numbers, but the hexadecimal digits may end like one.
	makeNodes(t, a, "/pool/"+hex[:22]+"0745638386")
	makeNodes(t, b, "/pool-__lock__/"+hex+"__lock__0000000001")
	// Somebody has stored a limit, which Curator does not know: two of two permits are in use, and a third is
	// pending. Below the limit, a permit is granted.
	for _, path := range []string{"/lim", "/low"} {
		makeNodes(t, a, path+"/leases/_c_"+uuid+"-lease-0000000000")
		_, err := a.Set(t.Context(), path, []byte("2"), zk.AnyVersion)
		must(t, err)
	}
	makeNodes(t, b, "/lim/leases/_c_"+uuid+"-lease-0000000001")
	for _, path := range []string{"/lim", "/low"} {
		makeNodes(t, b, path+"/locks/_c_"+uuid+"-lock-0000000001", path+"/leases/_c_"+uuid+"-lease-0000000002")
	}
	// Two named locks in one directory.
	makeNodes(t, a, "/names/one_lock_0000000001", "/names/two_lock_0000000002")
	// No place that anybody knows, and no place at all. A node of doctor is neither, nor is one of a Once.
	makeNodes(t, b, "/once/"+queue.OnceShard+"a/key/begun")
	makeNodes(t, b, "/odd/mine-0000000001", "/odd/service", "/odd/.holdfast-doctor-10002", "/odd/.holdfast-doctor-1000000000020000")
	s := survey(t, a, nil)
	wantLocks(t, s.Graph(), sessions,
		"semaphore curator /lim b permits ab of 2",
		"semaphore curator /low b permits ab of 2",
		"lock go-zookeeper /mixed ab",
		"lock named:one /names a",
		"lock named:two /names a",
		"node  /odd/service b",
		"semaphore kazoo /pool b permits a of 0",
		"semaphore curator /sem b permits a of 0",
		"lock curator /two a",
		"lock kazoo /two b",
	)
	wantSame(t, a, s.Graph())
	if !slices.Equal(s.Strange, []string{"/odd/mine-0000000001"}) {
		t.Errorf("strange: %v", s.Strange)
	}
	if p := s.Graph()[2].Queue[0]; p.Owner != "10.0.0.5" {
		t.Errorf("owner %q", p.Owner)
	}
	own := survey(t, a, &Layout{Name: "form:mine-", Mutex: "mine-", Exclusive: []string{"mine-"}})
	wantLocks(t, own.Graph()[:1], sessions, "lock form:mine- /odd b")
}

// A node that goes away between the list and the reads is left out, also one that is a directory.
func TestNodesThatGoAway(t *testing.T) {
	srv := newServer(t)
	a, b := srv.Client(), srv.Client()
	makeNodes(t, a, "/lock/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-0000000001")
	makeNodes(t, b, "/lock/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-0000000002")
	s := survey(t, b, nil)
	must(t, a.Close())
	gone, err := Again(t.Context(), b, s.Graph(), nil)
	must(t, err)
	if places(waitgraph.Stable(s.Graph(), gone)) != 1 {
		t.Errorf("%+v; want the waiter alone", gone)
	}
	moved := s.Graph()
	moved[0].Dirs = []string{"/nowhere"}
	gone, err = Again(t.Context(), b, moved, nil)
	must(t, err)
	if len(gone) != 0 {
		t.Errorf("%+v; want nothing", gone)
	}
}

// Answers that are too long for one message, and servers that do not answer a multi-read: the survey reads the
// nodes one by one.
func TestServersWithoutMultiRead(t *testing.T) {
	for name, action := range map[string]zktest.Action{"long answers": zktest.Pass, "the connection breaks": zktest.DropReply, "it throttles": zktest.Throttle} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			c := srv.Client()
			for i := range 150 {
				_, _, err := c.Create(t.Context(), fmt.Sprintf("/l%d", i), nil, zk.Persistent)
				must(t, err)
				_, _, err = c.Create(t.Context(), fmt.Sprintf("/l%d/x-lock-", i), make([]byte, 20_000), zk.EphemeralSequential)
				must(t, err)
			}
			srv.Intercept(zkproto.OpMultiRead, func(string) zktest.Action { return action })
			if got := places(survey(t, c, nil).Graph()); got != 150 {
				t.Errorf("%d places; want 150", got)
			}
		})
	}
}

// Nodes that we may not read are told: a directory, and a place in a queue. The lock of that place is left out: the next one
// in its queue does not hold it.
func TestNodesThatWeMayNotRead(t *testing.T) {
	srv := newServer(t)
	c := srv.Client()
	makeNodes(t, c, "/a/x-lock-0000000001", "/b/x-lock-0000000001", "/b/x-lock-0000000002", "/c/x-lock-0000000001")
	secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
	for _, path := range []string{"/a", "/b/x-lock-0000000001"} {
		_, err := c.SetACL(t.Context(), path, []zk.ACL{secret}, zk.AnyVersion)
		must(t, err)
	}
	s := survey(t, c, nil)
	wantLocks(t, s.Graph(), []int64{sessionOf(t, c)}, "lock curator /c a")
	if !slices.Equal(s.Denied, []string{"/a", "/b/x-lock-0000000001"}) {
		t.Errorf("denied: %v", s.Denied)
	}
	if _, err := Read(t.Context(), c, Query{Prefix: "/a/"}); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("%v; want ErrNoAuth, since nothing can be read", err)
	}
}
