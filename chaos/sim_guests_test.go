package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/chaos"
	"holdfast/zk"
	"holdfast/zk/admin"
)

// Guests use package zk's client for other things than locks, beside the workers of the same client. The
// client must be right for them, too.
type guest struct {
	*world
	client *client
	number int
	rng    *rand.Rand
}

// invite starts some guests. The returned functions check what they leave behind, once everything is
// whole again.
func (w *world) invite(ctx context.Context, guests *sync.WaitGroup, locks []lockSpec) (checks []func()) {
	guestOf := func(i int) *guest {
		return &guest{world: w, client: w.clients[w.rng.IntN(len(w.clients))], number: i, rng: rand.New(rand.NewPCG(w.seed, uint64(2000+i)))}
	}
	if w.rng.IntN(4) == 0 {
		c := &clerk{guest: guestOf(0), root: "/clerk"}
		w.create(context.Background(), c.root)
		guests.Go(func() { c.work(ctx) })
	}
	if w.rng.IntN(4) == 0 {
		m := &mirror{guest: guestOf(1), root: locksRoot, mode: zk.WatchPersistentRecursive}
		if w.rng.IntN(3) == 0 {
			m.root, m.mode = locks[0].dirs[0], zk.WatchPersistent
		}
		guests.Go(func() { m.work(ctx) })
		checks = append(checks, m.check)
	}
	if w.rng.IntN(24) == 0 {
		b := &bungler{guestOf(2)}
		guests.Go(func() { b.work(ctx) })
	}
	if w.rng.IntN(8) == 0 {
		r := &runners{world: w, path: "/runners", inside: make(map[int]run)}
		for i, c := range w.clients {
			rng := rand.New(rand.NewPCG(w.seed, uint64(3000+i)))
			guests.Go(func() { r.run(ctx, c, rng) })
		}
	}
	w.inviteLeaders(ctx, guests)
	return checks
}

// excused reports whether a guest may see an error, because the world's faults explain it.
func excused(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrSessionExpired) ||
		errors.Is(err, zk.ErrClosed) || errors.Is(err, zk.ErrThrottled)
}

// A clerk does various things with nodes that no other client touches, and knows the expected results.
type clerk struct {
	*guest
	root    string
	of      *zk.Client
	session int64            // the session in which its knowledge is valid
	doubt   int64            // the session of a write with an unknown outcome; 0: none
	files   map[string]*file // by path
}

// A file is what a clerk knows of one node.
type file struct {
	exists    bool
	data      string
	version   int32
	ephemeral bool
}

func (k *clerk) work(ctx context.Context) {
	for ctx.Err() == nil && !k.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(k.rng.ExpFloat64()*float64(300*time.Millisecond)))
		once, cancel := context.WithTimeout(ctx, k.timeout)
		if k.settle(once) {
			k.step(once)
		}
		cancel()
	}
	once, cancel := context.WithTimeout(context.Background(), 10*k.timeout)
	defer cancel()
	k.files = nil
	for !k.settle(once) && once.Err() == nil {
	}
	for _, path := range k.paths() { // watches on leftover nodes would look like leaks
		k.of.Delete(once, path, zk.AnyVersion)
	}
}

// settle ensures that the clerk's reads from now on are not older than its writes: in another session,
// or after a write with an unknown outcome. After it, the clerk's knowledge is empty. The servers can still execute a
// write in doubt while they have its session. So settle fails until that session's node is gone.
func (k *clerk) settle(ctx context.Context) bool {
	k.of = k.client.zk.Load()
	s, err := k.of.Session(ctx)
	if err != nil {
		return false
	}
	if k.files != nil && k.session == s.ID() {
		return true
	}
	if _, _, err := s.Create(ctx, k.sessionNode(s.ID()), nil, zk.Ephemeral); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		if !excused(ctx, err) {
			k.found("clerk", k.root, "barrier: %v", err)
		}
		return false
	}
	if k.doubt != 0 && k.doubt != s.ID() {
		_, there, err := s.Exists(ctx, k.sessionNode(k.doubt))
		if err != nil && !excused(ctx, err) {
			k.found("clerk", k.root, "session's node: %v", err)
		}
		if err != nil || there {
			return false
		}
	}
	k.session, k.doubt, k.files = s.ID(), 0, make(map[string]*file)
	return true
}

