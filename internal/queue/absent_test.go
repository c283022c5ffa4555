package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// at returns a lock of another path.
func at(c *zk.Client, path string) locker {
	l := mutexAt(c)
	q := *l.Queue
	q.Path = path
	q.Surround(path, nil)
	l.Queue = &q
	return l
}

// reads counts the looks at directories of trees.
func reads(srv *zktest.Server) (taken func() []string) {
	var all []string
	srv.Intercept(zkproto.OpExists, func(path string) zktest.Action {
		all = append(all, path)
		return zktest.Pass
	})
	return func() []string {
		synctest.Wait()
		some := all
		all = nil
		return some
	}
}

// A session reads the directories of trees once, and again after an event, a while, or where it watches enough.
func TestAbsentTreesAreNotReadAgain(t *testing.T) {
	defer func(n int) { MostWatched = n }(MostWatched)
	MostWatched = 3
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		taken := reads(srv)
		want := func(path, when string, want ...string) {
			t.Helper()
			unlock(t, lock(t, at(c, path)))
			if got := taken(); !slices.Equal(got, want) {
				t.Errorf("%s: read %q; want %q", when, got, want)
			}
		}
		lock(t, at(other, "/a/b/c/d")) // makes the directories
		taken()
		want("/a/b/c", "first", "/a/%2F", "/a/b/%2F")
		want("/a/b/c", "second")
		want("/a/b/d", "another lock beside it")
		want("/a/b/c/e", "another directory", "/a/b/c/%2F")
		want("/a/b/c/e", "again")
		want("/x/y", "one more than it watches", "/x/%2F", "/x/%2F") // again when it has made the directory
		want("/x/y", "the same again", "/x/%2F")
		if _, _, err := other.Create(t.Context(), "/a/b/%2F", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		want("/a/b/c", "it is there", "/a/b/%2F")
		want("/a/b/c", "it is still there", "/a/b/%2F")
		if err := other.Delete(t.Context(), "/a/b/%2F", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		want("/a/b/c", "it is gone", "/a/b/%2F")
		want("/a/b/c", "it is still gone")
		time.Sleep(2 * lookAgainAfter)
		want("/x/y", "the others have not been used for long", "/x/%2F")
		want("/x/y", "there is room now")
		want("/a/b/c", "after a while", "/a/%2F", "/a/b/%2F")
		want("/a/b/c", "after a while, again")
	})
}

// Many goroutines that look at once leave one watch for each directory, and see a tree that comes.
func TestAbsentTreesAreWatchedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		var all []*waiter
		for i := range 20 {
			all = append(all, wait(t.Context(), at(c, fmt.Sprintf("/locks/%d", i))))
		}
		for _, w := range all {
			unlock(t, w.got(t))
		}
		session, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(absences.In(session).m); n != 1 || !absences.In(session).has("/locks/%2F") {
			t.Errorf("%d directories are known; want one, which is absent", n)
		}
		root := at(client(t, srv), "/locks/%2F")
		h := lock(t, root)
		synctest.Wait() // the event of the other session
		if absences.In(session).has("/locks/%2F") {
			t.Error("the directory is there")
		}
		if _, err := at(c, "/locks/1").Lock(t.Context()); err == nil {
			t.Error("held beside a tree")
		}
		unlock(t, h)
	})
}

// Everybody may read the directory of a tree's root, whatever the ACL of the tree.
func TestDirectoryOfATreeCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		l := mutexIn(c, names.Default, zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"})
		q := *l.Queue
		q.Path = "/locks/" + TreeRoot
		l.Queue = &q
		unlock(t, lock(t, l))
		for path, want := range map[string]bool{"/locks": false, "/locks/%2F": true} {
			if _, _, err := c.Children(t.Context(), path); (err == nil) != want {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}
