//go:build unix

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
)

// The command's views of a lock agree, whatever program holds it and waits for it.

func TestEveryViewSaysTheSameOnApacheZooKeeper(t *testing.T) {
	oneAnswer(t, oneZooKeeper.get(t).Addrs()[0])
}

func TestEveryViewSaysTheSameOnHoldfastServe(t *testing.T) {
	oneAnswer(t, oneHoldfast.get(t).Addr())
}

// A census says how the views count the places of a lock.
type census struct {
	state                  string
	held, waiting, members int
}

// A scene is a lock of one program: it is held, then somebody waits for it, then it is free.
type scene struct {
	name   string
	below  string                            // the lock's name below the scene's directory; "" for the directory
	flags  []string                          // of holdfast run
	holder func(s *stage, path string) party // holds the lock
	waiter func(s *stage, path string) party // waits for it; nil: nobody does
	nodes  int                               // the ephemeral nodes of holder and waiter together
	held   census                            // before the waiter comes; the zero value: one place holds the lock
	member bool                              // the waiter is a candidate
	try    int                               // the exit code of run --try while the lock is held; 0: busy
}

// The exit code of run --try.
const (
	acquired = -1
	busy     = 75
	otherUse = 125
)

// alike is a scene whose waiter is like its holder.
func alike(name string, flags string, nodes int, of func(s *stage, path string) party) scene {
	return scene{name: name, flags: strings.Fields(flags), holder: of, waiter: of, nodes: nodes}
}

// sides is a scene of a reader that holds the lock and a writer that waits.
func sides(name, flags string, reader, writer func(s *stage, path string) party) scene {
	return scene{name: name, flags: strings.Fields(flags), holder: reader, waiter: writer, nodes: 2}
}

func javaParty(recipe string) func(*stage, string) party {
	return func(s *stage, path string) party { return s.told(s.java, recipe, path) }
}

func pythonParty(recipe string) func(*stage, string) party {
	return func(s *stage, path string) party { return s.told(s.python, recipe, path) }
}

// ourParty returns a lock of ours, in a session of its own.
func ourParty(l func(c *zk.Client, path string) holdfast.Locker) func(*stage, string) party {
	return func(s *stage, path string) party { return s.our(l(dialURL(s.t, "zk://"+s.addr), path)) }
}

// bookParty is the recipe of the articles: a session creates an ephemeral sequential node, whose name has the session's
// id, and lists the queue until its node is the first.
func bookParty(name func(session int64) string) func(*stage, string) party {
	return func(s *stage, path string) party {
		t, c := s.t, dialURL(s.t, "zk://"+s.addr)
		done, node := make(chan string, 1), ""
		return party{
			begin: func() {
				_, _, err := c.Create(s.ctx, path, nil, zk.Persistent)
				if err != nil && !errors.Is(err, zk.ErrNodeExists) {
					t.Fatal(err)
				}
				session, err := c.Session(s.ctx)
				must(t, err)
				node, _, err = c.Create(s.ctx, path+"/"+name(session.ID()), nil, zk.EphemeralSequential)
				must(t, err)
				go func() { done <- outcome(firstIn(s.ctx, c, path, node)) }()
			},
			result: func() string { return <-done },
			end:    func() { must(t, c.Delete(s.ctx, node, zk.AnyVersion)) },
		}
	}
}

