package zkserver

import (
	"cmp"
	"slices"
	"time"
)

// The four-letter words about sessions and watches. They walk through all of them, so an operator
// must allow them first.

func (s *Server) wordDump(w *wordAnswer, r *request) {
	o := &s.owner
	byEnd := make(map[int64][]*session) // seconds since 1970
	for _, sess := range o.sessions {
		end := sess.touched.Add(sess.timeout).Unix()
		byEnd[end] = append(byEnd[end], sess)
	}
	w.printf("SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(byEnd), len(o.sessions))
	for _, end := range sortedKeys(byEnd) {
		printSetHead(w, len(byEnd[end]), end)
		for _, sess := range byEnd[end] {
			if w.full() {
				break
			}
			w.printf("\t0x%x\n", sess.id)
		}
	}
	owners := o.tree.Owners()
	w.printf("ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(owners))
	for _, id := range owners {
		if w.full() {
			break
		}
		w.printf("0x%x:\n", id)
		for _, path := range o.tree.Ephemerals(id) {
			if w.full() {
				break
			}
			w.printf("\t%s\n", printable(path))
		}
	}
	conns := map[int64][]*conn{o.now.Unix(): {r.conn}} // by their end: the one that asks ends with the answer
	count := 1
	for _, c := range s.connected() {
		end := c.owned.session.touched.Add(c.owned.session.timeout).Unix()
		conns[end] = append(conns[end], c)
		count++
	}
	w.printf("Connections dump:\nConnections Sets (%d)/(%d):\n", len(conns), count)
	for _, end := range sortedKeys(conns) {
		printSetHead(w, len(conns[end]), end)
		for _, c := range conns[end] {
			if w.full() {
				break
			}
			id := int64(0) // of the connection that asks
			if c.owned.session != nil {
				id = c.owned.session.id
			}
			w.printf("\tip: %s sessionId: 0x%x\n", remote(c.nc), id)
		}
	}
}

func printSetHead(w *wordAnswer, n int, end int64) {
	if !w.full() {
		w.printf("%d expire at %s:\n", n, time.Unix(end, 0).UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *Server) wordWchs(w *wordAnswer) {
	connections, paths := s.owner.tree.WatchersAndPaths()
	w.printf("%d connections watching %d paths\nTotal watches:%d\n", connections, paths, s.owner.tree.WatchCount())
}

// wordWchc lists the watches by session.
func (s *Server) wordWchc(w *wordAnswer) {
	for _, c := range s.connected() {
		first := true
		for path := range s.owner.tree.WatchedBy(c.id) {
			if w.full() {
				return
			}
			if first {
				w.printf("0x%x\n", c.owned.session.id)
				first = false
			}
			w.printf("\t%s\n", printable(path))
		}
	}
	w.print("\n")
}

// wordWchp lists the watches by path.
func (s *Server) wordWchp(w *wordAnswer) {
	for path, by := range s.owner.tree.WatchedPaths() {
		if w.full() {
			return
		}
		w.printf("%s\n", printable(path))
		for watcher := range by {
			if w.full() {
				return
			}
			if c := s.owner.watchers[watcher]; c != nil && c.owned.session != nil {
				w.printf("\t0x%x\n", c.owned.session.id)
			}
		}
	}
	w.print("\n")
}
