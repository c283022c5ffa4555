package htpasswd

import (
	"context"
	"os"
	"slices"
	"time"
)

// lookEvery is how often a Watch looks at its files.
const lookEvery = time.Second

// A Watch finds changes of files.
type Watch struct {
	paths []string
	seen  []os.FileInfo // nil for a missing file
}

// NewWatch begins a watch. Files without a name are left out. The caller reads the files after it, so no change is missed.
func NewWatch(paths ...string) *Watch {
	w := &Watch{paths: slices.DeleteFunc(paths, func(p string) bool { return p == "" })}
	w.seen = w.look()
	return w
}

func (w *Watch) look() []os.FileInfo {
	var all []os.FileInfo
	for _, path := range w.paths {
		info, _ := os.Stat(path) // the caller reads the file, and reports the error
		all = append(all, info)
	}
	return all
}

// Follow calls changed after each change of a file, until ctx ends.
func (w *Watch) Follow(ctx context.Context, changed func()) {
	if len(w.paths) == 0 {
		return
	}
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			if now := w.look(); !slices.EqualFunc(now, w.seen, same) {
				w.seen = now
				changed()
			}
		case <-ctx.Done():
			return
		}
	}
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
