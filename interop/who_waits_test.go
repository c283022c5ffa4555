//go:build unix

package interop

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/layout"
)

// A party takes a lock once.
type party struct {
	begin  func()        // asks for the lock
	result func() string // waits until it has the lock: "done", or the error
	end    func()        // releases it
	watch  int           // 1 if the holder watches its own node
}

// told returns a recipe of a program on a stage.
func (s *stage) told(p *lockProgram, recipe, dir string) party {
	t, who := s.t, p.actor()
	line := fmt.Sprintf("%s acquire %s %s", who, recipe, dir)
	return party{
		begin: func() { p.tell(t, line) },
		result: func() string {
			got := p.answer(t, line)
			for recipe == "writelock" && got == "false" { // it does not block
				owns := fmt.Sprintf("%s owns %s %s", who, recipe, dir)
				p.tell(t, owns)
				got = p.answer(t, owns)
			}
			return strings.Replace(got, "true", "done", 1)
		},
		end: func() { p.do(t, fmt.Sprintf("%s release %s %s", who, recipe, dir)) },
	}
}

// our returns one of our locks.
func (s *stage) our(l holdfast.Locker) party {
	t, done := s.t, make(chan error, 1)
	var h *holdfast.Hold
	return party{
		begin: func() {
			go func() {
				var err error
				h, err = l.Lock(s.ctx)
				done <- err
			}()
		},
		result: func() string { return outcome(<-done) },
		end:    func() { must(t, h.Unlock()) },
		watch:  1,
	}
}

// rivals returns go-zookeeper's Lock, with its own session, which ends with the release.
func (s *stage) rivals(dir string) party {
	t, done := s.t, make(chan error, 1)
	c := connectRival(t, []string{s.addr}, 10*time.Second)
	l := rival.NewLock(c, dir, rival.WorldACL(rival.PermAll))
	return party{
		begin:  func() { go func() { done <- l.Lock() }() },
		result: func() string { return outcome(<-done) },
		end:    c.Close,
	}
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "done"
}

// The table of waiting in one directory. The first party comes and holds. The second comes and
// waits (it watches the node, and acquires the lock when the node is gone), or acquires beside,
// or fails. holdfast and the library whose layout it uses make the same nodes. Only rows and
// columns of one layout are meant to share a directory. Where those acquire beside each other,
// the libraries do so among themselves, too.
func TestWhoWaitsForWhoseNode(t *testing.T) {
	s := newStage(t)
	arrivers := []struct {
		name string
		of   func(s *stage, dir string) party
	}{
		{"Curator's mutex", func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) }},
		{"Curator's write lock", func(s *stage, dir string) party { return s.told(s.java, "write", dir) }},
		{"go-zookeeper", func(s *stage, dir string) party { return s.rivals(dir) }},
		{"kazoo's Lock", func(s *stage, dir string) party { return s.told(s.python, "lock", dir) }},
		{"kazoo's Lock with -lock-", func(s *stage, dir string) party { return s.told(s.python, "lock-and-others", dir) }},
		{"kazoo's WriteLock", func(s *stage, dir string) party { return s.told(s.python, "write", dir) }},
		{"ZooKeeper's WriteLock", func(s *stage, dir string) party { return s.told(s.java, "writelock", dir) }},
	}
	in := holdfast.WithLayout
	for _, row := range []struct {
		holder string
		of     func(s *stage, dir string) party // the library's party
		ours   func(dir string) holdfast.Locker // our lock with the same node
		want   string                           // per arriving party: waits, beside, or fails
	}{
		{"Curator's mutex", func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) },
			func(dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) },
			"waits beside waits beside waits beside waits"},
		{"Curator's write lock", func(s *stage, dir string) party { return s.told(s.java, "write", dir) },
			func(dir string) holdfast.Locker { return holdfast.NewRWMutex(s.admin, dir) },
			"beside waits waits beside beside beside beside"},
		{"Curator's read lock", func(s *stage, dir string) party { return s.told(s.java, "read", dir) },
			func(dir string) holdfast.Locker { return holdfast.NewRWMutex(s.admin, dir).RLocker() },
			"beside waits waits beside beside beside beside"},
		{"go-zookeeper", func(s *stage, dir string) party { return s.rivals(dir) },
			func(dir string) holdfast.Locker {
				return holdfast.NewMutex(s.admin, dir, in(layout.GoZookeeper))
			},
			"waits beside waits beside waits beside waits"},
		{"kazoo's Lock", func(s *stage, dir string) party { return s.told(s.python, "lock", dir) },
			func(dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir, in(layout.Kazoo)) },
			"beside beside waits waits waits waits beside"},
		{"kazoo's ReadLock", func(s *stage, dir string) party { return s.told(s.python, "read", dir) },
			func(dir string) holdfast.Locker {
				return holdfast.NewRWMutex(s.admin, dir, in(layout.Kazoo)).RLocker()
			},
			"beside beside waits beside beside waits beside"},
		{"ZooKeeper's WriteLock", func(s *stage, dir string) party { return s.told(s.java, "writelock", dir) },
			func(dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir, in(layout.WriteLock)) },
			"beside beside fails beside beside beside waits"},
	} {
		want := strings.Fields(row.want)
		for i, arriver := range arrivers {
			for _, who := range []string{"the library", "holdfast"} {
				fine := t.Run(fmt.Sprintf("%s, held by %s/%s %s", row.holder, who, arriver.name, want[i]), func(t *testing.T) {
					s := s.in(t)
					dir := s.directory(fmt.Sprintf("who-%d", time.Now().UnixNano()))
					holder := row.of
					if who == "holdfast" {
						holder = func(s *stage, dir string) party { return s.our(row.ours(dir)) }
					}
					meet(s, dir, holder(s, dir), arriver.of(s, dir), want[i])
				})
				if !fine { // a hanging party would hang again and again
					return
				}
			}
		}
	}
}

// meet lets one party hold and another come.
func meet(s *stage, dir string, holder, arriver party, want string) {
	t := s.t
	t.Helper()
	holder.begin()
	if got := holder.result(); got != "done" {
		t.Fatalf("the holder: %s", got)
	}
	node := path.Join(dir, s.children(dir, 1)[0])
	arriver.begin()
	if want == "waits" {
		s.watched(node, holder.watch+1)
		holder.end()
		if got := arriver.result(); got != "done" {
			t.Errorf("after its wait: %s", got)
		}
		arriver.end()
		s.children(dir, 0)
		return
	}
	got := arriver.result()
	if (want == "beside") != (got == "done") {
		t.Errorf("%s; want %s", got, want)
	}
	arriver.end()
	holder.end()
	s.children(dir, 0)
}
