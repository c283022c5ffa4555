package txlog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/locks"
	"holdfast/zk"
)

// A Type says what has happened to a place.
type Type string

// The types.
const (
	Joined   Type = "joined"   // it was made
	Acquired Type = "acquired" // nobody is ahead of it any more, or its client has taken the kept lock again
	Kept     Type = "kept"     // its client has released the lock, and keeps it until another one queues
	Released Type = "released" // its own session has removed it, and it had the lock
	Left     Type = "left"     // its own session has removed it, and it was waiting
	Closed   Type = "closed"   // its client has closed the session
	Expired  Type = "expired"  // the servers have ended the session
	Removed  Type = "removed"  // another session has removed it
	// Unknown: nobody known is ahead of it. The logs begin after its queue, so an older place may be.
	Unknown Type = "unknown"
	Ended   Type = "ended" // its session has ended: it was closed, or has expired
	Gone    Type = "gone"  // it was removed; it is not known by whom, or whether it had the lock
)

// An Event is one that the logs tell. Times are by the clock of the server that led then.
type Event struct {
	Type Type
	At   time.Time
	// Since: the place is older than the logs. It was made at At, so it has acquired the lock at that time or later.
	Since bool
	// AtLeast: it was at that time or later. The journals of holdfast's servers say when a node was made, and not when it
	// was removed.
	AtLeast bool
	Zxid    int64
	Lock    string // as its users name it
	Kind    locks.Kind
	Place   locks.Place
	// Held is how long the place had the lock, for an event that ends that; 0 if it had not, or this is not known. With
	// AtLeast, it was at least so long.
	Held time.Duration
	By   int64 // the session that has removed the place, if it is another one
}

// A Config says what to read.
type Config struct {
	// Dirs are of Apache's servers: their dataLogDir or dataDir, or the directory version-2 in it. Or it is one data directory
	// of a holdfast server, which may run meanwhile.
	Dirs []string
	// Wants reports whether a lock is of interest, by the name that its users give it.
	Wants func(lock string) bool
	Until time.Time // if not zero, what comes later is not read
	// Report gets the events in order. Its error ends Read.
	Report func(Event) error
	// Warn gets what is damaged or unknown. Read skips the rest of a damaged file.
	Warn func(error)
}

// Read reads logs, and returns the places that are there at the end.
func Read(cfg Config) ([]Event, error) { return read(&history{cfg: cfg}) }

func read(h *history) ([]Event, error) {
	h.tree, h.known = newTree(), make(map[string]map[int64]*Event)
	readAll := h.readLogs
	if slices.ContainsFunc(h.cfg.Dirs, isStore) {
		readAll = h.readStore
	}
	if err := readAll(); err != nil && !errors.Is(err, errUntil) {
		return nil, err
	}
	var there []*Event
	for _, of := range h.known {
		there = slices.AppendSeq(there, maps.Values(of))
	}
	sortEvents(there)
	var now []Event
	for _, e := range there {
		now = append(now, *e)
	}
	return now, nil
}

// sortEvents orders events by lock and token.
func sortEvents(all []*Event) {
	slices.SortFunc(all, func(a, b *Event) int {
		return cmp.Or(strings.Compare(a.Lock, b.Lock), cmp.Compare(a.Place.Token, b.Place.Token))
	})
}

// readLogs reads the logs of Apache's servers.
func (h *history) readLogs() error {
	servers, base, err := open(h.cfg)
	if err != nil {
		return err
	}
	if base.path != "" {
		if err := h.begin(base); err != nil {
			return err
		}
	}
	return merge(servers, h.cfg.Warn, func(t *txn) error {
		if t.zxid <= base.zxid {
			return nil
		}
		return h.next(t, h.apply)
	})
}

// next calls apply with a transaction that is to be read.
func (h *history) next(t *txn, apply func(*txn) error) error {
	if !h.cfg.Until.IsZero() && t.when().After(h.cfg.Until) {
		return errUntil
	}
	return apply(t)
}

// ErrSeveral means that several directories were given, and one is of a holdfast server.
var ErrSeveral = errors.New("the data directory of a holdfast server is read alone, since each has its own transactions")

var errUntil = fmt.Errorf("txlog: the end")

// open finds the logs, and the snapshot to begin with: the latest one that is older than all logs.
func open(cfg Config) (servers []*server, base fileName, err error) {
	first := fileName{zxid: -1}
	var all []fileName
	for _, dir := range cfg.Dirs {
		logs, snapshots, err := find(dir)
		if err != nil {
			return nil, base, err
		}
		if first.zxid < 0 || logs[0].zxid < first.zxid {
			first = logs[0]
		}
		all = append(all, snapshots...)
		servers = append(servers, &server{dir: dir, logs: logs, snapshots: snapshots})
	}
	for _, s := range all {
		if s.zxid < first.zxid && (base.path == "" || s.zxid > base.zxid) {
			base = s
		}
	}
	if base.path == "" && uint32(first.zxid) > 1 {
		cfg.Warn(fmt.Errorf("no snapshot is older than %s: places that were made before it are unknown, and so is whether somebody was ahead of the others", first.path))
	}
	return servers, base, nil
}

