package queue

import (
	"reflect"
	"testing"
)

// FuzzNote: ReadNote makes something of any data, and writing that and reading it again gives
// the same. A release request keeps the note's content, and is recognizable.
func FuzzNote(f *testing.F) {
	for _, data := range []string{"", "10.0.0.5", `{"owner":"api-7","why":"reindex","token":7}`, `{"value":""}`, "null", "[1]", "{", `{"owner":7}`, "\xff", "__REVOKE__", `{"id":"x","revoke":true}`, `{"a":1}`, `{"owner":"a"} {}`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := ReadNote(data).Encode()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		read := ReadNote(first) // as text that is not UTF-8 is also returned
		second, err := read.Encode()
		if err != nil || !reflect.DeepEqual(ReadNote(second), read) {
			t.Errorf("%q is written as %q, which reads as %q, %v", data, first, second, err)
		}
		asked, err := WithRequest(data)
		if err != nil || !ReadNote(asked).Revoke {
			t.Fatalf("%q becomes %q, %v, without a release request", data, asked, err)
		}
		before, ok := ParseNote(data)
		after, still := ParseNote(asked)
		before.Revoke, after.Revoke = false, false
		if ok != still || !reflect.DeepEqual(before, after) || !ok && string(asked) != revokeRequest {
			t.Errorf("%q becomes %q and loses something", data, asked)
		}
	})
}