// forget is called after a write with an unknown outcome.
func (k *clerk) forget() { k.files, k.doubt = nil, k.session }

func (k *clerk) sessionNode(id int64) string { return fmt.Sprintf("%s-session-%x", k.root, uint64(id)) }

func (k *clerk) paths() (all []string) {
	for i := range 5 {
		all = append(all, fmt.Sprintf("%s/n%d", k.root, i))
	}
	return all
}

// knows compares an outcome with the clerk's knowledge of a node, and reports whether the operation
// succeeded. want has the errors allowed if the node exists, and if not.
func (k *clerk) knows(ctx context.Context, path, op string, err error, there, absent error) bool {
	if zk.MayHaveHappened(err) {
		k.forget()
		return false
	}
	if err != nil && excused(ctx, err) {
		return false
	}
	f := k.files[path]
	want := absent
	if f != nil && f.exists {
		want = there
	}
	if f != nil && !errors.Is(err, want) {
		k.found("clerk", path, "%s: %v; want %v; it should be %+v", op, err, want, *f)
	}
	if f == nil && !errors.Is(err, there) && !errors.Is(err, absent) {
		k.found("clerk", path, "%s: %v; want %v or %v", op, err, there, absent)
	}
	return err == nil
}

// saw compares the result of a read.
func (k *clerk) saw(path string, data []byte, stat zk.Stat) {
	f := k.files[path]
	if f == nil {
		k.learn(path, string(data), stat)
		return
	}
	if f.data != string(data) || f.version != stat.Version {
		k.found("clerk", path, "read %q of version %d; want %+v", data, stat.Version, *f)
	}
}

// learn records a node. A node of an earlier session goes when that session ends.
func (k *clerk) learn(path, data string, stat zk.Stat) {
	delete(k.files, path)
	if owner := stat.EphemeralOwner; owner == 0 || owner == k.session {
		k.files[path] = &file{true, data, stat.Version, owner != 0}
	}
}

// step does one thing.
func (k *clerk) step(ctx context.Context) {
	path := k.paths()[k.rng.IntN(5)]
	data := fmt.Sprint(k.rng.IntN(1000))
	c := k.of
	session, err := c.Session(ctx)
	if err != nil || session.ID() != k.session {
		return
	}
	switch k.rng.IntN(12) {
	case 0:
		mode := []zk.Mode{zk.Persistent, zk.Ephemeral}[k.rng.IntN(2)]
		_, _, err := session.Create(ctx, path, []byte(data), mode)
		if k.knows(ctx, path, "create", err, zk.ErrNodeExists, nil) {
			k.files[path] = &file{true, data, 0, mode == zk.Ephemeral}
		}
	case 1:
		_, _, err := session.CreateTTL(ctx, path, []byte(data), zk.Persistent, time.Hour)
		if k.knows(ctx, path, "create for a time", err, zk.ErrNodeExists, nil) {
			k.files[path] = &file{true, data, 0, false}
		}
	case 2:
		stat, err := session.Set(ctx, path, []byte(data), zk.AnyVersion)
		if k.knows(ctx, path, "set", err, nil, zk.ErrNoNode) {
			if f := k.files[path]; f != nil && stat.Version != f.version+1 {
				k.found("clerk", path, "set made version %d of %d", stat.Version, f.version)
			}
			k.learn(path, data, stat)
		}
	case 3:
		err := session.Delete(ctx, path, zk.AnyVersion)
		if k.knows(ctx, path, "delete", err, nil, zk.ErrNoNode) || errors.Is(err, zk.ErrNoNode) {
			if k.files != nil {
				k.files[path] = &file{}
			}
		}
	case 4:
		got, stat, err := session.Get(ctx, path)
		if k.knows(ctx, path, "get", err, nil, zk.ErrNoNode) {
			k.saw(path, got, stat)
		}
	case 5:
		k.readMany(ctx, session)
	case 6:
		k.transaction(ctx, session, path, data)
	case 7:
		k.awaitChange(ctx, session, path, data)
	case 8:
		stat, err := session.SetACL(ctx, path, []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}, zk.AnyVersion)
		if k.knows(ctx, path, "set ACL", err, nil, zk.ErrNoNode) && stat.Aversion == 0 {
			k.found("clerk", path, "an ACL was set, and is still of version 0")
		}
		acl, _, err := session.GetACL(ctx, path)
		if k.knows(ctx, path, "get ACL", err, nil, zk.ErrNoNode) && (len(acl) != 1 || acl[0].Scheme != "world") {
			k.found("clerk", path, "its ACL is %+v", acl)
		}
	case 9:
		k.count(ctx, session)
	case 10:
		k.asks(ctx, c)
	default:
		names, _, err := session.Children(ctx, k.root)
		if err == nil {
			k.listed(names)
		} else if !excused(ctx, err) {
			k.found("clerk", k.root, "children: %v", err)
		}
	}
}