// history follows the places of all locks.
type history struct {
	cfg   Config
	tree  *tree
	known map[string]map[int64]*Event // the latest event of each place, by the path of its lock and its token
	anew  bool                        // for tests: read every lock anew at each change
}

// begin fills the tree from a snapshot. It was written while the server went on, so it can have later nodes.
func (h *history) begin(base fileName) error {
	var made []string
	err := readSnapshot(base.path, func(path string, data []byte, stat zk.Stat) {
		if stat.Czxid <= base.zxid {
			h.tree.put(path, data, stat)
			if stat.EphemeralOwner != 0 || locks.Numbered(path) {
				made = append(made, path)
			}
		}
	})
	if err != nil {
		return err
	}
	return h.start(made, base.zxid)
}

// start reports the places among the nodes that a history begins with.
func (h *history) start(made []string, zxid int64) error {
	for _, path := range h.affected(made) {
		now := h.at(path, zxid, time.Time{})
		if len(now) == 0 {
			continue
		}
		h.known[path] = now
		there := slices.Collect(maps.Values(now))
		sortEvents(there)
		for _, e := range there {
			e.Since, e.At = true, e.Place.Since
			if err := h.cfg.Report(*e); err != nil {
				return err
			}
		}
	}
	return nil
}

// affected returns the paths whose locks a change of nodes can affect, each once.
func (h *history) affected(paths []string) []string {
	var all []string
	for _, p := range paths {
		dir, name := split(p)
		place := locks.Numbered(name)
		if n := h.tree.nodes[dir]; place && n != nil && n.line != nil {
			all = append(all, dir) // it is no part of another lock
			continue
		}
		of := locks.Owners(p)
		if place { // a place is no lock
			of = slices.DeleteFunc(of, func(o string) bool { return o == p })
		}
		all = append(all, of...)
	}
	if len(all) < 2 {
		return all
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// at returns the places at a path as events of joining or acquiring, by their tokens. It reads them all anew.
func (h *history) at(path string, zxid int64, at time.Time) map[int64]*Event {
	all := make(map[int64]*Event)
	for _, l := range locks.In(h.tree.look, path) {
		if !h.wants(l.Path) {
			continue
		}
		for i := range l.Queue {
			if p := &l.Queue[i]; !p.Second {
				all[p.Token] = h.event(&l, p, zxid, at)
			}
		}
	}
	return all
}

func (h *history) wants(lock string) bool { return h.cfg.Wants == nil || h.cfg.Wants(lock) }

// event returns the event that says how a place is.
func (h *history) event(l *locks.Lock, p *locks.Place, zxid int64, at time.Time) *Event {
	e := &Event{Type: Joined, At: at, Zxid: zxid, Lock: l.Path, Kind: l.Kind, Place: *p}
	switch {
	case p.Kept:
		e.Type = Kept
	case p.Held && h.tree.late(l):
		e.Type = Unknown
	case p.Held:
		e.Type = Acquired
	}
	return e
}

// apply applies a transaction, and reports what it has done to places.
func (h *history) apply(t *txn) error {
	var touched []string
	switch t.op {
	case opCloseSession:
		for path := range h.tree.sessions[t.session] {
			touched = append(touched, path)
		}
		for _, path := range touched {
			h.tree.remove(path)
		}
	default:
		changes, err := t.changes()
		if err != nil {
			h.cfg.Warn(fmt.Errorf("transaction 0x%x: %w", t.zxid, err))
			return nil
		}
		for _, c := range changes {
			if h.change(t, c) {
				touched = append(touched, c.path)
			}
		}
	}
	return h.tell(touched, t)
}

// tell reports what a transaction that has changed these nodes has done to places.
func (h *history) tell(touched []string, t *txn) error {
	for _, path := range h.affected(touched) {
		if err := h.compare(path, t); err != nil {
			return err
		}
	}
	return nil
}

// change applies one operation. It reports whether it can affect a place.
func (h *history) change(t *txn, c change) bool {
	switch c.op {
	case opDelete, opDeleteContainer:
		h.tree.remove(c.path)
	case opSetData, opReconfig:
		n := h.tree.nodes[c.path]
		if n == nil {
			return false
		}
		stat := n.stat
		stat.Mzxid, stat.Mtime, stat.Version = t.zxid, t.time, c.version
		h.tree.put(c.path, c.data, stat)
		dir, _ := split(c.path)
		return len(h.known[dir]) > 0 || len(h.known[c.path]) > 0
	default:
		stat := zk.Stat{Czxid: t.zxid, Mzxid: t.zxid, Ctime: t.time, Mtime: t.time}
		if c.owner {
			stat.EphemeralOwner = t.session
		}
		h.tree.put(c.path, c.data, stat)
	}
	return true
}

// compare reports the differences between the places at a path before a transaction and after it.
func (h *history) compare(path string, t *txn) error {
	d := diff{history: h, t: t, at: t.when(), known: h.known[path]}
	switch line := h.line(path); {
	case line == nil:
		d.all(h.at(path, t.zxid, d.at))
	case !h.wants(line.Path()):
		return nil
	default:
		d.line(line, h.tree.nodes[path])
	}
	if len(d.known) > 0 {
		h.known[path] = d.known
	} else {
		delete(h.known, path)
	}
	slices.SortFunc(d.events, func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Place.Token, b.Place.Token))
	})
	for _, e := range d.events {
		if err := h.cfg.Report(*e); err != nil {
			return err
		}
	}
	return nil
}

