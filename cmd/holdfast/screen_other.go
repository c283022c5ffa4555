//go:build !unix

package main

import "io"

// screenHeight returns 0: the height is not known.
func screenHeight(io.Writer) int { return 0 }
