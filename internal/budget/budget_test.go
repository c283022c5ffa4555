package budget

import (
	"errors"
	"testing"
)

func TestBudget(t *testing.T) {
	bytes := MaxBytes
	MaxBytes = 10 * MaxNodes
	defer func() { MaxBytes = bytes }()
	var b Budget
	for range MaxNodes {
		if err := b.Keep(1, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Keep(1, 0); !errors.Is(err, ErrTooMuch) {
		t.Errorf("one node more: %v", err)
	}
	b = Budget{}
	if b.Lower(5); b.Keep(5, 50) != nil || !errors.Is(b.Keep(1, 0), ErrTooMuch) {
		t.Error("a budget of 5 nodes keeps fewer or more")
	}
	b = Budget{}
	if err := b.KeepNames("/a", []string{string(make([]byte, MaxBytes-3))}); err != nil {
		t.Error(err)
	}
	if err := b.KeepNames("/a", []string{"b"}); !errors.Is(err, ErrTooMuch) {
		t.Errorf("a few bytes more: %v", err)
	}
}
