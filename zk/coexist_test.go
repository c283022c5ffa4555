package zk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A watchServer models how Apache's server keeps watches (WatchManager, WatcherModeManager,
// DataTree.setWatches), with a few nodes that always exist.
type watchServer struct {
	t        *testing.T
	separate bool // since 3.9; older servers have one mode per path and table

	mu    sync.Mutex // guards the fields below
	peer  *peer
	data  map[string]map[serverMode]bool // of the current connection
	child map[string]map[serverMode]bool
	zxid  int64
	stat  map[string]*Stat
	log   []change
}

type serverMode int

const (
	standard serverMode = iota
	persistent
	recursive
)

type change struct {
	zxid int64
	typ  EventType
	path string
}

func newWatchServer(t *testing.T, separate bool, paths ...string) *watchServer {
	s := &watchServer{t: t, separate: separate, zxid: 1, stat: make(map[string]*Stat)}
	for _, p := range paths {
		s.stat[p] = &Stat{Mzxid: 1, Pzxid: 1}
	}
	return s
}

func (s *watchServer) add(table map[string]map[serverMode]bool, path string, mode serverMode) {
	if table[path] == nil || !s.separate {
		table[path] = make(map[serverMode]bool)
	}
	table[path][mode] = true
}

// remove removes the one-shot watch, or all watches; before 3.9 the two are the same.
func (s *watchServer) remove(table map[string]map[serverMode]bool, path string, all bool) (found bool) {
	if all || !s.separate {
		found = table[path] != nil
		delete(table, path)
		return found
	}
	found = table[path][standard]
	delete(table[path], standard)
	return found
}

// trigger changes a node.
func (s *watchServer) trigger(typ EventType, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	s.log = append(s.log, change{s.zxid, typ, path})
	table := s.data
	if typ == EventNodeChildrenChanged {
		s.stat[path].Pzxid = s.zxid
		table = s.child
	} else {
		s.stat[path].Mzxid = s.zxid
	}
	modes := table[path]
	hit := modes[standard] || modes[persistent]
	if delete(modes, standard); len(modes) == 0 {
		delete(table, path)
	}
	for at := path; at != "" && typ != EventNodeChildrenChanged; at = at[:strings.LastIndexByte(at, '/')] {
		hit = hit || table[at][recursive]
	}
	if hit {
		s.peer.event(typ, path)
	}
}

func (s *watchServer) setWatches(m *zkproto.SetWatchesRequest) {
	for _, path := range m.Data {
		if s.stat[path].Mzxid > m.RelativeZxid {
			s.peer.event(EventNodeDataChanged, path)
		} else {
			s.add(s.data, path, standard)
		}
	}
	for _, path := range m.Child {
		if s.stat[path].Pzxid > m.RelativeZxid {
			s.peer.event(EventNodeChildrenChanged, path)
		} else {
			s.add(s.child, path, standard)
		}
	}
}