// listed compares the names of all nodes.
func (k *clerk) listed(names []string) {
	for path, f := range k.files {
		if there := slices.Contains(names, path[len(k.root)+1:]); there != f.exists {
			k.found("clerk", path, "it is listed: %v; it should be %+v", there, *f)
		}
	}
}

func (k *clerk) readMany(ctx context.Context, s *zk.Session) {
	var gets, exists []zk.Op
	for _, path := range k.paths() {
		gets, exists = append(gets, zk.GetOp(path)), append(exists, zk.ExistsOp(path))
	}
	var results []zk.Result
	var err error
	if k.rng.IntN(2) == 0 {
		results, err = s.MultiRead(ctx, append(gets, zk.ChildrenOp(k.root))...)
	} else {
		results, err = s.Pipeline(ctx, append(append(gets, zk.ChildrenOp(k.root)), exists...)...)
	}
	if len(results) == 0 || excused(ctx, err) {
		return
	}
	for i, path := range k.paths() {
		if k.knows(ctx, path, "get one of many", results[i].Err, nil, zk.ErrNoNode) {
			k.saw(path, results[i].Data, results[i].Stat)
		}
	}
	if results[5].Err == nil {
		k.listed(results[5].Children)
	}
}

// transaction sets one node and makes another, or neither.
func (k *clerk) transaction(ctx context.Context, s *zk.Session, path, data string) {
	f, g := k.files[path], k.files[k.paths()[0]]
	if f == nil || g == nil || path == k.paths()[0] {
		return
	}
	wrong := k.rng.IntN(3) == 0
	ops := []zk.Op{zk.CheckOp(k.root, zk.AnyVersion), zk.SetOp(path, []byte(data), f.version), zk.CreateTTLOp(k.paths()[0], []byte(data), zk.Persistent, time.Hour)}
	if wrong {
		ops = append(ops, zk.DeleteOp(k.root+"/none", zk.AnyVersion))
	}
	results, err := s.Multi(ctx, ops...)
	var want error
	switch {
	case !f.exists:
		want = zk.ErrNoNode
	case g.exists:
		want = zk.ErrNodeExists
	case wrong:
		want = zk.ErrNoNode
	}
	switch {
	case zk.MayHaveHappened(err):
		k.forget()
	case err != nil && excused(ctx, err):
	case !errors.Is(err, want):
		k.found("clerk", path, "transaction: %v; want %v; the nodes should be %+v and %+v", err, want, *f, *g)
	case err == nil:
		if results[1].Stat.Version != f.version+1 || results[2].Path != k.paths()[0] {
			k.found("clerk", path, "results of a transaction: %+v", results)
		}
		k.files[path] = &file{true, data, f.version + 1, f.ephemeral}
		k.files[k.paths()[0]] = &file{true, data, 0, false}
	}
}

