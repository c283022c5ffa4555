package term

import (
	"fmt"
	"slices"
	"strings"
)

// A Choice is a flag with one of several values. The first is the default.
type Choice struct {
	Options []string
	Chosen  int
}

// Is reports whether an option is chosen.
func (c *Choice) Is(option string) bool { return c.Options[c.Chosen] == option }

func (c *Choice) String() string {
	if len(c.Options) == 0 {
		return ""
	}
	return c.Options[c.Chosen]
}

// Type returns the name of the value in the help.
func (c *Choice) Type() string { return "how" }

// Set accepts one of the values.
func (c *Choice) Set(text string) error {
	i := slices.Index(c.Options, text)
	if i < 0 {
		last := len(c.Options) - 1
		return fmt.Errorf("want %s or %s", strings.Join(c.Options[:last], ", "), c.Options[last])
	}
	c.Chosen = i
	return nil
}
