package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/queue/names"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func TestParseLayout(t *testing.T) {
	for _, name := range []string{
		"curator", "leaderlatch", "kazoo", "go-zookeeper", "writelock", "hostrw", "sessionid", "article", "named:db",
		"form:lock-", "form:lock-{session}-", "form:job.{host}.{uuid}.", "form:n_{hex}_", "form:{uuid}.job", "form:_c_{uuid}-lock-",
		"form:", "form:ex", "form:v2", "form:{uuid}-v2",
	} {
		if l, err := holdfast.ParseLayout(name); err != nil || l.Name != name {
			t.Errorf("%s: %v, %v", name, l.Name, err)
		}
	}
	for name, say := range map[string]string{
		"": "want one of", "zookeeper": "form:PATTERN", "named:": "must not be empty", "named:a_lock_b": "_lock_",
		"form:{uuid}": "fits every node", "form:{host}-job-{uuid}": "fits every node",
		"form:a/b": "no /", "form:a-*": "no *", "form:{name}-": "braces", "form:a{uuid": "braces", "form:a}": "braces", "form:{{uuid}}-x": "braces", "form:{}x": "braces",
		"form:ex{hex}": "as in ex{hex}-", "form:ex{uuid}": "directly before the number", "form:job-{session}": "directly before the number",
		"form:_c_{host}": "directly before the number", "form:ex{hex}1": "directly before the number", "form:lock-{session}": "--layout article",
		"form:a\x00": "invalid path", "form:_c_{uuid}-__READ__": "curator", "form:{uuid}-R-": "hostrw",
	} {
		_, err := holdfast.ParseLayout(name)
		if !errors.Is(err, holdfast.ErrLayout) || !strings.Contains(fmt.Sprint(err), say) {
			t.Errorf("%q: %v; want ErrLayout, and %q in it", name, err, say)
		}
	}
}

// two makes two layouts that share nothing but the parts that change leaves alone in both.
func two(of holdfast.Layout, change func(l *holdfast.Layout, word string)) (a, b holdfast.Layout) {
	a, b = of, of
	change(&a, "left")
	change(&b, "right")
	return a, b
}

// own gives l its own names, with word in them.
func own(l *holdfast.Layout, word string) {
	l.Mutex, l.Write, l.Read = word+"-{uuid}.m", word+"-{uuid}.w", word+"-{uuid}.r"
	l.Exclusive, l.Shared = []string{word + "-*.m", word + "-*.w"}, []string{word + "-*.r"}
}

// A watermark says that all up to a number have gone. It applies to one queue, and to no
// other in the same directory. The layouts are copies of one that has watermarks.
func TestMarkOfAnotherQueueInTheDirectoryIsNotBelieved(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		left, right := two(layout.Curator, own)
		in := func(l holdfast.Layout) holdfast.Locker {
			return holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(l))
		}
		c := client(t, srv)
		unlock(t, lock(t, in(left)))
		for i := range 40 { // nodes of no queue make the directory long, too
			if _, _, err := c.Create(t.Context(), fmt.Sprintf("%s/note-%d", lockPath, i), nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		holder := lock(t, in(left))
		first, forget := context.WithCancel(t.Context())
		second, leave := context.WithCancel(t.Context())
		waiters := []*waiter{wait(first, in(left)), wait(second, in(left))}
		last := wait(t.Context(), in(left))

		other := lock(t, in(right))
		time.Sleep(time.Second)
		unlock(t, other) // leaves a watermark, if anything does
		for i, cancel := range []func(){forget, leave} {
			time.Sleep(time.Second)
			cancel()
			<-waiters[i].done
		}
		if !last.waiting() {
			t.Errorf("two Mutexes are held at once: tokens %d and %d", holder.Token(), last.got(t).Token())
		}
		unlock(t, holder)
		unlock(t, last.got(t))
	})
}

