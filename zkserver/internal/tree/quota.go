package tree

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Quotas are stored in nodes, as in Apache's server (DataTree, Quotas, StatsTrack). For the
// subtree at P, /zookeeper/quota/P/zookeeper_limits has the limits that an administrator set, and
// zookeeper_stats beside it has the usage, which the server updates. Clients with the
// permission write both like any other node. The server's updates of zookeeper_stats change no
// version and fire no watch. No write counts nodes: each node has the sums of its
// subtree.
const (
	quotaRoot  = "/zookeeper/quota"
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// maxQuotaText is the greatest length of the text of a quota. The server ignores a longer text, like
// one that it cannot parse, since every write below would have to parse it.
const maxQuotaText = 1 << 10

// A usage is the text of a quota's node: numbers by name, like count=3,bytes=-1=;byteHardLimit=100.
// The = before the first ; is for old parsers. A missing number is -1, which is no limit.
type usage struct {
	count, bytes, countHardLimit, byteHardLimit int64

	rest string // the text after bytes, which no write below changes
}

func parseUsage(text []byte) (usage, bool) {
	u := usage{count: -1, bytes: -1, countHardLimit: -1, byteHardLimit: -1}
	if len(text) > maxQuotaText {
		return u, false
	}
	numbers := make(map[string]int64)
	for _, pair := range bytes.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, ok := strings.Cut(string(pair), "=")
		value = strings.TrimRight(value, "=")
		n := int64(-1)
		if value != "" {
			var err error
			if n, err = strconv.ParseInt(value, 10, 64); err != nil {
				return u, false
			}
		}
		if !ok {
			return u, false
		}
		numbers[name] = n
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		n := numbers[name]
		switch name {
		case "count":
			u.count = n
			continue
		case "bytes":
			u.bytes = n
			continue
		case "countHardLimit":
			u.countHardLimit = n
		case "byteHardLimit":
			u.byteHardLimit = n
		}
		u.rest += ";" + name + "=" + strconv.FormatInt(n, 10)
	}
	return u, true
}

func (u *usage) String() string {
	text := "count=" + strconv.FormatInt(u.count, 10) + ",bytes=" + strconv.FormatInt(u.bytes, 10)
	if u.rest != "" {
		text += "=" + u.rest
	}
	return text
}

// A quota has the parsed texts of its two nodes, so that a write below need not parse them.
type quota struct{ limits, stats parsedUsage }

type parsedUsage struct {
	text  []byte // the node's data, when it was parsed
	known bool
	usage usage
	ok    bool
}

// of returns the usage in the data of n. It returns false if there is no node, or no valid text.
func (p *parsedUsage) of(n *node) (*usage, bool) {
	if n == nil {
		return nil, false
	}
	// Data is replaced and never changed, so the same memory has the same text.
	if !p.known || len(p.text) != len(n.data) || len(p.text) > 0 && &p.text[0] != &n.data[0] {
		p.text, p.known = n.data, true
		p.usage, p.ok = parseUsage(n.data)
	}
	return &p.usage, p.ok
}

// inQuotas reports whether path is quotaRoot, or below it.
func inQuotas(path string) bool {
	return strings.HasPrefix(path, quotaRoot) && (len(path) == len(quotaRoot) || path[len(quotaRoot)] == '/')
}

// quotaAt returns the subtree whose quota the node at path is a part of.
func quotaAt(path string) (subtree, name string, ok bool) {
	below, ok := strings.CutPrefix(path, quotaRoot+"/")
	if !ok {
		return "", "", false
	}
	i := strings.LastIndexByte(below, '/')
	if i < 0 {
		return "", "", false // a quota of the root, which can have none
	}
	return "/" + below[:i], below[i+1:], true
}

// quotaOver returns the path of the nearest quota at or above n, or "" if there is none.
func (t *Tree) quotaOver(n *node) string {
	if len(t.quotas) == 0 {
		return ""
	}
	for ; n.parent != nil; n = n.parent {
		t.steps++
		if n.quota {
			return n.path
		}
	}
	return ""
}

