package txlog

import (
	"fmt"
	"os"
	"path/filepath"

	"holdfast/internal/locks"
	"holdfast/zk"
	"holdfast/zkserver"
)

// isStore reports whether a directory is the data directory of a holdfast server.
func isStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "store"))
	return err == nil && info.IsDir()
}

// readStore reads the journals of a holdfast server. A node that a commit has removed has no time: it was at the time of the
// last node that was made or changed before, or later.
func (h *history) readStore() error {
	if len(h.cfg.Dirs) > 1 {
		return fmt.Errorf("%w: %q", ErrSeveral, h.cfg.Dirs)
	}
	last := txn{over: make(map[int64]bool)}
	var made []string // nodes of the state that the journals begin with
	begin := func() error {
		err := h.start(made, last.zxid)
		made = nil
		return err
	}
	begun := false
	err := zkserver.Replay(h.cfg.Dirs[0], func(c *zkserver.Commit) error {
		if begun = begun || c.Number > 0; begun && made != nil {
			if err := begin(); err != nil {
				return err
			}
		}
		last.zxid, last.time = max(last.zxid, c.Zxid), max(last.time, c.Time)
		for _, session := range c.Over {
			last.over[session] = true
		}
		if begun {
			return h.next(&last, func(t *txn) error { return h.tell(h.take(c), t) })
		}
		for _, path := range h.take(c) {
			if n := h.tree.nodes[path]; n != nil && n.stat.EphemeralOwner != 0 || locks.Numbered(path) {
				made = append(made, path)
			}
		}
		return nil
	})
	if err == nil && !begun {
		err = begin()
	}
	return err
}

// take applies a commit. It returns the nodes.
func (h *history) take(c *zkserver.Commit) (touched []string) {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		touched = append(touched, n.Path)
		if n.Removed {
			h.tree.remove(n.Path)
		} else {
			h.tree.put(n.Path, n.Data, zk.Stat(n.Stat))
		}
	}
	return touched
}
