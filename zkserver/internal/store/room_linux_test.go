package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The log has its size before it is full. A crash leaves the rest as zeros, which are not
// taken for damage, and a close leaves none.
func TestLogHasRoomThatEndsWithIt(t *testing.T) {
	const commits = 20
	dir, crashed := t.TempDir(), t.TempDir()
	p := mustOpen(t, dir)
	mustLoad(t, p)
	for i := range commits {
		var b Batch
		b.PutNode(fmt.Sprintf("/n%d", i), []byte("record"))
		if err := p.Commit(&b); err != nil {
			t.Fatal(err)
		}
	}
	if got := logSize(t, dir); got < 1<<20 {
		t.Errorf("the log has %d bytes while it is written; want all its room", got)
	}
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := logSize(t, dir); got > 1<<16 {
		t.Errorf("the log has %d bytes when it is closed; want what was written", got)
	}
	for name, dir := range map[string]string{"closed": dir, "crashed": crashed} {
		p := mustOpen(t, dir)
		c, err := load(p, firstMeta)
		if err != nil || len(c.nodes) != commits {
			t.Errorf("%s: %d nodes, %v; want %d", name, len(c.nodes), err, commits)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// logSize is that of the largest log.
func logSize(t *testing.T, dir string) (size int64) {
	names, err := filepath.Glob(filepath.Join(dir, "store", "*.log"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no log: %v", err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, info.Size())
	}
	return size
}