// A lock is defined by its node names, not by its layout's name.
func TestLayoutsWithoutANameAreTwoLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		left, right := two(holdfast.Layout{Parent: zk.Container}, own)
		c := client(t, srv)
		in := func(l holdfast.Layout, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithLayout(l))...)
		}
		both, err := holdfast.NewMultiLock(in(left), in(right)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []holdfast.Layout{left, right} {
			if _, err := in(l).TryLock(t.Context()); err == nil {
				t.Errorf("a MultiLock does not hold its lock %s", l.Mutex)
			} else {
				wantErr(t, err, holdfast.ErrLocked)
			}
		}
		unlock(t, both)

		h := lock(t, in(left, holdfast.WithLocalHandoff(3)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := wait(ctx, in(right, holdfast.WithLocalHandoff(3)))
		if w.waiting() {
			t.Error("a free lock waits in the local queue of another")
		}
		unlock(t, h)
		if other := w.got(t); other.Path() == h.Path() {
			t.Errorf("%s was handed to a Lock of another lock", h.Path())
		}
		unlock(t, w.got(t))
	})
}

// Layouts with the same forms make the same lock, whatever their names.
func TestLayoutsOfTheSameFormsAreOneLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		renamed := layout.Curator
		renamed.Name = "ours"
		renamed.Exclusive = []string{"*__WRIT__", "*lock-", "*lock-"} // in another order, and one twice
		c := client(t, srv)
		a := holdfast.NewMutex(c, lockPath, holdfast.WithLocalHandoff(3))
		b := holdfast.NewMutex(c, lockPath, holdfast.WithLocalHandoff(3), holdfast.WithLayout(renamed))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h, err := holdfast.NewMultiLock(a, b).Lock(ctx) // taken once, or it would wait for itself
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t.Context(), b)
		wantQueued(t, c, 1)
		unlock(t, h)
		if got := next.got(t); got.Path() != h.Path() {
			t.Error("the lock was not handed on in memory")
		}
		unlock(t, next.got(t))
		synctest.Wait()
		wantQueued(t, c, 0)
	})
}

// Two turnstiles in one directory would admit too many: each would count the permits while
// the other gives some away.
func TestLayoutWithNamesOfItsOwnHasNoSemaphore(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		left, _ := two(layout.Curator, own)
		_, err := holdfast.NewSemaphore(client(t, srv), lockPath, 1, holdfast.WithLayout(left)).Acquire(t.Context(), 1)
		wantErr(t, err, holdfast.ErrLayout)
	})
}

// Each lock has its token, even where several share a path. The layout tells them apart,
// whatever its name.
func TestTokensTellLocksOfOneDirectoryApart(t *testing.T) {
	left, right := two(holdfast.Layout{Name: "ours"}, own)
	for _, layouts := range []map[string]holdfast.Layout{
		{"named:b": layout.Named("b"), "named:a": layout.Named("a"), "named:c": layout.Named("c")},
		{"form:left-*.m|left-*.w,shared:left-*.r": left, "form:right-*.m|right-*.w,shared:right-*.r": right},
	} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			var parts []holdfast.Locker
			for _, l := range layouts {
				unlock(t, lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithLayout(l)))) // so that not all tokens are neighbours
				parts = append(parts, holdfast.NewMutex(c, lockPath, holdfast.WithLayout(l)))
			}
			h := lock(t, holdfast.NewMultiLock(parts...))
			if n := len(h.Tokens()); n != len(layouts) {
				t.Fatalf("%d tokens: %+v; want %d", n, h.Tokens(), len(layouts))
			}
			last := int64(0)
			for _, token := range h.Tokens() {
				l, ok := layouts[token.Layout]
				if !ok || token.Path != lockPath {
					t.Fatalf("%+v belongs to none of the locks", token)
				}
				delete(layouts, token.Layout)
				if token.Token <= last {
					t.Errorf("%+v is not in the order of tokens: the one before has %d", token, last)
				}
				last = token.Token
				queue, err := holdfast.List(t.Context(), c, lockPath, l)
				if err != nil || len(queue) != 1 || queue[0].Token != token.Token {
					t.Errorf("%+v: the queue is %+v, %v", token, queue, err)
				}
			}
			unlock(t, h)
		})
	}
}

