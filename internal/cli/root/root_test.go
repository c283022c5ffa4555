package root

import (
	"bytes"
	"testing"
)

// A command is the same without the other commands.
func TestACommandAlone(t *testing.T) {
	for _, c := range clients {
		for _, help := range []string{"-h", "--help"} {
			text := func(made ...string) string {
				cmd, out := New("", made...), new(bytes.Buffer)
				cmd.SetOut(out)
				cmd.SetArgs([]string{c.name, help})
				if err := cmd.Execute(); err != nil {
					t.Errorf("%s %s: %v", c.name, help, err)
				}
				return out.String()
			}
			alone, among := text(c.name, help), text()
			if alone != among || len(alone) < 500 {
				t.Errorf("the help of %s is\n%s\nand among the others\n%s", c.name, alone, among)
			}
		}
		if alone, among := len(New("", c.name).Commands()), len(New("").Commands()); alone > among/2 {
			t.Errorf("%s is made with %d of %d commands", c.name, alone, among)
		}
	}
}
