package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// A client with many uses gives way to others, the newest use first, whether it is one user at many addresses or one address
// with many users.
func TestTheLargestClientGivesWay(t *testing.T) {
	for name, keys := range map[string]func(i int) []string{
		"one user at one address":     func(int) []string { return []string{"user eve", "address e"} },
		"one user at many addresses":  func(i int) []string { return []string{"user eve", fmt.Sprint("address ", i)} },
		"many users at one address":   func(i int) []string { return []string{fmt.Sprint("user ", i), "address e"} },
		"many logins of an only user": func(i int) []string { return []string{"user me", "address here", "login 1"} },
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPool(16)
			over := make(map[int]bool)
			var all []*Use
			for i := range 40 {
				u := p.Enter(func() { over[i] = true }, keys(i)...)
				all = append(all, u)
				if u.Grow(1) != (i < 16) {
					t.Fatalf("use %d of one client: %v", i, !over[i])
				}
			}
			if len(over) != 24 {
				t.Errorf("%d uses ended; want 24", len(over))
			}
			var others []*Use
			for i := range 4 {
				u := p.Enter(func() { t.Errorf("the use of another client ended") }, "user me", "address here", "login 2")
				others = append(others, u)
				if !u.Grow(1) || !over[15-i] {
					t.Errorf("another client: the use %d of the large one: ended %v", 15-i, over[15-i])
				}
			}
			for _, u := range slices.Concat(all, others) {
				u.Leave()
				u.Leave()
			}
			if p.used != 0 || len(p.of) != 0 || len(p.uses) != 0 {
				t.Errorf("left over: %d, %v, %d uses", p.used, p.of, len(p.uses))
			}
		})
	}
}

// Uses grow. Uses that a client would hardly miss go before those that it needs.
func TestAmountsAndSpares(t *testing.T) {
	p := NewPool(100)
	var ended []string
	enter := func(name, user string, n int64) *Use {
		u := p.Enter(func() { ended = append(ended, name) }, user)
		u.Grow(n)
		return u
	}
	first := enter("first", "eve", 30)
	enter("second", "eve", 30)
	first.Spare(true)
	small := enter("small", "ann", 1)
	if !small.Grow(39) || len(ended) > 0 {
		t.Errorf("%v ended although all fits", ended)
	}
	if !small.Grow(10) || !slices.Equal(ended, []string{"first"}) {
		t.Errorf("%v ended; want the spare one of the largest client", ended)
	}
	if small.Grow(100) || !slices.Equal(ended, []string{"first", "small"}) || small.Grow(1) {
		t.Errorf("%v ended; want the one that has become the largest", ended)
	}
}

// Slots go in turns among clients, however many of one wait.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2)
		var order []string
		release := make(chan struct{})
		take := func(user string) {
			go func() {
				done, err := turns.Take(t.Context(), user)
				if err != nil {
					return
				}
				order = append(order, user)
				<-release
				done()
			}()
			synctest.Wait()
		}
		for range 10 {
			take("eve")
		}
		take("ann")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := turns.Take(ctx, "bob"); gone <- err }()
		synctest.Wait()
		cause := errors.New("gone")
		cancel(cause)
		if err := <-gone; !errors.Is(err, cause) {
			t.Error(err)
		}
		for range 11 {
			release <- struct{}{}
			synctest.Wait()
		}
		if len(order) != 11 || order[2] != "ann" {
			t.Errorf("the order of turns is %v; want ann third", order)
		}
		if turns.free != 2 || len(turns.of) != 0 {
			t.Errorf("%d slots are free, %v", turns.free, turns.of)
		}
	})
}