// line returns the parsed queue at a path, or nil if the locks there have to be read anew.
func (h *history) line(path string) *locks.Line {
	n := h.tree.nodes[path]
	if n == nil || h.anew {
		return nil
	}
	if n.line == nil && !n.other {
		n.line = locks.NewLine(h.tree.look, path)
		n.other = n.line == nil
	}
	if n.line == nil || !n.line.Plain() {
		n.told = false
		return nil
	}
	return n.line
}

// A diff finds what a transaction has done to the places at a path.
type diff struct {
	*history
	t      *txn
	at     time.Time
	known  map[int64]*Event
	events []*Event
}

// line compares the places that are known with those of a parsed queue.
func (d *diff) line(line *locks.Line, n *node) {
	l := line.Lock()
	if !n.told { // since the queue was read otherwise
		n.told = true
		now := make(map[int64]*Event)
		for _, p := range line.All() {
			now[p.Token] = d.event(&l, &p, d.t.zxid, d.at)
		}
		d.all(now)
		return
	}
	gone, places := line.Changed()
	var present map[int64]bool // of the places with new data
	for i := range places {
		p := &places[i]
		if d.known[p.Token] != nil && len(gone) > 0 {
			if present == nil {
				present = make(map[int64]bool)
			}
			present[p.Token] = true
		}
		d.place(d.event(&l, p, d.t.zxid, d.at))
	}
	for _, token := range gone {
		if old := d.known[token]; old != nil && !present[token] {
			delete(d.known, token)
			d.events = append(d.events, d.ended(old))
		}
	}
}

// all compares the places that are known with all that are there now.
func (d *diff) all(now map[int64]*Event) {
	for token, old := range d.known {
		if now[token] != nil {
			continue
		}
		delete(d.known, token)
		if !follows(old, now) {
			d.events = append(d.events, d.ended(old))
		}
	}
	for _, e := range now {
		d.place(e)
	}
}

// place compares a place with what is known of it.
func (d *diff) place(e *Event) {
	if d.known == nil {
		d.known = make(map[int64]*Event)
	}
	token := e.Place.Token
	old := d.known[token]
	d.known[token] = e
	if old != nil && e.Type == Unknown && (old.Type == Acquired || old.Type == Kept) {
		e.Type = Acquired
	}
	switch {
	case old == nil:
		if d.t.over != nil { // the node in a journal says when it was made
			e.At = e.Place.Since
		}
		if e.Type != Joined {
			joined := *e
			joined.Type = Joined
			d.events = append(d.events, &joined)
		}
		d.events = append(d.events, e)
	case old.Type != e.Type:
		e.AtLeast = d.t.over != nil
		changed := *e
		changed.Held = held(old, d.at)
		d.events = append(d.events, &changed)
	default:
		e.At, e.Zxid, e.Since, e.AtLeast = old.At, old.Zxid, old.Since, old.AtLeast
	}
}

// rank orders the events of one transaction.
func (e *Event) rank() int {
	switch e.Type {
	case Joined:
		return 1
	case Acquired, Kept, Unknown:
		return 2
	}
	return 0
}

// follows reports whether the turn of a waiter at the turnstile of a semaphore has become a permit of its session.
func follows(old *Event, now map[int64]*Event) bool {
	if old.Type != Joined || old.Kind != locks.Semaphore && old.Kind != locks.Slots {
		return false
	}
	for _, e := range now {
		if e.Type == Acquired && e.Place.Session == old.Place.Session {
			return true
		}
	}
	return false
}

// ended makes the event of a place that is gone.
func (d *diff) ended(old *Event) *Event {
	t := d.t
	e := *old
	e.At, e.Zxid, e.Since, e.AtLeast = d.at, t.zxid, false, t.over != nil
	e.Held = held(old, d.at)
	switch {
	case t.over[old.Place.Session]:
		e.Type = Ended
	case t.over != nil:
		e.Type = Gone
	case t.op == opCloseSession && t.cxid == 0:
		e.Type = Expired
	case t.op == opCloseSession:
		e.Type = Closed
	case t.session != old.Place.Session:
		e.Type, e.By = Removed, t.session
	case old.Type == Unknown:
		e.Type = Gone
	case old.Type == Joined:
		e.Type = Left
	default:
		e.Type = Released
	}
	return &e
}

// held returns how long a place had the lock, by the time of an event that ends that. It is 0 if that is not known.
func held(old *Event, at time.Time) time.Duration {
	if old.Type != Acquired || old.Since || old.AtLeast {
		return 0
	}
	return at.Sub(old.At)
}
