// Package budget bounds what is kept of what a server answers, which may be hostile or full.
package budget

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrTooMuch means that a tree has more nodes, or more text in them, than a program that reads all of it keeps in memory.
var ErrTooMuch = errors.New("too many nodes")

// MaxNodes and MaxBytes are what such a program keeps: nodes, and bytes of their names and data. Tests lower them.
var (
	MaxNodes int64 = 1_000_000
	MaxBytes int64 = 256 << 20
)

// MaxData is how much of a node's data such a program keeps.
const MaxData = 64 << 10

// A Budget bounds what a program that reads a tree keeps of it. It is safe for concurrent use.
type Budget struct{ nodes, bytes atomic.Int64 }

// Lower leaves room for so many nodes, and a KiB for each, for a reading that must not cost much.
func (b *Budget) Lower(nodes int64) {
	b.nodes.Store(max(0, MaxNodes-nodes))
	b.bytes.Store(max(0, MaxBytes-nodes<<10))
}

// Keep counts nodes, and bytes of their names and data.
func (b *Budget) Keep(nodes, bytes int) error {
	if n := b.nodes.Add(int64(nodes)); n > MaxNodes {
		return fmt.Errorf("%w: more than %d", ErrTooMuch, MaxNodes)
	}
	if n := b.bytes.Add(int64(bytes)); n > MaxBytes {
		return fmt.Errorf("%w: their names and data are more than %d MiB", ErrTooMuch, MaxBytes>>20)
	}
	return nil
}

// KeepNames counts the children of a node.
func (b *Budget) KeepNames(parent string, names []string) error {
	bytes := 0
	for _, name := range names {
		bytes += len(parent) + 1 + len(name)
	}
	return b.Keep(len(names), bytes)
}

type mostKey struct{}

// WithMost returns a context with which holdfast.List reads at most n places of each directory, the first ones. It is for
// messages, which name the holder and must not cost more than the lock.
func WithMost(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, mostKey{}, n)
}

// Most cuts the places of a directory as WithMost says.
func Most[T any](ctx context.Context, places []T) []T {
	if n, ok := ctx.Value(mostKey{}).(int); ok && len(places) > n {
		return places[:n]
	}
	return places
}
