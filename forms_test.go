package holdfast_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

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

// What such a layout cannot do is refused, and an attempt whose answer is lost finds its node by its data.
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

// Many of us with names without an id, beside peers: the lock has one holder at a time.
func TestLayoutsWithoutAnIDUnderManyCallers(t *testing.T) {
	for layout := range noIDs {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			l, err := holdfast.ParseLayout(layout)
			if err != nil {
				t.Fatal(err)
			}
			inside, turns := 0, 0
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range 6 {
				m := holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(l))
				all.Go(func() {
					for range 10 {
						h, err := m.Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						if inside++; inside > 1 {
							t.Errorf("%s: %d hold the lock", layout, inside)
						}
						turns++
						mu.Unlock()
						time.Sleep(time.Duration(i) * time.Millisecond)
						mu.Lock()
						inside--
						mu.Unlock()
						unlock(t, h)
					}
				})
			}
			all.Wait()
			synctest.Wait()
			if turns != 60 {
				t.Errorf("%s: %d turns", layout, turns)
			}
		})
	}
}
