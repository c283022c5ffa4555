package term

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// ColorFlag is --color, a flag of the commands that print tables.
type ColorFlag string

// Register adds the flag to a command.
func (c *ColorFlag) Register(cmd *cobra.Command) {
	*c = "auto"
	cmd.Flags().Var(c, "color", "color tables: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never")
}

// String returns the value of the flag.
func (c *ColorFlag) String() string { return string(*c) }

// Type returns the name of the value in the help.
func (c *ColorFlag) Type() string { return "when" }

// Set accepts auto, always and never.
func (c *ColorFlag) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*c = ColorFlag(s)
		return nil
	}
	return fmt.Errorf("want auto, always or never")
}

// On reports whether w gets colors. The flag wins over NO_COLOR (https://no-color.org).
func (c *ColorFlag) On(w io.Writer) bool {
	switch *c {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows" && IsTerminal(w)
}

// IsTerminal reports whether w is a terminal, or another device for characters.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// An Ink is the color of a cell, as the number of a terminal's sequence. 0 is none.
type Ink int

// The inks of the tables.
const (
	Bold    Ink = 1
	Faint   Ink = 2
	Green   Ink = 32
	Yellow  Ink = 33
	Red     Ink = 31
	Reverse Ink = 7
)

// Paint returns text with the sequences around it.
func (i Ink) Paint(text string) string {
	if i == 0 {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(i), text)
}