// firstIn returns when the node is the first in its directory by the number at the end of the name.
func firstIn(ctx context.Context, c *zk.Client, dir, node string) error {
	for {
		names, _, err := c.Children(ctx, dir)
		if err != nil {
			return err
		}
		number := func(name string) string { return name[len(name)-10:] }
		if first := slices.MinFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) }); dir+"/"+first == node {
			return nil
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// librarians are the scenes of other libraries and of the articles.
func librarians() []scene {
	rivals := func(s *stage, path string) party { return s.rivals(path) }
	latch := alike("Curator's LeaderLatch", "--layout leaderlatch", 2, javaParty("latch"))
	latch.member = true
	return []scene{
		alike("Curator's mutex", "", 2, javaParty("mutex")),
		alike("Curator's write lock", "", 2, javaParty("write")),
		sides("Curator's read lock", "-x", javaParty("read"), javaParty("write")),
		alike("Curator's semaphore", "--of 1", 3, javaParty("semaphore")),
		latch,
		alike("kazoo's Lock", "--layout kazoo", 2, pythonParty("lock")),
		alike("kazoo's WriteLock", "--layout kazoo", 2, pythonParty("write")),
		sides("kazoo's ReadLock", "--layout kazoo -x", pythonParty("read"), pythonParty("write")),
		alike("kazoo's Semaphore", "--layout kazoo --of 1", 2, pythonParty("semaphore")),
		alike("go-zookeeper's Lock", "--layout go-zookeeper", 2, rivals),
		alike("ZooKeeper's WriteLock", "--layout writelock", 2, javaParty("writelock")),
		alike("the articles' lock", "--layout article", 2, bookParty(func(id int64) string { return fmt.Sprintf("lock-%d", id) })),
		alike("the articles' lock with a dash", "--layout sessionid", 2, bookParty(func(id int64) string { return fmt.Sprintf("lock-%d-", id) })),
		alike("the articles' writer", "--layout hostrw", 2, bookParty(func(int64) string { return "web1-W-" })),
		sides("the articles' reader", "--layout hostrw -x", bookParty(func(int64) string { return "web1-R-" }), bookParty(func(int64) string { return "web2-W-" })),
		alike("a lock with a name", "--layout named:one", 2, bookParty(func(int64) string { return "one_lock_" })),
	}
}

// ourOwnScenes are the scenes of our kinds in the layouts that have them.
func ourOwnScenes(t *testing.T) (all []scene) {
	form, err := holdfast.ParseLayout("form:mine-{uuid}-")
	must(t, err)
	for _, l := range []holdfast.Layout{
		layout.Curator, layout.Kazoo, layout.GoZookeeper, layout.LeaderLatch, layout.WriteLock, layout.HostRW, layout.SessionID, layout.Article, layout.Named("one"), form,
	} {
		in, flag := holdfast.WithLayout(l), "--layout "+l.Name
		mutex := alike("our Mutex, "+l.Name, flag, 2, ourParty(func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewMutex(c, path, in) }))
		if l.Name == form.Name { // one place tells the form, and its program has to say who it is
			mutex.holder = ourParty(func(c *zk.Client, path string) holdfast.Locker {
				return holdfast.NewMutex(c, path, in, holdfast.WithOwner("ada"))
			})
		}
		mutex.member = l.Name == layout.LeaderLatch.Name
		all = append(all, mutex)
		if l.Read != "" {
			rw := func(c *zk.Client, path string) *holdfast.RWMutex { return holdfast.NewRWMutex(c, path, in) }
			writer := ourParty(func(c *zk.Client, path string) holdfast.Locker { return rw(c, path) })
			reader := ourParty(func(c *zk.Client, path string) holdfast.Locker { return rw(c, path).RLocker() })
			all = append(all, alike("our RWMutex, a writer, "+l.Name, flag, 2, writer), sides("our RWMutex, a reader, "+l.Name, flag+" -x", reader, writer))
		}
		if l.Name != layout.Curator.Name && l.Name != layout.Kazoo.Name {
			continue
		}
		tree := alike("our Tree, "+l.Name, flag+" --tree", 2, ourParty(func(c *zk.Client, path string) holdfast.Locker {
			return holdfast.NewTree(c, strings.TrimSuffix(path, "/x"), in).Path("x")
		}))
		tree.below, tree.nodes = "/x", 3 // a reader above, and two writers
		all = append(all, tree, alike("our Semaphore, "+l.Name, flag+" --of 1", 2, ourParty(func(c *zk.Client, path string) holdfast.Locker {
			return holdfast.NewSemaphore(c, path, 1, in).Locker(1)
		})))
	}
	election := alike("our Election", "", 2, ourParty(func(c *zk.Client, path string) holdfast.Locker {
		return candidate{holdfast.NewElection(c, path), "http://me"}
	}))
	election.member = true
	node := alike("our NodeLock", "--node", 1, ourParty(func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewNodeLock(c, path) }))
	node.waiter = nil // it has no node
	return append(all, election, node, alike("our Slots", "--of 1 --slot", 2, ourParty(func(c *zk.Client, path string) holdfast.Locker {
		return holdfast.NewSlots(c, path, 1).Locker(1)
	})))
}