// quotaFor is quotaOver for a node that is about to be created at path, below parent.
func (t *Tree) quotaFor(path string, parent *node) string {
	if _, ok := t.quotas[path]; ok {
		return path
	}
	return t.quotaOver(parent)
}

// setQuota makes q the quota of subtree; nil removes it.
func (t *Tree) setQuota(subtree string, q *quota) {
	if q == nil {
		delete(t.quotas, subtree)
	} else {
		t.quotas[subtree] = q
	}
	if n := t.nodes[subtree]; n != nil {
		n.quota = q != nil
	}
}

// account updates the usage: n was created (nodes 1), removed (-1) or changed (0), and its data has
// grown by size bytes. It is called after the change.
func (t *Tree) account(n *node, nodes, size int64) {
	if subtree, name, ok := quotaAt(n.path); ok && nodes != 0 {
		switch {
		case name == limitsName:
			before := t.quotas[subtree]
			t.onUndo(func() { t.setQuota(subtree, before) })
			if nodes > 0 {
				t.setQuota(subtree, new(quota))
			} else {
				t.setQuota(subtree, nil)
			}
		case name == statsName && nodes > 0:
			var u usage
			if top := t.nodes[subtree]; top != nil {
				u.count, u.bytes = 1+int64(top.descendants), top.bytes
			}
			t.keep(n, []byte(u.String()))
		}
	}
	subtree := t.quotaOver(n)
	if subtree == "" {
		return
	}
	q, stats := t.quotas[subtree], t.nodes[quotaRoot+subtree+"/"+statsName]
	u, ok := q.stats.of(stats)
	if !ok {
		return // there is no node, or a client has written another text
	}
	u.count, u.bytes = u.count+nodes, u.bytes+size
	q.stats.text = []byte(u.String())
	t.keep(stats, q.stats.text)
	if nodes+size > 0 && t.bounds.OverQuota != nil {
		allowed, ok := q.limits.of(t.nodes[quotaRoot+subtree+"/"+limitsName])
		if ok && (over(u.count, allowed.count) || over(u.bytes, allowed.bytes)) {
			t.bounds.OverQuota(subtree)
		}
	}
}

// over reports whether the usage exceeds a limit.
func over(used, most int64) bool { return most > -1 && used > most }

// keep replaces the data of a node by text.
func (t *Tree) keep(n *node, text []byte) {
	old := n.data
	set := func(data []byte) {
		grown := int64(len(data) - len(n.data))
		t.dataBytes += grown
		t.grow(n, grown)
		n.data = data
	}
	t.onUndo(func() { set(old) })
	set(text)
	t.touchQuietly(n, PartNode)
}

// overQuota reports whether that many more nodes and bytes would exceed a hard limit of the quota
// of subtree. As in Apache's server (ZooKeeperServer.checkQuota), a write that shrinks a node and
// still leaves too much is refused, too. Deletes are not checked.
func (t *Tree) overQuota(subtree string, nodes, size int64) bool {
	if subtree == "" {
		return false
	}
	q := t.quotas[subtree]
	allowed, ok1 := q.limits.of(t.nodes[quotaRoot+subtree+"/"+limitsName])
	used, ok2 := q.stats.of(t.nodes[quotaRoot+subtree+"/"+statsName])
	if !ok1 || !ok2 {
		return false
	}
	if nodes != 0 && over(used.count+nodes, allowed.countHardLimit) || size != 0 && over(used.bytes+size, allowed.byteHardLimit) {
		t.bounds.exceeded(BoundQuota)
		return true
	}
	return false
}

// loadQuotas finds the limits among the loaded nodes.
func (t *Tree) loadQuotas() {
	clear(t.quotas)
	var visit func(n *node)
	visit = func(n *node) {
		for _, child := range n.below() {
			if subtree, kind, ok := quotaAt(child.path); ok && kind == limitsName {
				t.setQuota(subtree, new(quota))
			}
			visit(child)
		}
	}
	visit(t.nodes[quotaRoot])
}
