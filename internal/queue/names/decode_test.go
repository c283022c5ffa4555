package names

import (
	"fmt"
	"testing"
)

// FuzzChildName: a name that has a place in a queue ends with the number as the server would
// write it, and with nothing else.
func FuzzChildName(f *testing.F) {
	for _, name := range []string{
		"_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-0000000007", "a-lock--2147483648", "a-lock--000000001", "lock-",
		"6266cbe9453b4a508718b39f57879b6e__lock__0000000001", "_c_x-__READ__0000000003", "x-lock--000000000", "x-lock-+000000001", "x-72057594037927936-0000000002",
	} {
		f.Add(name)
	}
	layouts := []Layout{Curator, Kazoo, {Name: "any", Exclusive: []string{"*"}}, {Name: "two", Exclusive: []string{"w-"}, Shared: []string{"r-*-"}}}
	f.Fuzz(func(t *testing.T, name string) {
		for _, l := range layouts {
			c, ok := Compile(l).Parse(name)
			if !ok {
				continue
			}
			if c.Name != name || c.Form+fmt.Sprintf("%010d", c.Seq) != name {
				t.Errorf("%s: %q is read as form %q, number %d", l.Name, name, c.Form, c.Seq)
			}
		}
	})
}