// quietScenes are locks that nobody holds and that are not free, and those that no session owns.
func quietScenes() []scene {
	at := func(begin func(s *stage, c *zk.Client, path string) (end func())) func(*stage, string) party {
		return func(s *stage, path string) party {
			end := func() {}
			return party{
				begin:  func() { end = begin(s, dialURL(s.t, "zk://"+s.addr), path) },
				result: func() string { return "done" },
				end:    func() { end() },
			}
		}
	}
	lock := func(s *stage, c *zk.Client, path string, opts ...holdfast.Option) *holdfast.Hold {
		h, err := holdfast.NewMutex(c, path, opts...).Lock(s.ctx)
		must(s.t, err)
		return h
	}
	return []scene{
		{name: "kept", held: census{"kept", 1, 0, 0}, nodes: 1, try: acquired, holder: at(func(s *stage, c *zk.Client, path string) func() {
			must(s.t, lock(s, c, path, holdfast.WithKeep(time.Hour)).Unlock())
			pause(s.ctx, 1500*time.Millisecond) // the node says so after a second
			return func() { must(s.t, c.Close()) }
		})},
		{name: "detached", held: census{"held", 1, 0, 0}, holder: at(func(s *stage, c *zk.Client, path string) func() {
			d := holdfast.NewDetached(c, path, 0)
			claim, err := d.Lock(s.ctx)
			must(s.t, err)
			return func() { must(s.t, d.Unlock(s.ctx, claim.ID)) }
		})},
		{name: "reserved", held: census{"reserved", 0, 0, 0}, holder: at(func(s *stage, c *zk.Client, path string) func() {
			h := lock(s, c, path)
			must(s.t, reserve.For(s.ctx, h, time.Hour))
			must(s.t, h.Unlock())
			return func() {
				r, err := reserve.Of(s.ctx, c, path)
				must(s.t, err)
				must(s.t, r.End(s.ctx, c))
			}
		})},
		{name: "foreign", held: census{"foreign", 0, 0, 0}, nodes: 1, try: otherUse, holder: at(func(s *stage, c *zk.Client, path string) func() {
			node, _, err := c.Create(s.ctx, path+"/strange", nil, zk.EphemeralSequential)
			must(s.t, err)
			return func() { must(s.t, c.Delete(s.ctx, node, zk.AnyVersion)) }
		})},
	}
}

// A viewer runs the command.
type viewer struct {
	t    *testing.T
	root string // the namespace
	env  []string
}

// run returns what the command prints and its exit code.
func (v viewer) run(t *testing.T, args ...string) ([]byte, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, holdfastBin(t), args...)
	cmd.Env = append(os.Environ(), v.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Logf("holdfast %s: %s", strings.Join(args, " "), &stderr)
	}
	return out, cmd.ProcessState.ExitCode()
}

// read returns a document that the command prints.
func (v viewer) read(t *testing.T, into any, args ...string) {
	t.Helper()
	out, code := v.run(t, args...)
	if code != 0 {
		t.Fatalf("holdfast %s: exit code %d", strings.Join(args, " "), code)
	}
	must(t, json.Unmarshal(out, into))
}

