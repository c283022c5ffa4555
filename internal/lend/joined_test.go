package lend

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestJoined(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for _, tt := range []struct {
		errs []error
		text string
	}{
		{nil, "<nil>"}, {[]error{nil, nil}, "<nil>"}, {[]error{nil, io.EOF}, "EOF"}, {[]error{wrapped, io.ErrClosedPipe}, "read: EOF; io: read/write on closed pipe"},
		{[]error{wrapped, io.EOF}, "read: EOF"},
	} {
		err := Joined(tt.errs...)
		if got := fmt.Sprint(err); got != tt.text {
			t.Errorf("%v: %q, want %q", tt.errs, got, tt.text)
		}
		for _, one := range tt.errs {
			if one != nil && !errors.Is(err, one) {
				t.Errorf("%v is not %v", err, one)
			}
		}
	}
}
