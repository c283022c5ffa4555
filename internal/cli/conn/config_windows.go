package conn

import "io/fs"

// The mode and the owner mean nothing here.

func writableByOthers(fs.FileInfo) bool { return false }

func ours(fs.FileInfo) bool { return true }

// mayConnect returns true: an attempt tells.
func mayConnect(string) bool { return true }