// A lockView is a lock as ls and status print it.
type lockView struct {
	Path    string
	State   string
	Holder  *struct{}
	Holders []struct{}
	Waiters []struct{ Member bool }
}

func (l *lockView) census() census {
	c := census{state: l.State, held: len(l.Holders)}
	if c.held == 0 && l.Holder != nil {
		c.held = 1
	}
	for _, w := range l.Waiters {
		if w.Member {
			c.members++
		} else {
			c.waiting++
		}
	}
	return c
}

// lists are the views that show all locks of the namespace at once.
type lists struct {
	ls       struct{ Items []lockView }
	sessions struct {
		Items []struct {
			Places []struct{ Path, State string }
		}
	}
	graph struct {
		Owners []struct {
			Holds, Waits []struct{ Path string }
		}
	}
}

func (v viewer) lists() *lists {
	var all lists
	v.read(v.t, &all.ls, "ls", "-o", "json")
	v.read(v.t, &all.sessions, "sessions", "-o", "json")
	v.read(v.t, &all.graph, "graph", "-o", "json")
	return &all
}

// viewCells are the views of one lock, each with what it says and what it should say.
func (v viewer) viewCells(all *lists, sc *scene, path string, want census) map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"ls": func(t *testing.T) {
			var found []census
			for _, l := range all.ls.Items {
				if l.Path == path {
					found = append(found, l.census())
				}
			}
			if len(found) == 0 && want.state == "free" {
				return
			}
			if len(found) != 1 || found[0] != want {
				t.Errorf("%+v; want %+v", found, want)
			}
		},
		"status": func(t *testing.T) {
			var l lockView
			v.read(t, &l, "status", "-o", "json", path)
			if got := l.census(); got != want {
				t.Errorf("%+v; want %+v", got, want)
			}
		},
		"status -q": func(t *testing.T) {
			wantCode := 0
			if want.state == "free" {
				wantCode = 1
			}
			if _, got := v.run(t, "status", "-q", path); got != wantCode {
				t.Errorf("exit code %d; want %d", got, wantCode)
			}
		},
		"sessions": func(t *testing.T) {
			got := census{state: want.state}
			for _, session := range all.sessions.Items {
				for _, p := range session.Places {
					switch {
					case p.Path != path:
					case p.State == "waiting":
						got.waiting++
					case p.State == "member":
						got.members++
					default:
						got.held++
					}
				}
			}
			if sc.name == "detached" && want.state == "held" {
				got.held++ // no session owns it
			}
			if got != want {
				t.Errorf("%+v; want %+v", got, want)
			}
		},
		"graph": func(t *testing.T) {
			holds, waits := 0, 0
			for _, o := range all.graph.Owners {
				for _, p := range o.Holds {
					if p.Path == path {
						holds++
					}
				}
				for _, p := range o.Waits {
					if p.Path == path {
						waits++
					}
				}
			}
			// It shows only the holders that somebody waits for. A candidate is among the waits, but of LeaderLatch.
			election := want.members
			if slices.Contains(sc.flags, "leaderlatch") {
				election = 0
			}
			if waits != want.waiting+election || want.waiting > 0 && holds != want.held {
				t.Errorf("%d hold and %d wait; want %+v", holds, waits, want)
			}
		},
	}
}

// tries checks that a client that does not wait finds the lock as the views show it.
func (v viewer) tries(t *testing.T, sc *scene, path string, want census) {
	wantCode := busy
	if want.state == "free" {
		wantCode = 0
	} else if sc.try != 0 {
		wantCode = max(sc.try, 0)
	}
	name := strings.TrimPrefix(path, v.root+"/") // its first word is the tree
	args := slices.Concat([]string{"run", "-n"}, sc.flags, []string{name, "--", "true"})
	if _, got := v.run(t, args...); got != wantCode {
		t.Errorf("holdfast %s: exit code %d; want %d", strings.Join(args, " "), got, wantCode)
	}
}

