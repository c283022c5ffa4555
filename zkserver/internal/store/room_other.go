//go:build !linux

package store

import "github.com/cockroachdb/pebble/v2/vfs"

func withRoom(_ string, f vfs.File) vfs.File { return f }
