//go:build !unix

package main

import (
	"io"
	"os"
)

// screenOf returns nil: a console may not understand how to erase a line.
func screenOf(*os.File) *screen { return nil }

// screenHeight returns 0: the height is not known.
func screenHeight(io.Writer) int { return 0 }
