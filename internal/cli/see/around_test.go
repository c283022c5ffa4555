package see

import (
	"slices"
	"strings"
	"testing"

	"holdfast"
	"holdfast/layout"
)

func TestStatusWarnsOfEveryKindOnce(t *testing.T) {
	got := Warnings([]holdfast.ForeignNode{{Path: "/l/a", Kind: "a lock with a queue, layout kazoo"}, {Path: "/l/b"}, {Path: "/l/c", Kind: "a lock with a queue, layout kazoo"}}, layout.Curator)
	want := []string{
		"2 node(s) of a lock with a queue, layout kazoo, such as /l/a: their owners do not respect the queue shown, which is in layout curator",
		"1 node(s) with names of no layout, such as /l/b: their owners do not respect the queue shown, which is in layout curator",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
