package see

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/once"
	"holdfast/zk"
)

// lookPatience limits the read of the nodes around a queue.
const lookPatience = 2 * time.Second

// Strangers returns the nodes in the lock's directory whose owners may ignore this queue.
func Strangers(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) []holdfast.ForeignNode {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	nodes, err := holdfast.Foreign(ctx, c, path, layout)
	if err != nil {
		return nil // Lock itself looks for the most harmful ones
	}
	return nodes
}

// Warnings returns the warnings of status about nodes outside the queue, one for each kind.
func Warnings(nodes []holdfast.ForeignNode, layout holdfast.Layout) (all []string) {
	for _, what := range Counted(nodes) {
		all = append(all, fmt.Sprintf("%s: their owners do not respect the queue shown, which is in layout %s", what, layout.Name))
	}
	return all
}

// Jobs returns the Once with the jobs of the lock at path. The locks of named:NAME share a path, so each of them has
// its own jobs.
func Jobs(c *zk.Client, path string, layout holdfast.Layout, opts ...once.Option) *once.Once {
	path += "/" + conn.OwnDirectory
	if strings.HasPrefix(layout.Name, "named:") {
		path += "/" + layout.Name
	}
	return once.New(c, path, opts...)
}
