package zkserver

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// A state is the part of a server's state that survives a restart: every node's record without its
// times, which are checked apart, and the sessions.
type state struct {
	nodes    map[string]string
	sessions map[int64]bool
	sum      [16]byte            // of all of these, in no order
	made     map[string][2]int64 // not the times, but the zxids of creation and change
}

func newState() *state {
	return &state{nodes: make(map[string]string), sessions: make(map[int64]bool), made: make(map[string][2]int64)}
}

func (s *state) toggle(kind byte, key, value string) {
	h := sha256.New()
	fmt.Fprintf(h, "%c%d:%s", kind, len(key), key)
	h.Write([]byte(value))
	sum := h.Sum(nil)
	for i := range s.sum {
		s.sum[i] ^= sum[i]
	}
}

func (s *state) setSession(id int64, there bool) {
	if s.sessions[id] != there {
		s.toggle('s', fmt.Sprint(id), "")
	}
	if there {
		s.sessions[id] = true
	} else {
		delete(s.sessions, id)
	}
}

// update copies the tree's record of path.
func (s *state) update(t *tree.Tree, path string) {
	if old, there := s.nodes[path]; there {
		s.toggle('n', path, old)
		delete(s.nodes, path)
		delete(s.made, path)
	}
	record, there := wholeRecord(t, path)
	if !there {
		return
	}
	r := zkproto.NewReader(record)
	r.Bytes()
	zkproto.DecodeACLs(r)
	fixed := record[len(record)-r.Remaining():]
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(fixed[8*i:])) }
	// czxid, mzxid, pzxid, ctime, mtime, owner
	s.made[path] = [2]int64{at(0), at(1)}
	clear(fixed[24:40])
	s.nodes[path] = string(record)
	s.toggle('n', path, string(record))
}

// wholeRecord returns the records of a node as one, as format 3 had it: the data, the ACL, the zxids, the times, the
// owner, the versions, and the rest.
func wholeRecord(t *tree.Tree, path string) ([]byte, bool) {
	super := tree.Identity{Scheme: tree.Super}
	data, stat, code := t.Get(path, super)
	if code != zkproto.CodeOK {
		return nil, false
	}
	acl, _, _ := t.ACL(path, super)
	b := zkproto.AppendACLs(zkproto.AppendBytes(nil, data), acl)
	for _, v := range [...]int64{stat.Czxid, stat.Mzxid, stat.Pzxid, stat.Ctime, stat.Mtime, stat.EphemeralOwner} {
		b = zkproto.AppendInt64(b, v)
	}
	for _, v := range [...]int32{stat.Version, (stat.Cversion + stat.NumChildren) / 2, stat.Aversion} {
		b = zkproto.AppendInt32(b, v)
	}
	record, _ := t.AppendRecord(nil, path, tree.PartNode)
	return append(b, record[len(zkproto.AppendBytes(nil, data))+44:]...), true
}

func ctimeAndMtime(t *tree.Tree, path string) (ctime, mtime int64) {
	record, _ := wholeRecord(t, path)
	r := zkproto.NewReader(record)
	r.Bytes()
	zkproto.DecodeACLs(r)
	for range 3 {
		r.Int64()
	}
	return r.Int64(), r.Int64()
}

var builtIns = []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}

// A survivor is the state that a server finds in a directory.
type survivor struct {
	*state
	server *Server
}

// spiedStore records which nodes were loaded.
type spiedStore struct {
	store.Store
	paths []string
}

func (s *spiedStore) Load(init store.Meta, v store.Visitor) (store.Meta, error) {
	node := v.Node
	v.Node = func(path string, part byte, record []byte) error {
		if !slices.Contains(builtIns, path) && part == byte(tree.PartNode) {
			s.paths = append(s.paths, path)
		}
		return node(path, part, record)
	}
	return s.Store.Load(init, v)
}

// complaints collects the errors in the log.
type complaints struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (c *complaints) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines.Write(b)
}

func (c *complaints) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (c *complaints) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines.Len() > 0 {
		return fmt.Errorf("logged: %s", c.lines.String())
	}
	return nil
}

// small is the reserved size of a journal with which the store merges a snapshot every few kilobytes.
const small = 8 << 10

