package tree

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Quotas are kept in nodes, as Apache's server does (DataTree, Quotas, StatsTrack): of the
// subtree at P, /zookeeper/quota/P/zookeeper_limits has what an administrator allows, and
// zookeeper_stats beside it what there is, which the server keeps up to date. Clients
// write both like any other node; that the server changes the second shows neither in
// its version nor to a watch.
const (
	quotaRoot  = "/zookeeper/quota"
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// A usage is the text of such a node: numbers by name, like count=3,bytes=-1=;byteHardLimit=100.
// The = before the first ; is for old parsers. What is missing is -1, which is no limit.
type usage map[string]int64

func parseUsage(text []byte) (usage, bool) {
	u := make(usage)
	for _, pair := range bytes.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, ok := strings.Cut(string(pair), "=")
		value = strings.TrimRight(value, "=")
		n := int64(-1)
		if value != "" {
			var err error
			if n, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, false
			}
		}
		if !ok {
			return nil, false
		}
		u[name] = n
	}
	return u, true
}

func (u usage) get(name string) int64 {
	if n, ok := u[name]; ok {
		return n
	}
	return -1
}

func (u usage) String() string {
	text := "count=" + strconv.FormatInt(u.get("count"), 10) + ",bytes=" + strconv.FormatInt(u.get("bytes"), 10)
	var more string
	for _, name := range slices.Sorted(maps.Keys(u)) {
		if name != "count" && name != "bytes" {
			more += ";" + name + "=" + strconv.FormatInt(u[name], 10)
		}
	}
	if more != "" {
		text += "=" + more
	}
	return text
}

// quotaAt is the path whose quota the node at path is a part of.
func quotaAt(path string) (subtree, name string, ok bool) {
	below, ok := strings.CutPrefix(path, quotaRoot+"/")
	if !ok {
		return "", "", false
	}
	i := strings.LastIndexByte(below, '/')
	if i < 0 {
		return "", "", false // of the root, which can have none
	}
	return "/" + below[:i], below[i+1:], true
}

// quotaOver is the nearest path at or above path that has a quota.
func (t *Tree) quotaOver(path string) (string, bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	for ; path != "/"; path = parentOf(path) {
		if _, ok := t.quotas[path]; ok {
			return path, true
		}
	}
	return "", false
}

// account notes that the node at path has come (nodes 1), gone (-1) or changed (0), with so
// many bytes more of data. It is called when that has been done.
func (t *Tree) account(path string, nodes, size int64) {
	if subtree, name, ok := quotaAt(path); ok && nodes != 0 {
		switch {
		case name == limitsName && nodes > 0:
			t.quotas[subtree] = struct{}{}
			t.onUndo(func() { delete(t.quotas, subtree) })
		case name == limitsName:
			delete(t.quotas, subtree)
			t.onUndo(func() { t.quotas[subtree] = struct{}{} })
		case name == statsName && nodes > 0:
			n, total := t.sum(subtree)
			t.keep(path, usage{"count": n, "bytes": total})
		}
	}
	subtree, ok := t.quotaOver(path)
	if !ok {
		return
	}
	stats := quotaRoot + subtree + "/" + statsName
	n := t.nodes[stats]
	if n == nil {
		return
	}
	u, ok := parseUsage(n.data)
	if !ok {
		return // somebody has written something else there
	}
	u["count"], u["bytes"] = u.get("count")+nodes, u.get("bytes")+size
	t.keep(stats, u)
	if limits := t.nodes[quotaRoot+subtree+"/"+limitsName]; limits != nil && nodes+size > 0 && t.bounds.OverQuota != nil {
		if allowed, ok := parseUsage(limits.data); ok && (over(allowed, u, "count", "count") || over(allowed, u, "bytes", "bytes")) {
			t.bounds.OverQuota(subtree)
		}
	}
}

// over says whether there is more of something than the limit of that name allows.
func over(allowed, used usage, name, limit string) bool {
	most := allowed.get(limit)
	return most > -1 && used.get(name) > most
}

// keep makes u the data of the node at path.
func (t *Tree) keep(path string, u usage) {
	n := t.nodes[path]
	old, data := n.data, []byte(u.String())
	set := func(data []byte) {
		t.dataBytes += int64(len(data) - len(n.data))
		n.data = data
	}
	t.onUndo(func() { set(old) })
	set(data)
	t.touched = append(t.touched, path)
}

// sum counts the nodes from path on, and the bytes of their data. It walks through all of
// them, once for every quota that is set.
func (t *Tree) sum(path string) (nodes, size int64) {
	n := t.nodes[path]
	if n == nil {
		return 0, 0
	}
	nodes, size = 1, int64(len(n.data))
	for name := range n.children {
		c, b := t.sum(strings.TrimSuffix(path, "/") + "/" + name)
		nodes, size = nodes+c, size+b
	}
	return nodes, size
}

// overQuota says whether so many nodes and bytes more at path would exceed a hard limit.
func (t *Tree) overQuota(path string, nodes, size int64) bool {
	subtree, ok := t.quotaOver(path)
	if !ok || !t.bounds.Quotas {
		return false
	}
	limits, stats := t.nodes[quotaRoot+subtree+"/"+limitsName], t.nodes[quotaRoot+subtree+"/"+statsName]
	if limits == nil || stats == nil {
		return false
	}
	allowed, ok1 := parseUsage(limits.data)
	used, ok2 := parseUsage(stats.data)
	if !ok1 || !ok2 {
		return false
	}
	used["count"], used["bytes"] = used.get("count")+nodes, used.get("bytes")+size
	// Who makes something smaller is not refused for what there is too much already.
	if nodes > 0 && over(allowed, used, "count", "countHardLimit") || size > 0 && over(allowed, used, "bytes", "byteHardLimit") {
		t.bounds.exceeded(BoundQuota)
		return true
	}
	return false
}

// loadQuotas finds the limits among the nodes that were loaded.
func (t *Tree) loadQuotas() {
	clear(t.quotas)
	var visit func(path string, n *node)
	visit = func(path string, n *node) {
		for name := range n.children {
			below := path + "/" + name
			if subtree, kind, ok := quotaAt(below); ok && kind == limitsName {
				t.quotas[subtree] = struct{}{}
			}
			visit(below, t.nodes[below])
		}
	}
	visit(quotaRoot, t.nodes[quotaRoot])
}
