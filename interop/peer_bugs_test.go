//go:build unix

package interop

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
)

// Bugs of other libraries in these very versions (Curator 5.4.0, kazoo 2.8.0, go-zookeeper
// 1.0.4, WriteLock of ZooKeeper 3.8.0) that break a lock shared with us. Each breaks the same
// way without us. docs/reference/peers.md has the table.
func TestPeersBreakAsTheyDoAlone(t *testing.T) {
	s := newStage(t)
	for _, bug := range []struct {
		name  string
		shown func(s *stage, withUs bool)
	}{
		{"kazoo's reader waits for a later writer (kazoo 649)", readerWaitsForLaterWriter},
		{"Curator's writer that became a reader does not keep writers out (CURATOR-621)", downgradeLetsWriterIn},
		{"WriteLock is not woken when the node ahead goes before it looks", writeLockMissesItsTurn},
		{"WriteLock whose create was answered by nobody never owns", writeLockForgetsItsName},
		{"go-zookeeper fails at a foreign child and leaves its node", foreignChildLeavesANode},
		{"kazoo's Semaphore fails on a node without data", semaphoreWithoutData},
	} {
		for _, withUs := range []bool{false, true} {
			name := bug.name + "/alone"
			if withUs {
				name = bug.name + "/with holdfast"
			}
			t.Run(name, func(t *testing.T) { bug.shown(s.in(t), withUs) })
		}
	}
}

// scene makes a directory that no other scene uses.
func (s *stage) scene() string {
	s.t.Helper()
	return s.directory(fmt.Sprintf("scene-%d", time.Now().UnixNano()))
}

// has asks for the lock and waits until the party holds it.
func (p party) has(t *testing.T) {
	t.Helper()
	p.begin()
	p.got(t)
}

func (p party) got(t *testing.T) {
	t.Helper()
	if got := p.result(); got != "done" {
		t.Fatalf("it did not get the lock: %s", got)
	}
}

// A writer holds; a reader comes, then another writer. When the first releases, the reader waits
// for the second writer, which came later. That writer waits for the reader.
func readerWaitsForLaterWriter(s *stage, withUs bool) {
	t, dir := s.t, s.scene()
	first, reader, second := s.told(s.python, "write", dir), s.told(s.python, "read", dir), s.told(s.python, "write", dir)
	ctx, giveUp := context.WithCancel(s.ctx)
	defer giveUp()
	if withUs {
		second = s.until(ctx, holdfast.NewRWMutex(s.admin, dir, holdfast.WithLayout(layout.Kazoo)))
	}
	first.has(t)
	reader.begin()
	s.children(dir, 2)
	second.begin()
	s.children(dir, 3)
	first.end()
	names := s.children(dir, 2)
	if !strings.Contains(names[0], "__rlock__") || !strings.Contains(names[1], "__lock__") {
		t.Fatalf("the queue is %v; want the reader, then the writer", names)
	}
	s.watched(path.Join(dir, names[0]), 1) // the writer waits for the reader, as it must
	s.watched(path.Join(dir, names[1]), 1) // and the reader for the writer: for ever
	if withUs {
		giveUp()
		if got := second.result(); !strings.Contains(got, context.Canceled.Error()) {
			t.Errorf("our writer: %s", got)
		}
	} else {
		must(t, s.admin.Delete(s.ctx, path.Join(dir, names[1]), zk.AnyVersion))
	}
	reader.got(t)
	reader.end()
}

// until returns our lock, which is wanted until ctx ends.
func (s *stage) until(ctx context.Context, l holdfast.Locker) party {
	c := *s
	c.ctx = ctx
	return c.our(l)
}

// A writer holds, another waits. The first takes the read side, too, and releases the write
// side. Then it holds as a reader, and the other should wait for it, but acquires.
func downgradeLetsWriterIn(s *stage, withUs bool) {
	t, dir := s.t, s.scene()
	who := s.java.actor()
	waiting := s.told(s.java, "write", dir)
	if withUs {
		waiting = s.our(holdfast.NewRWMutex(s.admin, dir))
	}
	s.java.do(t, who+" acquire write "+dir)
	waiting.begin()
	s.children(dir, 2)
	s.java.do(t, who+" acquire read "+dir)
	s.java.do(t, who+" release write "+dir)
	waiting.got(t)
	names := s.children(dir, 2)
	if !strings.Contains(names[0], "__WRIT__") || !strings.Contains(names[1], "__READ__") {
		t.Errorf("the nodes are %v; want the reader's behind the writer's", names)
	}
	s.java.do(t, who+" release read "+dir) // it holds the lock until here
	waiting.end()
}

// The other way round it works. A writer of ours that takes the read side gets its own number
// for it, and Curator's writer keeps waiting.
func TestCuratorsWriterWaitsForOurWriterThatBecameAReader(t *testing.T) {
	s := newStage(t)
	dir := s.scene()
	m := holdfast.NewRWMutex(s.admin, dir)
	w, err := m.Lock(s.ctx)
	must(t, err)
	curator := s.told(s.java, "write", dir)
	curator.begin()
	s.children(dir, 2)
	r, err := m.RLock(w.Context())
	must(t, err)
	must(t, w.Unlock())
	names := s.children(dir, 2)
	reader := path.Join(dir, names[0])
	if !strings.Contains(reader, "__READ__") || reader != r.Path() {
		t.Errorf("first in the queue is %s; want our reader, %s", reader, r.Path())
	}
	s.watched(reader, 2) // by its holder, which is ours, and by Curator
	must(t, r.Unlock())
	curator.got(t)
	curator.end()
}

