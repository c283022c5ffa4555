package holdfast

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
)

// FuzzChildName: a name that has a place in a queue ends with the number that the server
// would have written, and with nothing else.
func FuzzChildName(f *testing.F) {
	for _, name := range []string{
		"_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-0000000007", "a-lock--2147483648", "a-lock--000000001", "lock-",
		"6266cbe9453b4a508718b39f57879b6e__lock__0000000001", "_c_x-__READ__0000000003", "x-lock--000000000", "x-lock-+000000001", "x-72057594037927936-0000000002",
	} {
		f.Add(name)
	}
	layouts := []Layout{LayoutCurator, LayoutKazoo, {Name: "any", Exclusive: []string{"*"}}, {Name: "two", Exclusive: []string{"w-"}, Shared: []string{"r-*-"}}}
	f.Fuzz(func(t *testing.T, name string) {
		for _, l := range layouts {
			c, ok := l.compile().parse(name)
			if !ok {
				continue
			}
			if c.name != name || c.form+fmt.Sprintf("%010d", c.seq) != name {
				t.Errorf("%s: %q is read as form %q, number %d", l.Name, name, c.form, c.seq)
			}
		}
	})
}

// FuzzNote: whatever a node holds, something is made of it, and that is written so that it
// reads the same. A request to let go keeps what a note says, and can be seen.
func FuzzNote(f *testing.F) {
	for _, data := range []string{"", "10.0.0.5", `{"owner":"api-7","why":"reindex","token":7}`, `{"value":""}`, "null", "[1]", "{", `{"owner":7}`, "\xff", "__REVOKE__", `{"id":"x","revoke":true}`, `{"a":1}`, `{"owner":"a"} {}`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := readNote(data).encode()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		read := readNote(first) // as text that is not UTF-8 comes back, too
		second, err := read.encode()
		if err != nil || !reflect.DeepEqual(readNote(second), read) {
			t.Errorf("%q is written as %q, and that as %q, %v", data, first, second, err)
		}
		asked, err := withRequest(data)
		if err != nil || !readNote(asked).Revoke {
			t.Fatalf("%q becomes %q, %v, which asks nobody", data, asked, err)
		}
		before, ok := parseNote(data)
		after, still := parseNote(asked)
		before.Revoke, after.Revoke = false, false
		if ok != still || !reflect.DeepEqual(before, after) || !ok && string(asked) != revokeRequest {
			t.Errorf("%q becomes %q, and has lost something", data, asked)
		}
	})
}

// FuzzParseLayout: a layout that has a name can be asked for by it, and knows the names
// that it makes.
func FuzzParseLayout(f *testing.F) {
	for _, name := range []string{"curator", "kazoo", "named:db", "named:", "named:a_lock_b", "named:a_lock", "named:{hex}", "Curator", "article", "form:lock-{session}", "form:a-{host}.{uuid}", "form:{x}-", "form:-", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		l, err := ParseLayout(name)
		if err != nil {
			if !errors.Is(err, ErrLayout) {
				t.Errorf("%q: %v; want ErrLayout", name, err)
			}
			return
		}
		if l.Name != name {
			t.Errorf("%q is called %q", name, l.Name)
		}
		a, err := l.compile().attempt(sideMutex, 5)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if c, ok := l.compile().parse(a.prefix + "-000000003"); !ok || c.seq != -3 || c.form != a.prefix || c.shared {
			t.Errorf("%q reads its own %q as %+v, %v", name, a.prefix, c, ok)
		}
	})
}