// oneAnswer makes all scenes at once, so that the views that show all locks are read once for each state.
func oneAnswer(t *testing.T, addr string) {
	s := stageOn(t, addr)
	root := s.directory(fmt.Sprintf("one-answer-%d", time.Now().UnixNano()))
	v := viewer{t, root, []string{"HOLDFAST_SERVER=zk://" + addr, "HOLDFAST_NAMESPACE=" + root, "HOME=" + t.TempDir(), "HOLDFAST_SESSION_TIMEOUT=10s"}}
	scenes := slices.Concat(librarians(), ourOwnScenes(t), quietScenes())
	path := func(i int) string { return fmt.Sprintf("%s/l%02d%s", root, i, scenes[i].below) }
	look := func(state string, want func(*scene) census) {
		all := v.lists()
		var wg sync.WaitGroup
		room := make(chan struct{}, 4) // the command mostly waits
		for i := range scenes {
			room <- struct{}{}
			wg.Go(func() {
				defer func() { <-room }()
				sc := &scenes[i]
				for view, check := range v.viewCells(all, sc, path(i), want(sc)) {
					t.Run(sc.name+"/"+state+"/"+view, check)
				}
				t.Run(sc.name+"/"+state+"/run --try", func(t *testing.T) { v.tries(t, sc, path(i), want(sc)) })
			})
		}
		wg.Wait()
	}
	look("free before", func(*scene) census { return census{state: "free"} })
	holders, waiters := make([]party, len(scenes)), make([]party, len(scenes))
	for i := range scenes {
		holders[i] = scenes[i].holder(s, path(i))
		holders[i].begin()
	}
	for i := range scenes {
		if got := holders[i].result(); got != "done" {
			t.Fatalf("%s: %s", scenes[i].name, got)
		}
	}
	held := func(sc *scene) census {
		if sc.held.state != "" {
			return sc.held
		}
		return census{"held", 1, 0, 0}
	}
	look("held", held)
	for i, sc := range scenes {
		if sc.waiter != nil {
			waiters[i] = sc.waiter(s, path(i))
			waiters[i].begin()
		}
	}
	for i, sc := range scenes {
		if sc.waiter != nil {
			s.ephemerals(fmt.Sprintf("%s/l%02d", root, i), sc.nodes)
		}
	}
	look("waiting", func(sc *scene) census {
		c := held(sc)
		switch {
		case sc.waiter == nil && sc.try == acquired: // the try has ended it
			return census{state: "free"}
		case sc.waiter == nil:
		case sc.member:
			c.members++
		default:
			c.waiting++
		}
		return c
	})
	for i, sc := range scenes {
		holders[i].end()
		if sc.waiter != nil {
			if got := waiters[i].result(); got != "done" {
				t.Errorf("%s: the waiter: %s", sc.name, got)
			}
			waiters[i].end()
		}
	}
	for i := range scenes {
		s.ephemerals(fmt.Sprintf("%s/l%02d", root, i), 0)
	}
	look("free again", func(*scene) census { return census{state: "free"} })
}

// ephemerals waits until a lock has this many ephemeral nodes. The queue of kazoo's semaphore is beside the lock.
func (s *stage) ephemerals(path string, want int) {
	s.t.Helper()
	var count func(path string) int
	count = func(path string) (n int) {
		stat, there, err := s.admin.Exists(s.ctx, path)
		must(s.t, err)
		if there && stat.EphemeralOwner != 0 {
			return 1
		}
		names, _, err := s.admin.Children(s.ctx, path)
		if !errors.Is(err, zk.ErrNoNode) {
			must(s.t, err)
		}
		for _, name := range names {
			n += count(path + "/" + name)
		}
		return n
	}
	s.await(func() string {
		if got := count(path) + count(path+"-__lock__"); got != want {
			return fmt.Sprintf("%d ephemeral nodes at %s; want %d", got, path, want)
		}
		return ""
	})
}
