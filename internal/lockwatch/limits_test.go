package lockwatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/internal/budget"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

// limited lowers the limits for a test.
func limited(t *testing.T, nodes, bytes int64) {
	n, b := budget.MaxNodes, budget.MaxBytes
	budget.MaxNodes, budget.MaxBytes = nodes, bytes
	t.Cleanup(func() { budget.MaxNodes, budget.MaxBytes = n, b })
}

// A tree that is too large for the memory is refused, also if it grows later.
func TestTreesThatAreTooLarge(t *testing.T) {
	for name, set := range map[string]func(t *testing.T){
		"nodes": func(t *testing.T) { limited(t, 100, 1<<20) },
		"bytes": func(t *testing.T) { limited(t, 1_000_000, 100_000) },
	} {
		t.Run(name, func(t *testing.T) {
			set(t)
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := srv.Client()
				makeAll(t, c, "/locks")
				fill := func(n int) {
					for i := range n {
						if _, _, err := c.Create(t.Context(), fmt.Sprintf("/locks/%d-%d", n, i), make([]byte, 1000), zk.Persistent); err != nil {
							t.Fatal(err)
						}
					}
				}
				fill(80)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				m := &Mirror{Base: "/locks", Hold: func(change func()) { change() }, Lost: func(error) {}, Reset: func(bool) {}, Changed: func(string, time.Time) {}}
				followed := make(chan error, 1)
				go func() { followed <- m.Follow(ctx, srv.Client()) }()
				time.Sleep(time.Second)
				fill(60)
				time.Sleep(time.Second)
				if name == "nodes" {
					if err := <-followed; !errors.Is(err, budget.ErrTooMuch) {
						t.Errorf("the copy that grows: %v", err)
					}
				} else {
					cancel()
					<-followed
				}
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cfg := Config{Prefix: "/locks/", Layout: layout.Curator}
				if err := Watch(ctx, srv.Client(), cfg, func(Event) error { return nil }); !errors.Is(err, budget.ErrTooMuch) {
					t.Errorf("watch: %v", err)
				}
				m.Nodes = nil
				if err := m.Follow(ctx, srv.Client()); !errors.Is(err, budget.ErrTooMuch) {
					t.Errorf("the copy: %v", err)
				}
			})
		})
	}
}
