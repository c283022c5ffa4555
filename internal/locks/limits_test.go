package locks

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/budget"
	"holdfast/zk"
)

// A tree that is too large for the memory is refused.
func TestTreesThatAreTooLarge(t *testing.T) {
	srv := newServer(t)
	c := srv.Client()
	for i := range 50 {
		_, _, err := c.Create(t.Context(), fmt.Sprintf("/l%d", i), nil, zk.Persistent)
		must(t, err)
		_, _, err = c.Create(t.Context(), fmt.Sprintf("/l%d/x-lock-", i), make([]byte, 1000), zk.EphemeralSequential)
		must(t, err)
	}
	if got := places(survey(t, c, nil).Graph()); got != 50 {
		t.Errorf("%d places; want 50", got)
	}
	nodes, bytes := budget.MaxNodes, budget.MaxBytes
	defer func() { budget.MaxNodes, budget.MaxBytes = nodes, bytes }()
	for _, limit := range []struct{ nodes, bytes int64 }{{90, bytes}, {nodes, 40_000}} {
		budget.MaxNodes, budget.MaxBytes = limit.nodes, limit.bytes
		if _, err := Read(t.Context(), c, Query{Prefix: "/"}); !errors.Is(err, budget.ErrTooMuch) {
			t.Errorf("limits %v: %v", limit, err)
		}
	}
}
