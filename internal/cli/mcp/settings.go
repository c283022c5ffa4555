package mcp

import (
	"cmp"
	"strings"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
)

// settings are what the command line says: the server, the owner of the Holds, and the root of the paths.
type settings struct {
	*conn.Flags
	target conn.Target
	owner  string            // of the Holds
	labels map[string]string // of the Holds
	yields bool              // a wait gives up if it is the victim of a deadlock
	tree   string
	root   string // paths of --tree count from here; "" without --tree
}

func readSettings(g *conn.Flags, who *who.Flags, tree string) (*settings, error) {
	t, err := g.Target()
	if err != nil {
		return nil, err
	}
	t.ZK.CreateChroot = true
	s := &settings{Flags: g, target: t, tree: cmp.Or(tree, leaseTree)}
	if s.owner, s.labels, err = who.Read(); err != nil {
		return nil, err
	}
	if strings.Contains(tree, "/") {
		return nil, term.Usage("give one word, such as the name of the repository", "--tree %q: a tree of leases has no / in its name", term.Cut(tree, 100))
	}
	if _, err := g.LockPath(s.tree); err != nil {
		return nil, err
	}
	if tree != "" {
		if s.root, err = repository(); err != nil {
			return nil, err
		}
	}
	return s, nil
}
