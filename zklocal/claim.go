package zklocal

import (
	"path/filepath"
)

// paths are the directory's path as it was given, and the one without symbolic links if
// that is another.
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