func (s *watchServer) serve(p *peer) {
	p.accept(7, 10*time.Second)
	s.mu.Lock()
	s.peer, s.data, s.child = p, make(map[string]map[serverMode]bool), make(map[string]map[serverMode]bool)
	s.mu.Unlock()
	for {
		h, r := p.request()
		if h.Op == zkproto.OpCloseSession {
			p.answer(h.Xid, 0, 0, nil)
		}
		if h.Op == zkproto.OpCloseSession || h.Op == 0 {
			return
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		s.mu.Lock()
		if s.peer == p { // the session has not moved to another connection
			s.handle(p, h, r)
		}
		s.mu.Unlock()
		time.Sleep(rand.N(time.Millisecond))
	}
}

func (s *watchServer) handle(p *peer, h zkproto.RequestHeader, r *zkproto.Reader) {
	var reply encoder
	code := zkproto.CodeOK
	switch h.Op {
	case zkproto.OpGetData, zkproto.OpGetChildren2:
		var m zkproto.ReadRequest
		m.Decode(r)
		table := s.data
		reply = &zkproto.GetDataResponse{Stat: *s.stat[m.Path]}
		if h.Op == zkproto.OpGetChildren2 {
			table = s.child
			reply = &zkproto.Children2Response{Stat: *s.stat[m.Path]}
		}
		if m.Watch {
			s.add(table, m.Path, standard)
		}
	case zkproto.OpAddWatch:
		var m zkproto.AddWatchRequest
		m.Decode(r)
		if rand.N(10) == 0 {
			code = zkproto.CodeThrottled
			break
		}
		reply = &zkproto.ErrorResponse{}
		s.add(s.data, m.Path, persistent+serverMode(m.Mode))
		s.add(s.child, m.Path, persistent+serverMode(m.Mode))
	case zkproto.OpSetWatches:
		var m zkproto.SetWatchesRequest
		m.Decode(r)
		s.setWatches(&m)
	case zkproto.OpSetWatches2:
		var m zkproto.SetWatches2Request
		m.Decode(r)
		s.setWatches(&m.SetWatchesRequest)
		for _, table := range []map[string]map[serverMode]bool{s.data, s.child} {
			for _, path := range m.Persistent {
				s.add(table, path, persistent)
			}
			for _, path := range m.PersistentRecursive {
				s.add(table, path, recursive)
			}
		}
	case zkproto.OpRemoveWatches:
		var m zkproto.RemoveWatchesRequest
		m.Decode(r)
		all, found := m.Kind == zkproto.WatchAny, false
		if all || m.Kind == zkproto.WatchData {
			found = s.remove(s.data, m.Path, all)
		}
		if all || m.Kind == zkproto.WatchChildren {
			found = s.remove(s.child, m.Path, all) || found
		}
		if !found {
			code = zkproto.CodeNoWatcher
		}
	}
	p.answer(h.Xid, s.zxid, code, reply)
}

func (s *watchServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer.nc.Close()
}

// A user performs random operations with watches, and records the events that it must get.
type user struct {
	t        *testing.T
	c        *Client
	srv      *watchServer
	paths    []string
	rnd      *rand.Rand
	oneShots []oneShot
	lasting  []lasting
}

type oneShot struct {
	*Watch
	stat Stat
}

type lasting struct {
	*PersistentWatch
	since int64 // the user must hear of later changes
	heard map[change]int
	all   bool // it was told that it missed events
}

func (u *user) path() string { return u.paths[u.rnd.IntN(len(u.paths))] }

func (u *user) step(ctx context.Context) {
	if u.rnd.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(u.rnd.Int64N(int64(5*time.Millisecond))))
		defer cancel()
	}
	var err error
	switch n := u.rnd.IntN(20); {
	case n < 4:
		_, stat, w, e := u.c.GetW(ctx, u.path())
		if err = e; err == nil {
			u.oneShots = append(u.oneShots, oneShot{w, stat})
		}
	case n < 8:
		_, stat, w, e := u.c.ChildrenW(ctx, u.path())
		if err = e; err == nil {
			u.oneShots = append(u.oneShots, oneShot{w, stat})
		}
	case n < 12:
		w, e := u.c.AddWatch(ctx, u.path(), WatchMode(u.rnd.IntN(2)))
		if err = e; err == nil {
			u.srv.mu.Lock()
			u.lasting = append(u.lasting, lasting{PersistentWatch: w, since: u.srv.zxid, heard: make(map[change]int)})
			u.srv.mu.Unlock()
		}
	case n < 15 && len(u.lasting) > 0:
		i := u.rnd.IntN(len(u.lasting))
		u.lasting[i].Stop()
		u.lasting = slices.Delete(u.lasting, i, i+1)
	case n < 16 && len(u.oneShots) > 0:
		i := u.rnd.IntN(len(u.oneShots))
		u.oneShots[i].Stop()
		u.oneShots = slices.Delete(u.oneShots, i, i+1)
	case n < 19:
		u.srv.trigger([]EventType{EventNodeDataChanged, EventNodeChildrenChanged}[u.rnd.IntN(2)], u.path())
	case n < 20 && u.rnd.IntN(3) == 0:
		u.srv.cut()
	}
	for _, harmless := range []error{ErrConnectionLoss, context.DeadlineExceeded, ErrBadArguments, ErrThrottled} {
		if errors.Is(err, harmless) {
			err = nil
		}
	}
	if err != nil {
		u.t.Error(err)
	}
	time.Sleep(time.Duration(u.rnd.Int64N(int64(4 * time.Millisecond))))
}

