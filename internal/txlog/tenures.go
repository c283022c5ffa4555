package txlog

import (
	"cmp"
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
)

// An Event is one that the logs tell. Times are by the clock of the server that led then.
type Event struct {
	Type Type
	At   time.Time
	// Since: the place is older than the logs. It was made at At, so it has acquired the lock at that time or later.
	Since bool
	Zxid  int64
	Lock  string // as its users name it
	Kind  locks.Kind
	Place locks.Place
	// Held is how long the place had the lock, for an event that ends that; 0 if it had not.
	Held time.Duration
	By   int64 // the session that has removed the place, if it is another one
}

// A Config says what to read.
type Config struct {
	Dirs []string // of servers: their dataLogDir or dataDir, or the directory version-2 in it
	// Wants reports whether a lock is of interest, by the name that its users give it.
	Wants func(lock string) bool
	Until time.Time // if not zero, what comes later is not read
	// Report gets the events in order. Its error ends Read.
	Report func(Event) error
	// Warn gets what is damaged or unknown. Read skips the rest of a damaged file.
	Warn func(error)
}

// Read reads logs, and returns the places that are there at the end.
func Read(cfg Config) ([]Event, error) {
	h := &history{cfg: cfg, tree: newTree(), known: make(map[string]map[int64]Event)}
	servers, base, err := open(cfg)
	if err != nil {
		return nil, err
	}
	if base.path != "" {
		if err := h.begin(base); err != nil {
			return nil, err
		}
	}
	err = merge(servers, cfg.Warn, func(t *txn) error {
		if t.zxid <= base.zxid {
			return nil
		}
		if !cfg.Until.IsZero() && time.UnixMilli(t.time).After(cfg.Until) {
			return errUntil
		}
		return h.apply(t)
	})
	if err != nil && err != errUntil {
		return nil, err
	}
	var now []Event
	for _, of := range h.known {
		now = slices.AppendSeq(now, maps.Values(of))
	}
	slices.SortFunc(now, func(a, b Event) int {
		return cmp.Or(strings.Compare(a.Lock, b.Lock), cmp.Compare(a.Place.Token, b.Place.Token))
	})
	return now, nil
}

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
		servers = append(servers, &server{logs: logs})
	}
	for _, s := range all {
		if s.zxid < first.zxid && (base.path == "" || s.zxid > base.zxid) {
			base = s
		}
	}
	if base.path == "" && uint32(first.zxid) > 1 {
		cfg.Warn(fmt.Errorf("no snapshot is older than %s: places that were made before it are unknown", first.path))
	}
	return servers, base, nil
}

// history follows the places of all locks.
type history struct {
	cfg   Config
	tree  *tree
	known map[string]map[int64]Event // the latest event of each place, by the path of its lock and its token
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
	for _, of := range h.affected(made) {
		for _, e := range h.at(of, base.zxid, time.Time{}) {
			e.Since = true
			e.At = e.Place.Since
			if err := h.note(of, e); err != nil {
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
		of := locks.Owners(p)
		if locks.Numbered(p) { // a place is no lock
			of = slices.DeleteFunc(of, func(o string) bool { return o == p })
		}
		all = append(all, of...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// at returns the places at a path as events of joining or acquiring.
func (h *history) at(path string, zxid int64, at time.Time) map[int64]Event {
	all := make(map[int64]Event)
	for _, l := range locks.In(h.tree.look, path) {
		if h.cfg.Wants != nil && !h.cfg.Wants(l.Path) {
			continue
		}
		for _, p := range l.Queue {
			e := Event{Type: Joined, At: at, Zxid: zxid, Lock: l.Path, Kind: l.Kind, Place: p}
			switch {
			case p.Second:
				continue
			case p.Kept:
				e.Type = Kept
			case p.Held:
				e.Type = Acquired
			}
			all[p.Token] = e
		}
	}
	return all
}

// note reports an event, and remembers it.
func (h *history) note(path string, e Event) error {
	if h.known[path] == nil {
		h.known[path] = make(map[int64]Event)
	}
	h.known[path][e.Place.Token] = e
	return h.cfg.Report(e)
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
	at := time.UnixMilli(t.time)
	before, now := h.known[path], h.at(path, t.zxid, at)
	if len(before) == 0 && len(now) == 0 {
		return nil
	}
	var events []Event
	for token, old := range before {
		if _, there := now[token]; there || follows(old, now) {
			continue
		}
		events = append(events, ended(old, t, at))
	}
	for token, e := range now {
		old, known := before[token]
		switch {
		case !known:
			joined := e
			joined.Type = Joined
			if e.Type != Joined {
				events = append(events, joined)
			}
			events = append(events, e)
		case old.Type != e.Type:
			e.Held = held(old, at)
			events = append(events, e)
		default:
			e.At, e.Zxid, e.Since = old.At, old.Zxid, old.Since
		}
		now[token] = e
	}
	rank := func(e Event) int {
		switch e.Type {
		case Joined:
			return 1
		case Acquired, Kept:
			return 2
		}
		return 0
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Place.Token, b.Place.Token))
	})
	if h.known[path] = now; len(now) == 0 {
		delete(h.known, path)
	}
	for _, e := range events {
		if err := h.cfg.Report(e); err != nil {
			return err
		}
	}
	return nil
}

// follows reports whether the turn of a waiter at the turnstile of a semaphore has become a permit of its session.
func follows(old Event, now map[int64]Event) bool {
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
func ended(old Event, t *txn, at time.Time) Event {
	e := old
	e.At, e.Zxid, e.Since = at, t.zxid, false
	e.Held = held(old, at)
	switch {
	case t.op == opCloseSession && t.cxid == 0:
		e.Type = Expired
	case t.op == opCloseSession:
		e.Type = Closed
	case t.session != old.Place.Session:
		e.Type, e.By = Removed, t.session
	case old.Type == Joined:
		e.Type = Left
	default:
		e.Type = Released
	}
	return e
}

// held returns how long a place had the lock, by the time of an event that ends that.
func held(old Event, at time.Time) time.Duration {
	if old.Type != Acquired || old.Since {
		return 0
	}
	return at.Sub(old.At)
}
