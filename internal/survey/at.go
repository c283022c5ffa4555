package survey

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// A Node is a node in a copy of the tree.
type Node struct {
	Children func() []string // their names, sorted; nil if there are none
	Data     []byte
	Stat     zk.Stat
}

// At returns the locks at one path in a copy of the tree, in all layouts, as Read finds them. look returns a node of
// the copy. Slot queues, permits and the like belong to the lock above them: see Owners.
func At(look func(path string) (Node, bool), path string) []waitgraph.Lock {
	r := &reader{look: look}
	all := r.semaphores(path)
	if !r.belongs(path) {
		own := make(map[string]bool) // kazoo's permits are children of the lock itself
		for _, f := range all {
			for _, p := range f.permits {
				own[p] = true
			}
		}
		all = append(all, r.queues(path)...)
		i := strings.LastIndexByte(path, '/')
		if s := r.session(path); s != 0 && !Numbered(path) && !own[path] && !noLock(path[:i], path[i+1:]) {
			all = append(all, &found{
				lock: waitgraph.Lock{Path: path, Kind: "node", Dirs: []string{path}}, queue: []string{path}, seqs: []int32{0}, shared: []bool{false},
			})
		}
	}
	var locks []waitgraph.Lock
	for _, f := range all {
		nodes := make(map[string]zk.Result)
		for _, p := range slices.Concat(f.queue, f.permits, []string{f.limited}) {
			if n, ok := look(p); ok && p != "" {
				nodes[p] = zk.Result{Data: n.Data, Stat: n.Stat}
			}
		}
		if l := f.complete(nodes); len(l.Queue)+len(l.Permits) > 0 {
			locks = append(locks, l)
		}
	}
	slices.SortFunc(locks, func(a, b waitgraph.Lock) int { return strings.Compare(a.Layout+"\x00"+a.Kind, b.Layout+"\x00"+b.Kind) })
	return locks
}

// turnstileDirs are the ends of the paths of the directories that belong to a semaphore or to slots.
var turnstileDirs = func() (ends []string) {
	for _, g := range ofSemaphores {
		for _, end := range []string{g.Semaphore.Turnstile, g.Semaphore.Leases} {
			if end != "" && !slices.Contains(ends, end) {
				ends = append(ends, end)
			}
		}
	}
	return ends
}()

// Owners returns the paths whose locks a change of the node at path can affect.
func Owners(path string) []string {
	var all []string
	add := func(p string) {
		if p == "" {
			return
		}
		all = append(all, p)
		for _, end := range turnstileDirs {
			if of, ok := strings.CutSuffix(p, end); ok && of != "" {
				all = append(all, of)
			}
		}
	}
	add(path)
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		add(path[:i])
	}
	return all
}

// belongs reports whether a node is a part of a semaphore above it or beside it.
func (r *reader) belongs(path string) bool {
	for _, of := range Owners(path) {
		if of == path {
			continue
		}
		for _, f := range r.semaphores(of) {
			if f.lock.Path != path && (slices.Contains(f.lock.Dirs, path) || slices.Contains(f.permits, path)) {
				return true
			}
		}
	}
	return false
}

// A Detail is what a node says about a place beside what waitgraph needs.
type Detail struct {
	Token     int64
	HeldSince time.Time // zero: not known
	Labels    map[string]string
	Detached  bool
	ID        string
	Expires   time.Time // of a detached lock; zero: never
	Revoked   bool      // somebody has asked the holder to release it
	// Value: the data are the program's own, as those of a candidate in an election are. An address alone is no
	// value: Curator writes the client's.
	Value bool
}

// DetailOf reads a place's node, as holdfast.List does.
func DetailOf(path string, held, shared bool, n Node) Detail {
	note := queue.ReadNote(n.Data)
	_, ours := queue.ParseNote(n.Data)
	d := Detail{Token: n.Stat.Czxid, Labels: note.Labels, Revoked: note.Revoke}
	if held {
		d.HeldSince = note.HeldSince(n.Stat)
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	if names.IsDetached(base) && n.Stat.EphemeralOwner == 0 {
		d.Detached, d.ID, d.HeldSince = true, note.ID, time.UnixMilli(n.Stat.Ctime)
		if note.Expires != 0 {
			d.Expires = time.UnixMilli(max(0, min(note.Expires, 253402300799999)))
		}
	}
	if _, slot := names.SlotOf(base); held && (slot || !Numbered(path) && !shared) {
		d.HeldSince = time.UnixMilli(n.Stat.Ctime)
	}
	if note.Token != 0 && (shared || d.Detached) {
		d.Token = note.Token
	}
	if _, err := netip.ParseAddr(note.Owner); err != nil && !ours && len(n.Data) > 0 && !queue.IsRequest(n.Data) {
		d.Value = true
	}
	d.Value = d.Value || len(note.Value) > 0
	return d
}
