package chaos_test

import (
	"fmt"

	"holdfast/zkproto"
)

// path returns a path of a small tree, where clients meet, or one with a sequence number.
func (c *replayClient) path() string {
	pick := func(names ...string) string { return names[c.rng.IntN(len(names))] }
	switch c.rng.IntN(8) {
	case 0:
		return pick("/t/a", "/t/b", "/t/c", "/t/d")
	case 1, 2, 3:
		return pick("/t/a", "/t/b", "/t/c", "/t/d") + pick("/1", "/2", "/3")
	case 4, 5:
		return pick("/t/a", "/t/b", "/t/c", "/t/d") + pick("/1", "/2", "/3") + pick("/p", "/q")
	case 6:
		return pick("/t/own", "/t/queue", "/t/kept", "/t/kept/c1", "/t/kept/c2", "/t/kept/t1", "/t/kept/t2")
	}
	if path := c.numbered(0); path != "" {
		return path
	}
	return "/t/queue"
}

// numbered returns a path with a sequence number, if there are more than atLeast. If there are many, it
// removes the path, so that no client asks for it again.
func (c *replayClient) numbered(atLeast int) string {
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	all := c.run.numbered
	n := len(all)
	if n <= atLeast {
		return ""
	}
	i := c.rng.IntN(n)
	path := all[i]
	if n > manyNumbered {
		all[i] = all[n-1]
		c.run.numbered = all[:n-1]
	}
	return path
}

// manyNumbered keeps the tree small: the replay copies nodes with all their children.
const manyNumbered = 60

func (c *replayClient) randomVersion(path string) int32 {
	switch c.rng.IntN(3) {
	case 0:
		return int32(c.rng.IntN(3))
	case 1:
		if v, ok := c.version[path]; ok {
			return v
		}
	}
	return -1
}

func (c *replayClient) data() []byte { return fmt.Appendf(nil, "%d-%d", c.id, c.rng.IntN(1_000_000)) }

func (c *replayClient) randomRead() asked {
	a := reads(0, c.path())
	switch r := c.rng.IntN(40); {
	case r == 0:
		a.op = zkproto.OpSync
	case r == 1:
		a.op = zkproto.OpGetEphemerals
	case r < 12:
		a.op = zkproto.OpGetChildren2
	case r < 16:
		a.op = zkproto.OpGetChildren
	case r < 28:
		a.op = zkproto.OpExists
	default:
		a.op = zkproto.OpGetData
	}
	a.watch = a.op != zkproto.OpSync && a.op != zkproto.OpGetEphemerals && c.rng.IntN(3) == 0
	return a
}

// inTree avoids the nodes that show the oracle the ends of sessions, and nodes that the server removes on
// its own: containers never have children, and nodes with a time to live live long.
func (c *replayClient) inTree() string {
	for {
		if path := c.path(); path != "/t/own" && path != "/t/queue" && path != "/t/kept" {
			return path
		}
	}
}

func (c *replayClient) randomWrite() zkproto.MultiOp {
	w := zkproto.MultiOp{Path: c.inTree(), Version: -1}
	switch r := c.rng.IntN(10); {
	case r < 5:
		w.Op, w.Data = zkproto.OpCreate, c.data()
		switch c.rng.IntN(6) {
		case 0:
			w.Flags = zkproto.FlagEphemeral
		case 1, 2:
			dirs := []string{"/t/queue", "/t/a", "/t/b", "/t/a/1", "/t/b/2"}
			w.Path = dirs[c.rng.IntN(len(dirs))] + "/n-"
			w.Flags = []int32{zkproto.FlagPersistentSequential, zkproto.FlagEphemeralSequential}[c.rng.IntN(2)]
		}
	case r < 8:
		w.Op, w.Version = zkproto.OpDelete, c.randomVersion(w.Path)
		if path := c.numbered(manyNumbered); path != "" {
			w.Path, w.Version = path, -1
		}
	default:
		w.Op, w.Version, w.Data = zkproto.OpSetData, c.randomVersion(w.Path), c.data()
	}
	return w
}

func (c *replayClient) random() asked {
	switch r := c.rng.IntN(20); {
	case r < 9:
		return c.randomRead()
	case r == 9, r == 10:
		a := asked{op: zkproto.OpMulti}
		for range 1 + c.rng.IntN(4) {
			w := c.randomWrite()
			if c.rng.IntN(4) == 0 {
				w = zkproto.MultiOp{Op: zkproto.OpCheck, Path: w.Path, Version: c.randomVersion(w.Path)}
			}
			w.ACL = anyone
			a.multi = append(a.multi, w)
		}
		return a
	case r == 11 && c.rng.IntN(2) == 0:
		kept := []zkproto.MultiOp{
			{Op: zkproto.OpCreateContainer, Path: "/t/kept/c1", Flags: zkproto.FlagContainer},
			{Op: zkproto.OpCreateContainer, Path: "/t/kept/c2", Flags: zkproto.FlagContainer},
			{Op: zkproto.OpCreateTTL, Path: "/t/kept/t1", Flags: zkproto.FlagTTL, TTL: zkproto.MaxTTL},
			{Op: zkproto.OpCreateTTL, Path: "/t/kept/n-", Flags: zkproto.FlagSequentialTTL, TTL: zkproto.MaxTTL},
		}[c.rng.IntN(4)]
		kept.Data = c.data()
		return asked{op: kept.Op, write: kept}
	default:
		w := c.randomWrite()
		if w.Op == zkproto.OpCreate && c.rng.IntN(2) == 0 {
			w.Op = zkproto.OpCreate2
		}
		return asked{op: w.Op, write: w}
	}
}