// check requires that every change since the user began to watch was reported.
func (u *user) check(when string) {
	u.srv.mu.Lock()
	defer u.srv.mu.Unlock()
	for _, w := range u.oneShots {
		now, changed := u.srv.stat[w.path()], false
		if w.kind == watchChild {
			changed = now.Pzxid > w.stat.Pzxid
		} else {
			changed = now.Mzxid > w.stat.Mzxid
		}
		if changed && len(w.c) == 0 {
			u.t.Errorf("%s: the one-shot watch of kind %d on %s got no event", when, w.kind, w.path())
		}
	}
	for i := range u.lasting {
		w := &u.lasting[i]
		for range len(w.c) {
			e := <-w.C
			w.all = w.all || e.Err != nil
			w.heard[change{0, e.Type, e.Path}]++
		}
		want := make(map[change]int)
		for _, c := range u.srv.log {
			mine := c.path == w.path && w.mode == WatchPersistent ||
				w.mode == WatchPersistentRecursive && (c.path + "/")[:min(len(w.path)+1, len(c.path)+1)] == w.path+"/" && c.typ != EventNodeChildrenChanged
			if c.zxid > w.since && mine {
				want[change{0, c.typ, c.path}]++
			}
		}
		for c, n := range want {
			if !w.all && w.heard[c] < n {
				u.t.Errorf("%s: the watch of mode %d on %s got %d events of %v %s; want %d", when, w.mode, w.path, w.heard[c], c.typ, c.path, n)
			}
		}
	}
}

// Several users of one client act at the same time, and the connection breaks at any time. No
// watch stops working, no event is lost without a report, and nothing leaks.
func TestWatchesOfAllKindsLiveSideBySide(t *testing.T) {
	for _, separate := range []bool{false, true} {
		for seed := range uint64(100) {
			name := fmt.Sprintf("modes apart %v, seed %d", separate, seed)
			synctest.Test(t, func(t *testing.T) { sideBySide(t, name, separate, seed) })
			if t.Failed() {
				return
			}
		}
	}
}

func sideBySide(t *testing.T, name string, separate bool, seed uint64) {
	paths := []string{"/a", "/a/b", "/c"}
	srv := newWatchServer(t, separate, paths...)
	c := dialTest(t, 10*time.Second, srv.serve)
	users := make([]*user, 4)
	var wg sync.WaitGroup
	if _, _, err := c.Get(t.Context(), "/a"); err != nil {
		t.Fatal(err) // the server knows its connection now
	}
	for i := range users {
		u := &user{t: t, c: c, srv: srv, paths: paths, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		users[i] = u
		wg.Go(func() {
			for range 15 {
				u.step(t.Context())
			}
		})
	}
	wg.Wait()
	quiesce := func() {
		for range 3 { // one read may cause another
			time.Sleep(200 * time.Millisecond)
			if _, _, err := c.Get(t.Context(), "/a"); err != nil && !errors.Is(err, ErrConnectionLoss) {
				t.Error(err)
			}
		}
		synctest.Wait()
	}
	quiesce()
	for _, u := range users {
		u.check(name + ", when all is quiet")
	}
	for _, path := range paths {
		srv.trigger(EventNodeDataChanged, path)
		srv.trigger(EventNodeChildrenChanged, path)
	}
	synctest.Wait()
	for _, u := range users {
		u.check(name + ", at the end")
		for _, w := range u.lasting {
			w.Stop()
		}
		for _, w := range u.oneShots {
			w.Stop()
		}
	}
	quiesce()
	if requests, watches := c.Left(); requests != 0 || watches != 0 {
		t.Errorf("%s: %d requests and %d watches are left", name, requests, watches)
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, table := range []map[string]map[serverMode]bool{srv.data, srv.child} {
		for path, modes := range table {
			if modes[persistent] || modes[recursive] {
				t.Errorf("%s: the server still has a persistent watch on %s", name, path)
			}
		}
	}
}
