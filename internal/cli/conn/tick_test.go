package conn

import (
	"testing"
	"time"
)

func TestLongTick(t *testing.T) {
	for _, tt := range []struct {
		assumed, least time.Duration
		told           bool
	}{
		{0, 0, false}, {0, LeastTimeout, false}, {0, 6 * time.Second, false}, {0, 8 * time.Second, true}, {5 * time.Second, 10 * time.Second, false},
		{time.Second, 4 * time.Second, true},
	} {
		if text, hint := LongTick(tt.assumed, tt.least); (text != "") != tt.told || (hint != "") != tt.told {
			t.Errorf("%v, a minimum of %v: %q, %q", tt.assumed, tt.least, text, hint)
		}
	}
}