// awaitChange sets a watch, changes the node, and expects the event.
func (k *clerk) awaitChange(ctx context.Context, s *zk.Session, path, data string) {
	_, there, watch, err := s.ExistsW(ctx, path)
	if err != nil {
		if !excused(ctx, err) {
			k.found("clerk", path, "exists: %v", err)
		}
		return
	}
	defer watch.Stop()
	if f := k.files[path]; f != nil && f.exists != there {
		k.found("clerk", path, "it exists: %v; it should be %+v", there, *f)
	}
	var want zk.EventType
	if there {
		want = zk.EventNodeDeleted
		err = s.Delete(ctx, path, zk.AnyVersion)
		if k.knows(ctx, path, "delete", err, nil, zk.ErrNoNode) {
			k.files[path] = &file{}
		}
	} else {
		want = zk.EventNodeCreated
		_, _, err = s.Create(ctx, path, []byte(data), zk.Persistent)
		if k.knows(ctx, path, "create", err, zk.ErrNodeExists, nil) {
			k.files[path] = &file{true, data, 0, false}
		}
	}
	if err != nil {
		return
	}
	select { // the answer comes after the event
	case ev := <-watch.C:
		if ev.Type != want && ev.Err == nil {
			k.found("clerk", path, "event %+v; want %v", ev, want)
		}
	case <-time.After(10 * time.Millisecond):
		if s.Context().Err() == nil {
			k.found("clerk", path, "no event; want %v", want)
		}
	}
}

// count compares the number of nodes, and which of them the session owns.
func (k *clerk) count(ctx context.Context, s *zk.Session) {
	n, err := admin.AllChildrenNumber(ctx, s, k.root)
	owned, ownErr := s.Ephemerals(ctx, k.root+"/")
	if err != nil || ownErr != nil || len(k.files) < len(k.paths()) {
		if !excused(ctx, err) && !excused(ctx, ownErr) && errors.Join(err, ownErr) != nil {
			k.found("clerk", k.root, "count: %v, %v", err, ownErr)
		}
		return
	}
	want := 0
	for path, f := range k.files {
		if f.exists {
			want++
		}
		if f.exists && f.ephemeral != slices.Contains(owned, path) {
			k.found("clerk", path, "among the session's nodes: %v; it should be %+v", !f.ephemeral, *f)
		}
	}
	if n != want {
		k.found("clerk", k.root, "%d nodes; want %d", n, want)
	}
}

// asks queries the server about itself and the client.
func (k *clerk) asks(ctx context.Context, c *zk.Client) {
	e, _, watch, err := admin.ConfigW(ctx, c)
	if err == nil {
		watch.Stop()
		if len(e.Members) == 1 {
			k.found("clerk", k.root, "an ensemble of one: %+v", e)
		}
	}
	_, who := admin.WhoAmI(ctx, c)
	_, _, reconfig := admin.Reconfig(ctx, c, admin.Reconfiguration{Leave: []int64{9}}, zk.AnyVersion)
	for _, err := range []error{err, who} {
		if err != nil && !excused(ctx, err) {
			k.found("clerk", k.root, "asked: %v", err)
		}
	}
	if !excused(ctx, reconfig) && !errors.Is(reconfig, admin.ErrReconfigDisabled) && !errors.Is(reconfig, zk.ErrUnimplemented) {
		k.found("clerk", k.root, "reconfig: %v", reconfig)
	}
}

// A mirror keeps a copy of a tree, or of a list of children, by a persistent watch.
type mirror struct {
	*guest
	root string
	mode zk.WatchMode

	mu   sync.Mutex       // guards the field below
	copy map[string]int64 // the zxid of each node's latest change, by path
}

