package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// leaseTree is the name of the tree of leases without --tree.
const leaseTree = "files"

// repository returns the nearest directory with .git, from the working directory upwards, or the working directory.
func repository() (string, error) {
	work, err := os.Getwd()
	if err != nil {
		return "", term.Usage("", "mcp: %w", err)
	}
	work = realPath(work)
	for dir := work; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return work, nil
		}
	}
}

// realPath follows the symbolic links in the part of a path that exists.
func realPath(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(found, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// leased returns a path of files as a path in the tree.
func (s *settings) leased(path string) (string, error) {
	base := s.root
	if base == "" {
		var err error
		if base, err = os.Getwd(); err != nil {
			return "", err
		}
	}
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(base, path)
	}
	full = realPath(filepath.Clean(full))
	if s.root == "" {
		return strings.Trim(filepath.ToSlash(full), "/"), nil
	}
	below, err := filepath.Rel(s.root, full)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("%s is not below %s, the root of the tree %s", term.Cut(path, 200), s.root, s.tree)
	}
	if below == "." {
		return "", nil
	}
	return filepath.ToSlash(below), nil
}

// within reports whether path is dir or below it, in a tree.
func within(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir+"/")
}

// slash begins the names of the queues in a tree, and separates the parts of a path in them.
var slash = zk.EscapeName("/")

// nameOf returns the name of a lock. A path in a tree is written with slashes.
func (s *settings) nameOf(path string) string {
	if root, below, ok := strings.Cut(path, "/"+slash); ok {
		if plain, err := zk.UnescapeName(slash + below); err == nil {
			return strings.TrimSuffix(s.LockName(root)+plain, "/")
		}
	}
	return s.LockName(path)
}

// isAbove reports whether the queue at above is that of a path above another one of the same tree.
func isAbove(above, path string) bool {
	root, _, _ := strings.Cut(path, "/"+slash)
	return above != path && (above == root+"/"+slash || strings.HasPrefix(path, above+slash))
}
