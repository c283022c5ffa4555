//go:build !linux

package store

// Allocate does nothing: Sync (F_FULLFSYNC on macOS, FlushFileBuffers on Windows) is
// no faster for a file that has its size.
func (f *osFile) Allocate(int64) error { return nil }
