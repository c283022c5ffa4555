//go:build !unix

package term

import (
	"io"
	"os"
)

// screenOf returns nil: a console may not understand how to erase a line.
func screenOf(*os.File) *Screen { return nil }

// ScreenHeight returns 0: the height is not known.
func ScreenHeight(io.Writer) int { return 0 }
