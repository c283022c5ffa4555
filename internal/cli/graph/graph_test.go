package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkserver"
)

// startMemory returns the URL of a server in memory.
func startMemory(t *testing.T) string {
	t.Helper()
	server, err := zkserver.Open(zkserver.Config{Memory: zkserver.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return "zk://" + l.Addr().String()
}

func dialServer(t *testing.T, url string) *zk.Client {
	t.Helper()
	cfg, err := zk.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// graphOf runs graph and returns what it prints and its error.
func graphOf(t *testing.T, url string, args ...string) (string, error) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	g := conn.NewFlags()
	cmd := New(g)
	g.Register(cmd)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"--server", url}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func documentOf(t *testing.T, url string) Document {
	t.Helper()
	text, err := graphOf(t, url, "-o", "json", "/")
	var d Document
	if err == nil {
		err = json.Unmarshal([]byte(text), &d)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return d
}

// kindsInCycles are pairs of the same lock: one to hold, and one that waits for it.
var kindsInCycles = []struct {
	name        string
	hold, await func(c *zk.Client, path string) holdfast.Locker
}{
	{"mutex", newMutexAt, newMutexAt},
	{
		"writer behind a reader",
		func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path).RLocker() },
		func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path) },
	},
	{"semaphore", newPoolAt, newPoolAt},
	{
		"reader behind a writer",
		func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path) },
		func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path).RLocker() },
	},
	{"kazoo's layout", newKazooAt, newKazooAt},
	{"slots", newSlotAt, newSlotAt},
	{
		"multilock",
		func(c *zk.Client, path string) holdfast.Locker {
			return holdfast.NewMultiLock(newMutexAt(c, path), newMutexAt(c, path+"-too"))
		},
		newMutexAt,
	},
	{
		"tree",
		func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewTree(c, path).Path("a/b") },
		func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewTree(c, path).Path("a") },
	},
	{"kazoo's semaphore", newKazooPoolAt, newKazooPoolAt},
	{"election", newElectionAt, newElectionAt},
}

func newMutexAt(c *zk.Client, path string) holdfast.Locker { return holdfast.NewMutex(c, path) }

func newPoolAt(c *zk.Client, path string) holdfast.Locker {
	return holdfast.NewSemaphore(c, path, 1).Locker(1)
}

func newSlotAt(c *zk.Client, path string) holdfast.Locker {
	return holdfast.NewSlots(c, path, 1).Locker(1)
}

func newKazooAt(c *zk.Client, path string) holdfast.Locker {
	return holdfast.NewMutex(c, path, holdfast.WithLayout(layout.Kazoo))
}

func newKazooPoolAt(c *zk.Client, path string) holdfast.Locker {
	return holdfast.NewSemaphore(c, path, 1, holdfast.WithLayout(layout.Kazoo)).Locker(1)
}

func newElectionAt(c *zk.Client, path string) holdfast.Locker {
	return elected{holdfast.NewElection(c, path)}
}