func TestTokensNameTheLayout(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for want, l := range map[string]holdfast.Locker{
			"curator": holdfast.NewMutex(c, lockPath+"/1"),
			"kazoo":   holdfast.NewRWMutex(c, lockPath+"/2", holdfast.WithLayout(layout.Kazoo)),
			"node":    holdfast.NewNodeLock(c, lockPath+"/3"),
		} {
			h := lock(t, l)
			if got := h.Tokens(); len(got) != 1 || got[0].Layout != want || got[0].Token != h.Token() {
				t.Errorf("%s: %+v, token %d", want, got, h.Token())
			}
			unlock(t, h)
		}
	})
}

// A lock keeps its own copy of its Layout.
func TestLayoutIsCopied(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		l := holdfast.Layout{Mutex: "a-{uuid}.", Exclusive: []string{"a-*."}}
		m := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(l))
		l.Exclusive[0], l.Mutex = "b-*.", "b-{uuid}."
		h := lock(t, m)
		if !strings.HasPrefix(h.Path(), lockPath+"/a-") {
			t.Error(h.Path())
		}
		_, err := m.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
	})
}

// FuzzParseLayout: a layout with a name can be looked up by it, and recognizes the node
// names it makes.
func FuzzParseLayout(f *testing.F) {
	for _, name := range []string{"curator", "kazoo", "named:db", "named:", "named:a_lock_b", "named:a_lock", "named:{hex}", "Curator", "article", "form:lock-{session}", "form:a-{host}.{uuid}", "form:{x}-", "form:-", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		l, err := holdfast.ParseLayout(name)
		if err != nil {
			if !errors.Is(err, holdfast.ErrLayout) {
				t.Errorf("%q: %v; want ErrLayout", name, err)
			}
			return
		}
		if l.Name != name {
			t.Errorf("%q is called %q", name, l.Name)
		}
		a, err := holdfast.Compile(l).Attempt(names.Mutex, 5)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if c, ok := holdfast.Compile(l).Parse(a.Prefix + "-000000003"); !ok || c.Seq != -3 || c.Form != a.Prefix || c.Shared {
			t.Errorf("%q reads its own %q as %+v, %v", name, a.Prefix, c, ok)
		}
	})
}

// A counter is a client of another library that puts no id into the names of its nodes. It takes the digits at the end
// of a name for the number, as Ruby's zk does, and holds the lock when its number is the smallest.
type counter struct {
	c            *zk.Client
	prefix, node string
}

var digits = regexp.MustCompile(`0*(\d+)$`)

func (p *counter) join(t *testing.T) {
	t.Helper()
	var err error
	if p.node, _, err = p.c.Create(t.Context(), lockPath+"/"+p.prefix, []byte("theirs"), zk.EphemeralSequential); err != nil {
		t.Fatal(err)
	}
}

func (p *counter) holds(t *testing.T) bool {
	t.Helper()
	listed, _, err := p.c.Children(t.Context(), lockPath)
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) int {
		n, err := strconv.Atoi(digits.FindStringSubmatch(name)[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return !slices.ContainsFunc(listed, func(name string) bool {
		return number(name) < number(p.node)
	})
}

// noIDs are layouts without an id in the names, and the names of their peers.
var noIDs = map[string]string{"form:ex": "ex", "form:": "", "form:lock-": "lock-", "form:v2": "v2"}

// Clients that put no id into their names share the queue: one at a time holds the lock, in the order of arrival.
func TestPeersWithoutAnIDShareTheQueue(t *testing.T) {
	for layout, prefix := range noIDs {
		t.Run(layout, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				ours := func() holdfast.Locker {
					l, err := holdfast.ParseLayout(layout)
					if err != nil {
						t.Fatal(err)
					}
					return holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(l))
				}
				unlock(t, lock(t, ours()))
				var theirs []*counter
				var waiters []*waiter
				for range 5 {
					p := &counter{c: client(t, srv), prefix: prefix}
					p.join(t)
					theirs = append(theirs, p)
					waiters = append(waiters, wait(t.Context(), ours()))
				}
				if _, err := ours().TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
					t.Errorf("%v; want ErrLocked", err)
				}
				for i := range theirs {
					for j, p := range theirs[i:] {
						if p.holds(t) != (j == 0) {
							t.Fatalf("peer %d holds: %v, when it is the turn of peer %d", i+j, j != 0, i)
						}
					}
					if !waiters[i].waiting() {
						t.Fatalf("we hold the lock beside peer %d", i)
					}
					if err := theirs[i].c.Delete(t.Context(), theirs[i].node, zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
					h := waiters[i].got(t)
					for j, p := range theirs[i+1:] {
						if p.holds(t) {
							t.Errorf("peer %d holds the lock beside us", i+1+j)
						}
					}
					if i+1 < len(waiters) && !waiters[i+1].waiting() {
						t.Errorf("two of us hold the lock")
					}
					unlock(t, h)
				}
				wantNoNodes(t, client(t, srv))
			})
		})
	}
}

