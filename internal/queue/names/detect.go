package names

import "strings"

// Detect returns the layout that makes nodes of this name. It is nil if the name is in no known form.
// The nodes of go-zookeeper are like Curator's, and Detect takes them for those.
func Detect(name string) *Grammar {
	for _, k := range known {
		if _, ok := k.nodes.Parse(name); ok {
			return k.Grammar
		}
	}
	c, ok := several.Parse(name)
	if !ok {
		return nil
	}
	l := Named(strings.TrimSuffix(c.Form, namedSeparator))
	if l.Invalid != nil {
		return nil
	}
	return Compile(l)
}

// Mixed returns the grammar of a directory with nodes of Curator's form and of kazoo's. If some of the former
// are of go-zookeeper, which respects both, it is go-zookeeper's. Otherwise it is nil: the two ignore each
// other.
func Mixed(curator []string) *Grammar {
	for _, name := range curator {
		c, _ := Compile(GoZookeeper).Parse(name)
		id, ours := strings.CutPrefix(strings.TrimSuffix(c.Form, "-lock-"), "_c_")
		if ours && len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" {
			return Compile(GoZookeeper)
		}
	}
	return nil
}

// Permit reports whether a name is that of a permit in the directory of a semaphore's permits, or of a slot.
func Permit(name string) bool {
	for _, g := range []*Grammar{Default, Slots} {
		if _, ok := g.Semaphore.Queue.Parse(name); ok {
			return true
		}
	}
	return false
}
