package main

import (
	"io/fs"
	"net"
)

// The mode and the owner mean nothing here.

func writableByOthers(fs.FileInfo) bool { return false }

func ours(fs.FileInfo) bool { return true }

// listenPrivately listens on a Unix socket. The directory says who may connect.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }

// mayConnect returns true: an attempt tells.
func mayConnect(string) bool { return true }

// ownGroup returns -1: files have no group.
func ownGroup(string) int { return -1 }