// Such a layout refuses the calls that it cannot honour, and an attempt whose answer is lost finds its node by its data.
func TestLimitsOfLayoutsWithoutAnID(t *testing.T) {
	for layout := range noIDs {
		t.Run(layout, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				l, err := holdfast.ParseLayout(layout)
				if err != nil {
					t.Fatal(err)
				}
				use := holdfast.WithLayout(l)
				c := client(t, srv)
				_, err = holdfast.NewMutex(c, lockPath, use, holdfast.WithValue([]byte("x"))).TryLock(t.Context())
				wantErr(t, err, holdfast.ErrLayout)
				_, err = holdfast.NewDetached(c, lockPath, 0, use).TryLock(t.Context())
				wantErr(t, err, holdfast.ErrLayout)
				_, err = holdfast.NewSemaphore(c, lockPath, 2, use).TryAcquire(t.Context(), 1)
				wantErr(t, err, holdfast.ErrLayout)
				_, err = holdfast.NewTree(c, lockPath, use).Path("").TryLock(t.Context())
				wantErr(t, err, zk.ErrBadArguments)

				m := holdfast.NewMutex(c, lockPath, use)
				unlock(t, lock(t, m))
				lost := 0
				srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
					if strings.HasPrefix(path, lockPath+"/") && lost < 2 {
						lost++
						return zktest.DropReply
					}
					return zktest.Pass
				})
				h := lock(t, m)
				wantQueued(t, c, 1)
				if entries, err := holdfast.List(t.Context(), c, lockPath, l); err != nil || len(entries) != 1 || entries[0].Path != h.Path() {
					t.Errorf("%+v, %v; want the holder", entries, err)
				}
				unlock(t, h)
				wantNoNodes(t, c)
			})
		})
	}
}

// Where a number is a whole name, directories of other locks can have such names. They are no places, and neither are
// the permits of kazoo.
func TestDirectoryWithANumberIsNoPlace(t *testing.T) {
	defer holdfast.SetShareFrom(0)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l, err := holdfast.ParseLayout("form:")
		if err != nil {
			t.Fatal(err)
		}
		use := holdfast.WithLayout(l)
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, use)
		for _, below := range []string{"0000000000", "0000000001", "0000000002", "1700000001"} { // the first numbers are before all of ours
			unlock(t, lock(t, holdfast.NewMutex(c, lockPath+"/"+below)))
		}
		h, err := m.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second := wait(ctx, holdfast.NewMutex(client(t, srv), lockPath, use))
		third := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath, use))
		if !second.waiting() || !third.waiting() {
			t.Fatal("two hold the lock")
		}
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath+"/-000000009"))) // a number before ours, while we wait
		if entries, err := holdfast.List(t.Context(), c, lockPath, l); err != nil || len(entries) != 3 || !entries[0].Held || entries[0].Path != h.Path() {
			t.Errorf("%+v, %v; want the holder and two waiters", entries, err)
		}
		cancel()
		<-second.done
		if !third.waiting() {
			t.Fatal("two hold the lock")
		}
		unlock(t, h)
		unlock(t, third.got(t))
		wantNoNodes(t, c)

		permit := lock(t, holdfast.NewSemaphore(c, lockPath, 9, holdfast.WithLayout(layout.Kazoo)).Locker(1))
		_, err = m.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrKind)
		unlock(t, permit)
	})
}