// survive opens the store in fs as a server would, and closes it again.
func survive(fs *crashfs.FS) (*survivor, error) {
	var logged complaints
	st := store.OpenOn(fs, small)
	spy := &spiedStore{Store: st}
	s := &Server{cfg: Config{Logger: logged.logger()}, store: spy}
	s.limited.Store(new(Limits)) // the tree has no bounds
	if err := s.load(store.Meta{Secret: []byte("fresh"), Ceiling: 1}, time.Now()); err != nil {
		st.Close()
		return nil, err
	}
	found := &survivor{newState(), s}
	for _, path := range slices.Concat(spy.paths, builtIns) {
		found.update(s.owner.tree, path)
	}
	for id := range s.owner.sessions {
		found.setSession(id, true)
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	if err := logged.err(); err != nil {
		return nil, err
	}
	return found, consistent(found)
}

// consistent checks the invariants that no crash may break.
func consistent(found *survivor) error {
	t := found.server.owner.tree
	children, owned := make(map[string]int32), make(map[int64][]string)
	if len(found.nodes) != t.Len() {
		return fmt.Errorf("%d records for %d nodes", len(found.nodes), t.Len())
	}
	for path, record := range found.nodes {
		if path != "/" {
			parent := path[:strings.LastIndexByte(path, '/')]
			if parent == "" {
				parent = "/"
			}
			children[parent]++
		}
		r := zkproto.NewReader([]byte(record))
		r.Bytes()
		zkproto.DecodeACLs(r)
		for range 5 {
			r.Int64()
		}
		if owner := r.Int64(); owner != 0 {
			owned[owner] = append(owned[owner], path)
		}
	}
	for path := range found.nodes {
		if stat, code := t.Exists(path, everybody...); code == zkproto.CodeOK && stat.NumChildren != children[path] {
			return fmt.Errorf("%s has %d children; want %d", path, stat.NumChildren, children[path])
		}
	}
	for id, paths := range owned {
		slices.Sort(paths)
		if !found.sessions[id] || !slices.Equal(paths, t.Ephemerals(id)) {
			return fmt.Errorf("session 0x%x (there: %v) owns %q; indexed %q", id, found.sessions[id], paths, t.Ephemerals(id))
		}
	}
	return nil
}

var everybody = []tree.Identity{login.Digest("u:p")}

// An entry is a write of the server, as its client knows it.
type entry struct {
	zxid    int64
	session int64
	as      []tree.Identity
	op      zkproto.Op // or a stand-in: OpMulti, OpCloseSession, opReap, opNewSession
	write   zkproto.MultiOp
	ops     []zkproto.MultiOp

	code    zkproto.Code
	path    string
	results []zkproto.MultiResult
}

const (
	opReap       zkproto.Op = -1000
	opNewSession zkproto.Op = -1001
)

// A history has every write of a run, in the order of zxids, and its result.
type history struct {
	seed    uint64
	start   *survivor // nil: an empty directory
	first   int64     // the zxid before the first
	entries []entry
	states  map[[16]byte]int64 // the last zxid with this state after it
	events  []int64            // the zxids of the events of a watch on everything
	eventAt []zkproto.WatcherEvent
	times   map[int64]int64 // by zxid, where a client knows it
}

// replay applies the entries up to zxid to its own tree, and calls each after every entry. It
// returns an error if a client got another answer.
func (h *history) replay(until int64, each func(z int64, s *state)) (*state, error) {
	t, s := tree.New(), newState()
	if h.start != nil {
		for path := range h.start.nodes {
			for _, p := range tree.Parts() {
				if record, there := h.start.server.owner.tree.AppendRecord(nil, path, p); there {
					if err := t.LoadNode(path, p, record); err != nil {
						return nil, err
					}
				}
			}
		}
		if err := t.Loaded(); err != nil {
			return nil, err
		}
		for id := range h.start.sessions {
			s.setSession(id, true)
		}
		for path := range h.start.nodes {
			s.update(t, path)
		}
	}
	for _, path := range builtIns {
		s.update(t, path)
	}
	each(h.first, s)
	const watcher = 1
	t.AddWatch(watcher, "/", zkproto.ModePersistentRecursive)
	for i := range h.entries {
		e := &h.entries[i]
		if e.zxid > until {
			break
		}
		tx := tree.Txn{Zxid: e.zxid, Time: h.times[e.zxid], Session: e.session, As: e.as}
		code, path := zkproto.CodeOK, ""
		switch e.op {
		case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
			path, _, code = t.Create(tx, &e.write)
		case zkproto.OpDelete:
			code = t.Delete(tx, e.write.Path, e.write.Version)
		case zkproto.OpSetData:
			_, code = t.Set(tx, e.write.Path, e.write.Data, e.write.Version)
		case zkproto.OpSetACL:
			_, code = t.SetACL(tx, e.write.Path, e.write.ACL, e.write.Version)
		case zkproto.OpMulti:
			var results []zkproto.MultiResult
			results, code = t.Multi(tx, e.ops)
			for i, r := range results {
				if code == zkproto.CodeOK && (r.Err != e.results[i].Err || r.Op != zkproto.OpError && r.Path != e.results[i].Path) {
					return nil, fmt.Errorf("zxid 0x%x: %d of %+v: the client got %+v; want %+v", e.zxid, i, e.ops, e.results[i], r)
				}
			}
		case zkproto.OpCloseSession:
			t.CloseSession(tx)
			s.setSession(e.session, false)
		case opReap:
			tx.Time = 1 << 60
			t.Reap(tx, e.path)
		case opNewSession:
			s.setSession(e.session, true)
		default:
			panic(e.op)
		}
		if code != e.code || e.op != opReap && path != e.path {
			return nil, fmt.Errorf("zxid 0x%x: %v %+v: the client got %v, %q; want %v, %q", e.zxid, e.op, e.write, e.code, e.path, code, path)
		}
		for _, event := range t.TakeEvents() {
			h.events = append(h.events, e.zxid)
			h.eventAt = append(h.eventAt, zkproto.WatcherEvent{Type: event.Type, Path: event.Path})
		}
		t.TakeChanges(func(path string, _ tree.Part, _ []byte) { s.update(t, path) })
		each(e.zxid, s)
	}
	return s, nil
}

// complete sorts the entries, finds out which zxids made the sessions, and replays.
// last is the server's last zxid.
func (h *history) complete(last int64, newSessions []int64) error {
	slices.SortFunc(h.entries, func(a, b entry) int { return int(a.zxid - b.zxid) })
	var all []entry
	z := h.first
	for _, e := range append(h.entries, entry{zxid: last + 1}) {
		if e.zxid <= z {
			return fmt.Errorf("zxid 0x%x was used twice", e.zxid)
		}
		for z++; z < e.zxid; z++ {
			if len(newSessions) == 0 {
				return fmt.Errorf("zxid 0x%x belongs to no write", z)
			}
			all = append(all, entry{zxid: z, op: opNewSession, session: newSessions[0]})
			newSessions = newSessions[1:]
		}
		all = append(all, e)
	}
	if len(newSessions) != 0 {
		return fmt.Errorf("%d sessions without a zxid", len(newSessions))
	}
	h.entries = all[:len(all)-1]
	h.states = make(map[[16]byte]int64)
	h.events, h.eventAt = nil, nil
	_, err := h.replay(last, func(z int64, s *state) { h.states[s.sum] = z })
	return err
}

// check compares the survivor with what clients had seen, which is everything up to seen.
func (h *history) check(found *survivor, seen int64, passwords map[int64][]byte) error {
	z, known := h.states[found.sum]
	switch {
	case !known:
		return fmt.Errorf("it is the state before the first write; 0x%x had been seen\n%s", seen, h.diff(found, seen))
	case z < seen:
		return fmt.Errorf("it is the state after 0x%x; 0x%x had been seen\n%s", z, seen, h.diff(found, seen))
	case seen > h.first && found.server.owner.zxid < seen:
		return fmt.Errorf("zxids continue at 0x%x; 0x%x had been seen", found.server.owner.zxid, seen)
	}
	for path, zxids := range found.made {
		ctime, mtime := ctimeAndMtime(found.server.owner.tree, path)
		for i, got := range [...]int64{ctime, mtime} {
			if want, told := h.times[zxids[i]]; told && want != got {
				return fmt.Errorf("%s: the time of 0x%x is %d; the client got %d", path, zxids[i], got, want)
			}
		}
	}
	for id, want := range passwords {
		if found.sessions[id] && string(found.server.password(id)) != string(want) {
			return fmt.Errorf("session 0x%x has another password", id)
		}
	}
	return nil
}

func (h *history) diff(found *survivor, seen int64) string {
	want, err := h.replay(seen, func(int64, *state) {})
	if err != nil {
		return err.Error()
	}
	var lines []string
	for path := range found.nodes {
		if _, there := want.nodes[path]; !there {
			lines = append(lines, "not expected: "+path)
		}
	}
	for path, record := range want.nodes {
		if got, there := found.nodes[path]; !there {
			lines = append(lines, "missing: "+path)
		} else if got != record {
			lines = append(lines, fmt.Sprintf("%s: %x; want %x", path, tail(got), tail(record)))
		}
	}
	if !maps.Equal(found.sessions, want.sessions) {
		lines = append(lines, fmt.Sprintf("sessions %v; want %v", found.sessions, want.sessions))
	}
	slices.Sort(lines)
	return strings.Join(lines[:min(20, len(lines))], "\n")
}

func tail(s string) string { return s[max(0, len(s)-100):] }
