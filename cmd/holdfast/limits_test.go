package main

import (
	"errors"
	"fmt"
	"testing"

	"holdfast"
	"holdfast/internal/queue"
	"holdfast/zk"
	"holdfast/zktest"
)

// ls, top, sessions and doctor refuse a tree that is too large for the memory, and say so.
func TestFindLocksInATreeThatIsTooLarge(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	for i := range 50 {
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/l%d", i), nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/l%d/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", i), make([]byte, 1000), zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := findLocks(t.Context(), c, "/", holdfast.LayoutCurator); err != nil || len(found) != 50 {
		t.Fatal(len(found), err)
	}
	nodes, bytes := queue.MaxNodes, queue.MaxBytes
	defer func() { queue.MaxNodes, queue.MaxBytes = nodes, bytes }()
	for _, limit := range []struct{ nodes, bytes int64 }{{90, bytes}, {nodes, 40_000}} {
		queue.MaxNodes, queue.MaxBytes = limit.nodes, limit.bytes
		_, err := findLocks(t.Context(), c, "/", holdfast.LayoutCurator)
		if f := explain(err); !errors.Is(err, queue.ErrTooMuch) || f.code != exitUnavailable || f.hint == "" {
			t.Errorf("limits %v: %v", limit, err)
		}
	}
}
