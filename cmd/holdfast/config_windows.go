package main

import "io/fs"

// The mode and the owner mean nothing here.

func writableByOthers(fs.FileInfo) bool { return false }

func ours(fs.FileInfo) bool { return true }

// ownGroup returns -1: files have no group.
func ownGroup(string) int { return -1 }
