package zklocal

import (
	"path/filepath"
)

// paths returns the directory's path as given, and the one without symbolic links if it
// differs.
func paths(dir string) []string {
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		return []string{dir, real}
	}
	return []string{dir}
}

// wake puts a token into c, which has room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