// The node ahead goes after WriteLock has listed the children and before it looks at that node.
// WriteLock gives up. It is the first in the queue, and no event will ever wake it.
func writeLockMissesItsTurn(s *stage, withUs bool) {
	t, dir := s.t, s.scene()
	in := holdfast.WithLayout(layout.WriteLock)
	ahead, behind := s.told(s.java, "writelock", dir), s.told(s.java, "writelock", dir)
	if withUs {
		ahead, behind = s.our(holdfast.NewMutex(s.admin, dir, in)), s.our(holdfast.NewMutex(s.admin, dir, in))
	}
	ahead.has(t)
	who := s.java.actor()
	late := who + " acquire-late writelock " + dir
	s.java.tell(t, late)
	s.java.answer(t, who+" looks")
	ahead.end()
	names := s.children(dir, 1)
	s.java.tell(t, who+" go - -")
	if got := s.java.answer(t, late); got != "false" {
		t.Fatalf("lock() answers %s", got)
	}
	// Nobody is ahead, it does not own the lock, and it watches no node that will change.
	behind.begin()
	s.children(dir, 2)
	s.watched(path.Join(dir, names[0]), 1)
	s.java.tell(t, who+" owns writelock "+dir)
	if got := s.java.answer(t, who+" owns writelock "+dir); got != "false" {
		t.Errorf("isOwner() answers %s", got)
	}
	s.java.do(t, who+" acquire writelock "+dir) // it notices when it is asked again
	s.java.do(t, who+" release writelock "+dir)
	behind.got(t)
	behind.end()
}

// The node was made, and the answer lost. WriteLock finds it again by its name and forgets the
// directory in front of the name. From then on it never takes the first in the queue for itself.
func writeLockForgetsItsName(s *stage, withUs bool) {
	t, dir := s.t, s.scene()
	who := s.java.actor()
	behind := s.told(s.java, "writelock", dir)
	if withUs {
		behind = s.our(holdfast.NewMutex(s.admin, dir, holdfast.WithLayout(layout.WriteLock)))
	}
	lost := who + " acquire-lost writelock " + dir
	s.java.tell(t, lost)
	if got := s.java.answer(t, lost); got != "false" {
		t.Errorf("lock() answers %s, alone in the directory", got)
	}
	names := s.children(dir, 1)
	for range 3 {
		again := who + " acquire writelock " + dir
		s.java.tell(t, again)
		if got := s.java.answer(t, again); got != "false" {
			t.Errorf("lock() answers %s when asked again", got)
		}
	}
	behind.begin()
	s.children(dir, 2)
	// The waiter behind watches it, as it must, for ever. So does its owner, which finds its own
	// node ahead of itself. Without both watches, the other may miss its turn, see above.
	s.watched(path.Join(dir, names[0]), 2)
	must(t, s.admin.Delete(s.ctx, path.Join(dir, names[0]), zk.AnyVersion))
	behind.got(t)
	behind.end()
}

// A child that belongs to no lock makes go-zookeeper's Lock fail. The node it has already made
// stays as long as its session, ahead of all later clients.
func foreignChildLeavesANode(s *stage, withUs bool) {
	t, dir := s.t, s.scene()
	behind := s.rivals(dir)
	if withUs {
		behind = s.our(holdfast.NewMutex(s.admin, dir, holdfast.WithLayout(layout.GoZookeeper)))
	}
	_, _, err := s.admin.Create(s.ctx, dir+"/content", nil, zk.Persistent)
	must(t, err)
	c := connectRival(t, []string{s.addr}, 10*time.Second)
	l := rival.NewLock(c, dir, rival.WorldACL(rival.PermAll))
	if err := l.Lock(); err == nil {
		t.Fatal("go-zookeeper's Lock tolerates a foreign child")
	}
	if err := l.Unlock(); !errors.Is(err, rival.ErrNotLocked) {
		t.Errorf("Unlock: %v", err)
	}
	must(t, s.admin.Delete(s.ctx, dir+"/content", zk.AnyVersion))
	left := path.Join(dir, s.children(dir, 1)[0])
	behind.begin()
	s.watched(left, 1)
	c.Close()
	behind.got(t)
	behind.end()
}

// A directory whose data are null, not empty, as ZooKeeper's WriteLock makes it and zkCli can.
// kazoo parses the data before it checks whether there are any. Ours are empty.
func semaphoreWithoutData(s *stage, withUs bool) {
	t, dir := s.t, s.scene()
	if withUs {
		h, err := holdfast.NewSemaphore(s.admin, dir+"/made", 1, holdfast.WithLayout(layout.Kazoo)).Acquire(s.ctx, 1)
		must(t, err)
		must(t, h.Unlock())
		p := s.told(s.python, "semaphore", dir+"/made")
		p.has(t)
		p.end()
		return
	}
	_, _, err := s.admin.Create(s.ctx, dir+"/null", nil, zk.Persistent)
	must(t, err)
	p := s.told(s.python, "semaphore", dir+"/null")
	p.begin()
	if got := p.result(); !strings.Contains(got, "NoneType") {
		t.Errorf("it answers %s", got)
	}
}