func (m *mirror) work(ctx context.Context) {
	for ctx.Err() == nil {
		c := m.client.zk.Load()
		watch, err := c.AddWatch(ctx, m.root, m.mode)
		if err != nil {
			if !excused(ctx, err) {
				m.found("mirror", m.root, "add watch: %v", err)
			}
			(&worker{}).sleep(ctx, 50*time.Millisecond)
			continue
		}
		m.follow(ctx, c, watch)
		watch.Stop()
	}
}

// follow updates the copy until the watch ends, with its session.
func (m *mirror) follow(ctx context.Context, c *zk.Client, watch *zk.PersistentWatch) {
	whole := false // the copy is complete, or will be after the events in flight
	for {
		if !whole {
			whole = m.readAll(ctx, c)
		}
		var again <-chan time.Time
		if !whole {
			again = time.After(50 * time.Millisecond)
		}
		select {
		case ev, more := <-watch.C:
			changed := make(map[string]bool)
			for more && ev.Err == nil {
				changed[ev.Path] = true
				if len(watch.C) == 0 {
					break
				}
				ev, more = <-watch.C
			}
			switch {
			case !more || ev.Err != nil && !errors.Is(ev.Err, zk.ErrEventsMissed):
				return
			case ev.Err != nil || m.mode == zk.WatchPersistent:
				whole = false
			default:
				whole = whole && m.update(ctx, c, slices.Sorted(maps.Keys(changed)))
			}
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// readAll reads everything.
func (m *mirror) readAll(ctx context.Context, c *zk.Client) bool {
	all, err := m.read(ctx, c)
	if err != nil {
		if !excused(ctx, err) {
			m.found("mirror", m.root, "read: %v", err)
		}
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copy = all
	return true
}

func (m *mirror) read(ctx context.Context, c *zk.Client) (map[string]int64, error) {
	all := make(map[string]int64)
	var walk func(path string, deep bool) error
	walk = func(path string, deep bool) error {
		names, stat, err := c.Children(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.mode == zk.WatchPersistentRecursive {
			all[path] = stat.Mzxid
		}
		slices.Sort(names)
		for _, name := range names {
			below := strings.TrimSuffix(path, "/") + "/" + name
			if m.mode == zk.WatchPersistent {
				all[below] = 0
			} else if err := walk(below, deep); err != nil {
				return err
			}
		}
		return nil
	}
	err := walk(m.root, true)
	return all, err
}

// update reads the changed nodes again.
func (m *mirror) update(ctx context.Context, c *zk.Client, changed []string) bool {
	if m.rng.IntN(64) == 0 { // a slow reader misses events, and is told so
		(&worker{}).sleep(ctx, time.Second)
	}
	var ops []zk.Op
	for _, path := range changed {
		ops = append(ops, zk.ExistsOp(path))
	}
	results, _ := c.Pipeline(ctx, ops...)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range results {
		switch {
		case r.Err == nil:
			m.copy[changed[i]] = r.Stat.Mzxid
		case errors.Is(r.Err, zk.ErrNoNode):
			delete(m.copy, changed[i])
		default:
			return false
		}
	}
	return results != nil
}

// check compares the copy with the tree. By now nothing changes but the removal of containers.
func (m *mirror) check() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var want map[string]int64
	var err error
	for range 20 {
		want, err = m.read(ctx, m.admin)
		m.mu.Lock()
		same := maps.Equal(want, m.copy)
		m.mu.Unlock()
		if err == nil && same {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.world.mu.Lock()
	m.wrong = append(m.wrong, chaos.Violation{Oracle: "mirror", Lock: m.root, Text: fmt.Sprintf("the copy of client %d is %v; want %v (%v)", m.client.number, m.copy, want, err)})
	m.world.mu.Unlock()
}
