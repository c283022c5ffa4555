package main

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// colorFlag is --color, a flag of the commands that print tables.
type colorFlag string

func (c *colorFlag) register(cmd *cobra.Command) {
	*c = "auto"
	cmd.Flags().Var(c, "color", "color tables: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never")
}

func (c *colorFlag) String() string { return string(*c) }

// Type returns the name of the value in the help.
func (c *colorFlag) Type() string { return "when" }

// Set accepts auto, always and never.
func (c *colorFlag) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*c = colorFlag(s)
		return nil
	}
	return fmt.Errorf("want auto, always or never")
}

// on reports whether w gets colors. The flag wins over NO_COLOR (https://no-color.org).
func (c *colorFlag) on(w io.Writer) bool {
	switch *c {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows" && terminal(w)
}

// terminal reports whether w is a terminal, or another device for characters.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// An ink is the color of a cell, as the number of a terminal's sequence. 0 is none.
type ink int

const (
	bold    ink = 1
	faint   ink = 2
	green   ink = 32
	yellow  ink = 33
	red     ink = 31
	reverse ink = 7
)

// paint returns text with the sequences around it.
func (i ink) paint(text string) string {
	if i == 0 {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(i), text)
}
