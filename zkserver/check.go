package zkserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// Errors of Check and BackUp, and of Open.
var (
	// ErrDamaged is wrapped if a store has lost a part of its committed data.
	ErrDamaged = store.ErrDamaged
	// ErrFormat is wrapped if a store has another format, or nothing was ever committed to it.
	ErrFormat = store.ErrFormat
	// ErrInside is wrapped if BackUp was told to copy a store into its own directory.
	ErrInside = store.ErrInside
)

// A Summary describes the contents of a store.
type Summary struct {
	Znodes   int    // including those that every server has
	Sessions int    // alive at the last commit
	Commits  uint64 // since the store was made
	Bytes    int64  // of all files
}

// Check reads the store in dir from beginning to end, and changes nothing. The error says
// what is wrong: it wraps ErrDamaged, ErrFormat, ErrInUse, or fs.ErrNotExist if there is no
// store. Check refuses a store that a server has open; use BackUp there. While Check runs, no
// server and no other Check can open the store. Check is safe for concurrent use, and cannot
// be cancelled.
func Check(dir string) (Summary, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Summary{}, fmt.Errorf("zkserver: check: %w", err)
	}
	c := newChecker()
	s, err := store.Check(dir, c.visitor())
	return c.summary("check", dir, s, err)
}

// BackUp copies the store in dir to the new directory dest. A server may have the store open
// and keeps running. The copy has every change that was acknowledged when BackUp was called, and
// maybe some later changes. BackUp reads the copy from beginning to end before it returns. The copy says
// which change is its last one, so Check and Open notice every damage of it.
//
// To restore, serve dest. All sessions of the copy have ended then, and zxids go on above all that the store or another
// copy of it has given out. This needs clocks that are not behind those of earlier servers of the store.
//
// The error wraps ErrDamaged, ErrFormat, ErrInside, fs.ErrNotExist if there is no store, or fs.ErrExist if
// dest exists. BackUp is safe for concurrent use, and cannot be cancelled.
func BackUp(dir, dest string) (Summary, error) {
	var c *checker
	s, err := store.BackUp(dir, dest, func() store.Visitor {
		c = newChecker()
		return c.visitor()
	})
	if c == nil {
		c = newChecker()
	}
	sum, unsound := c.summary("back up", dir, s, err)
	if err == nil && unsound != nil {
		unsound = errors.Join(unsound, os.RemoveAll(dest))
	}
	return sum, unsound
}

// A checker builds the tree of a store, as a starting server does.
type checker struct {
	tree     *tree.Tree
	sessions int
}

func newChecker() *checker { return &checker{tree: tree.New()} }

func (c *checker) visitor() store.Visitor {
	return store.Visitor{
		Node: loadNode(c.tree),
		Session: func(id int64, record []byte) error {
			c.sessions++
			_, err := decodeSession(id, record)
			return err
		},
	}
}

func (c *checker) summary(op, dir string, s store.Summary, err error) (Summary, error) {
	if err == nil {
		if err = c.tree.Loaded(); err != nil {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	if err != nil {
		return Summary{}, fmt.Errorf("zkserver: %s %s: %w", op, dir, err)
	}
	return Summary{Znodes: c.tree.Len(), Sessions: c.sessions, Commits: s.Batches, Bytes: s.Bytes}, nil
}