// 2 to 5 sessions hold one lock each and wait for the next one, with all kinds of lock. As long as one wait is
// missing, there is no cycle. When the victim gives up, there is none any more.
func TestPlantedDeadlocksAreFound(t *testing.T) {
	url := startMemory(t)
	kind := 0
	for round := range 2 * len(kindsInCycles) {
		n := 2 + round%4
		dir := fmt.Sprintf("/round%d", round)
		var names []string
		var sessions []string
		clients := make([]*zk.Client, n)
		cancels := make([]context.CancelFunc, n)
		done := make(chan int, n)
		holds := make([]*holdfast.Hold, n)
		for i := range n {
			clients[i] = dialServer(t, url)
			k := kindsInCycles[(kind+i)%len(kindsInCycles)]
			names = append(names, k.name)
			h, err := k.hold(clients[i], fmt.Sprintf("%s/l%d", dir, i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			holds[i], sessions = h, append(sessions, locks.SessionText(h.SessionID()))
		}
		for i := range n {
			if d := documentOf(t, url); len(d.Cycles) != 0 {
				t.Fatalf("%v: a cycle though a wait is missing: %+v", names, d.Cycles)
			}
			j := (i + 1) % n
			k := kindsInCycles[(kind+j)%len(kindsInCycles)]
			ctx, cancel := context.WithCancel(t.Context())
			cancels[i] = cancel
			go func() {
				if h, err := k.await(clients[i], fmt.Sprintf("%s/l%d", dir, j)).Lock(ctx); err == nil {
					h.Unlock()
				}
				done <- i
			}()
			for waiting := 0; waiting <= i; { // its node is there
				waiting = 0
				for _, o := range documentOf(t, url).Owners {
					waiting += len(o.Waits)
				}
			}
		}
		kind += n
		d := documentOf(t, url)
		if len(d.Cycles) != 1 || len(d.Cycles[0].Owners) != n || len(d.Cycles[0].Steps) != n {
			t.Fatalf("%v: cycles %+v; want one of %d owners", names, d.Cycles, n)
		}
		var found []string
		for _, o := range d.Cycles[0].Owners {
			found = append(found, d.Owners[o].Sessions...)
		}
		if slices.Sort(sessions); !slices.Equal(slices.Sorted(slices.Values(found)), sessions) {
			t.Errorf("%v: the cycle has the sessions %v; want %v", names, found, sessions)
		}
		if text, err := graphOf(t, url, "--exit-code", "--cycles", dir); !errors.Is(err, term.ExitCode(term.ExitNo)) || strings.Count(text, " waits for ") != n {
			t.Errorf("%v: %v, and\n%s", names, err, text)
		}
		// The victim gives up its wait and its lock.
		victim := d.Owners[d.Cycles[0].Victim].Sessions[0]
		for i, h := range holds {
			if locks.SessionText(h.SessionID()) == victim {
				cancels[i]()
				if err := h.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-done
		if d := documentOf(t, url); len(d.Cycles) != 0 {
			t.Errorf("%v: a cycle after the victim's end: %+v", names, d.Cycles)
		}
		for i := range n {
			cancels[i]()
			_ = clients[i].Close()
		}
		for range n - 1 {
			<-done
		}
	}
}

// Ten thousand locks with a holder and a waiter each. Of the sessions, each holds some and waits for others.
func TestGraphOfTenThousandLocks(t *testing.T) {
	const locks, sessions = 10_000, 100
	url := startMemory(t)
	clients := make([]*zk.Client, sessions)
	for i := range clients {
		clients[i] = dialServer(t, url)
	}
	ctx := t.Context()
	var ops []zk.Op
	for i := range locks {
		ops = append(ops, zk.CreateOp(fmt.Sprintf("/l%d", i), nil, zk.Persistent))
	}
	pipelined(t, clients[0], ops)
	const id = "6266cbe9-453b-4a50-8718-b39f57879b6e"
	for _, shift := range []int{0, 1} { // holders, and then waiters
		for s, c := range clients {
			var ops []zk.Op
			for i := s; i < locks; i += sessions {
				// Holder s has lock i, and session s waits for locks of session s+1: but not the last one.
				if shift == 1 && s == 0 {
					continue
				}
				ops = append(ops, zk.CreateOp(fmt.Sprintf("/l%d/_c_%s-lock-", i-shift, id), []byte(`{"owner":"x@y:1"}`), zk.EphemeralSequential))
			}
			pipelined(t, c, ops)
		}
	}
	began := time.Now()
	text, err := graphOf(t, url, "-o", "json", "/")
	took := time.Since(began)
	var d Document
	if err == nil {
		err = json.Unmarshal([]byte(text), &d)
	}
	if err != nil || d.Locks != locks || len(d.Cycles) != 0 || len(d.Owners) != sessions {
		t.Fatalf("%v: %d locks, %d cycles, %d owners", err, d.Locks, len(d.Cycles), len(d.Owners))
	}
	t.Logf("%d locks, %d bytes: %v", d.Locks, len(text), took)
	if took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	// One more wait closes a circle of all.
	if _, _, err := clients[0].Create(ctx, "/l99/_c_"+id+"-lock-", nil, zk.EphemeralSequential); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	text, err = graphOf(t, url, "--cycles", "/")
	t.Logf("with a cycle: %v", time.Since(began))
	if !errors.Is(err, term.ExitCode(term.ExitNo)) || !strings.HasPrefix(text, "cycle 1 of 1, for ") || !strings.Contains(text, "100 owners wait for each other") {
		t.Errorf("%v\n%.300s", err, text)
	}
}

func pipelined(t *testing.T, c *zk.Client, ops []zk.Op) {
	t.Helper()
	for some := range slices.Chunk(ops, 500) {
		if _, err := c.Pipeline(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
}

// A cycle that is in both readings, but with other nodes, is not reported: its owners have moved meanwhile.
func TestCycleMustStandStill(t *testing.T) {
	url := startMemory(t)
	clients := []*zk.Client{dialServer(t, url), dialServer(t, url)}
	for i, c := range clients {
		if _, err := holdfast.NewMutex(c, fmt.Sprintf("/l%d", i)).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(i int) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := holdfast.NewMutex(clients[i], fmt.Sprintf("/l%d", 1-i)).Lock(ctx); err == nil {
				t.Error("the waiter has acquired the lock")
			}
		}()
		return func() { cancel(); <-done }
	}
	read := func(cycles int) []waitgraph.Lock {
		for {
			s, err := locks.Read(t.Context(), clients[0], locks.Query{Prefix: "/"})
			if err != nil {
				t.Fatal(err)
			}
			if len(waitgraph.Analyze(s.Graph()).Cycles) == cycles {
				return s.Graph()
			}
		}
	}
	defer wait(0)()
	stop := wait(1)
	first := read(1)
	for range 3 {
		if g, err := locks.Confirmed(t.Context(), clients[0], first, nil); err != nil || len(g.Cycles) != 1 {
			t.Errorf("%v; want the cycle that is there", err)
		}
	}
	stop()
	read(0) // the client may remove the node of the old wait after Lock has returned
	defer wait(1)()
	read(1)
	g, err := locks.Confirmed(t.Context(), clients[0], first, nil)
	if err != nil || len(g.Cycles) != 0 || len(g.Locks) != 2 {
		t.Errorf("%v, %d cycles; want none, since a waiter has come again", err, len(g.Cycles))
	}
}

// A lock that is kept blocks nobody: its client gives it up when it learns of the waiter. If the client has taken
// it again, it removes the mark.
func TestKeptLockIsNoDeadlock(t *testing.T) {
	url := startMemory(t)
	a, b := dialServer(t, url), dialServer(t, url)
	const id = "6266cbe9-453b-4a50-8718-b39f57879b6e"
	kept := ""
	for _, n := range []struct {
		c    *zk.Client
		path string
		data string
	}{{a, "/l0", `{"kept":true}`}, {b, "/l1", ""}, {b, "/l0", ""}, {a, "/l1", ""}} {
		if _, _, err := a.Create(t.Context(), n.path, nil, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
		path, _, err := n.c.Create(t.Context(), n.path+"/_c_"+id+"-lock-", []byte(n.data), zk.EphemeralSequential)
		if err != nil {
			t.Fatal(err)
		}
		if n.data != "" {
			kept = path
		}
	}
	if d := documentOf(t, url); len(d.Cycles) != 0 {
		t.Errorf("a deadlock by a lock that is only kept: %+v", d.Cycles)
	}
	s, err := locks.Read(t.Context(), a, locks.Query{Prefix: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Set(t.Context(), kept, []byte("{}"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if g, err := locks.Confirmed(t.Context(), a, s.Graph(), nil); err != nil || len(g.Cycles) != 1 {
		t.Errorf("%v; want one cycle, since the lock is held again", err)
	}
}

// The JSON names what is not in the graph.
func TestGraphNamesWhatItCannotRead(t *testing.T) {
	url := startMemory(t)
	c := dialServer(t, url)
	for _, path := range []string{"/secret", "/odd"} {
		if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Create(t.Context(), "/odd/mine-0000000001", nil, zk.Ephemeral); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetACL(t.Context(), "/secret", []zk.ACL{{Perms: zk.PermCreate, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	text, err := graphOf(t, url, "-o", "json", "/")
	at := strings.IndexByte(text, '{') // after the warnings
	if err != nil || at < 0 {
		t.Fatalf("%v\n%s", err, text)
	}
	var d Document
	if err := json.Unmarshal([]byte(text[at:]), &d); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Unreadable, []string{"/secret"}) || !slices.Equal(d.Unrecognized, []string{"/odd/mine-0000000001"}) {
		t.Errorf("unreadable %q, unrecognized %q", d.Unreadable, d.Unrecognized)
	}
}

// Text of other users is escaped before it reaches the terminal or Graphviz.
func TestGraphEscapes(t *testing.T) {
	url := startMemory(t)
	a, b := dialServer(t, url), dialServer(t, url)
	const evil = "red\x1b[31m\"]; evil -> \\N [label=\""
	if _, err := holdfast.NewMutex(a, "/a\"b", holdfast.WithOwner(evil)).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = holdfast.NewMutex(b, "/a\"b", holdfast.WithReason(evil)).Lock(ctx)
	}()
	for len(documentOf(t, url).Owners) < 2 { // the waiter's node is not there yet
	}
	for _, args := range [][]string{{"/"}, {"--dot", "/"}, {"-o", "json", "/"}} {
		text, err := graphOf(t, url, args...)
		bare := strings.ReplaceAll(text, `\"`, "") // a quote in a text has a backslash
		if err != nil || strings.Contains(text, "\x1b") || args[0] != "/" && (strings.Contains(bare, `"]; evil`) || strings.Count(bare, `"`)%2 != 0) {
			t.Errorf("%v: %v\n%s", args, err, text)
		}
	}
	if text, _ := graphOf(t, url, "--dot", "/"); !strings.Contains(text, `label="a\"b"`) && !strings.Contains(text, `label="/a\"b"`) {
		t.Errorf("the lock is not in\n%s", text)
	}
	cancel()
	<-done
}

func TestLongPrefixIsCut(t *testing.T) {
	_, err := graphOf(t, "zk://127.0.0.1:1", strings.Repeat("x", 100_000)+"//y/z")
	if err == nil || len(err.Error()) > 250 || !strings.Contains(err.Error(), "empty component") {
		t.Errorf("%.300v; want a short reason", err)
	}
}

// elected is a Locker of an election.
type elected struct{ *holdfast.Election }

func (e elected) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return e.Campaign(ctx, []byte("me"))
}

func (e elected) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return e.TryCampaign(ctx, []byte("me"))
}

// A chain of waits that is too deep to be drawn says that it goes on.
func TestDeepChainsAreCut(t *testing.T) {
	t.Parallel()
	const depth = 200
	var locks []waitgraph.Lock
	for i := range depth {
		place := func(session int) waitgraph.Place {
			return waitgraph.Place{Node: fmt.Sprintf("/locks/l%d/n%d", i, session), Session: int64(session + 1), Zxid: int64(i + 1), Since: time.Now()}
		}
		locks = append(locks, waitgraph.Lock{Path: fmt.Sprintf("/locks/l%d", i), Queue: []waitgraph.Place{place(i), place(i + 1)}})
	}
	w := newWaits(&conn.Flags{}, waitgraph.Analyze(locks), time.Now())
	first := slices.IndexFunc(w.Owners, func(o waitgraph.Owner) bool { return slices.Contains(o.Sessions, 1) })
	var b strings.Builder
	w.printBelow(&b, first, "", make(map[waitgraph.Ref]bool))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	last := lines[len(lines)-1]
	hidden := depth - (len(lines) - 1)
	if want := fmt.Sprintf("└─ … %s more; -o json has them", count(hidden, "owner")); hidden <= 0 || !strings.HasSuffix(last, want) {
		t.Errorf("%d lines, the last is %q; want %q", len(lines), last, want)
	}
}

// The graph is printed as docs/reference/json.md has it. It has a cycle of two owners, and a waiter for a permit behind it.
func TestDocumentOfAGraph(t *testing.T) {
	t0 := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	g, now := &conn.Flags{Namespace: "/holdfast/locks"}, t0.Add(90*time.Second)
	place := func(lock, node string, session int64, wait time.Duration) waitgraph.Place {
		return waitgraph.Place{
			Node: "/holdfast/locks/" + lock + "/" + node, Zxid: int64(wait), Session: session, Since: t0.Add(wait),
			Owner: fmt.Sprintf("ann@web%d:100", session), Reason: "schema 42",
		}
	}
	w := newWaits(g, waitgraph.Analyze([]waitgraph.Lock{
		{Path: "/holdfast/locks/a", Layout: "curator", Kind: "lock", Queue: []waitgraph.Place{
			place("a", "_c_a-lock-0000000001", 1, 0), place("a", "_c_b-lock-0000000002", 2, 10*time.Second),
		}},
		{Path: "/holdfast/locks/b", Layout: "curator", Kind: "lock", Queue: []waitgraph.Place{
			place("b", "_c_a-lock-0000000001", 2, 0), place("b", "_c_b-lock-0000000002", 1, 20*time.Second),
		}},
		{Path: "/holdfast/locks/pool", Layout: "curator", Kind: "semaphore", Counted: true, Limit: 2, Permits: []waitgraph.Place{
			place("pool", "leases/_c_a-lease-0000000001", 1, 0), place("pool", "leases/_c_b-lease-0000000002", 2, 0),
		}, Queue: []waitgraph.Place{place("pool", "locks/_c_c-lock-0000000003", 3, 30*time.Second)}},
	}), now)
	w.locks = 3
	want, err := os.ReadFile("../../../cmd/holdfast/testdata/golden/WaitGraph.json")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := term.JSON(&got, w.document(false)); err != nil || got.String() != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want)
	}
}
