//go:build !linux

package store

// Allocate has nothing to do: Sync (F_FULLFSYNC on macOS, FlushFileBuffers on Windows) is
// no quicker for a file that has its size.
func (f *osFile) Allocate(int64) error { return nil }
