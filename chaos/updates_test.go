package chaos

import (
	"slices"
	"testing"
)

func TestLostUpdatesAreFound(t *testing.T) {
	update := func(id, read int64) Update { return Update{ID: id, Read: read, Acknowledged: true} }
	unknown := func(id, read int64) Update { return Update{ID: id, Read: read} }
	for _, tt := range []struct {
		name    string
		updates []Update
		last    int64
		lost    []int64
		wrong   bool
	}{
		{"none", nil, 0, nil, false},
		{"one after the other", []Update{update(1, 0), update(2, 1), update(3, 2)}, 3, nil, false},
		{"two from one value", []Update{update(1, 0), update(2, 1), update(3, 1)}, 3, []int64{2}, false},
		{"the last", []Update{update(1, 0), update(2, 1)}, 1, []int64{2}, false},
		{"an unknown one has happened", []Update{update(1, 0), unknown(2, 1), update(3, 2)}, 3, nil, false},
		{"an unknown one has not happened", []Update{update(1, 0), unknown(2, 1), update(3, 1)}, 3, nil, false},
		// A count would not show this: three updates were tried, two are acknowledged, and the
		// value has two.
		{"an unknown one has overwritten another", []Update{update(1, 0), update(2, 1), unknown(3, 1)}, 3, []int64{2}, false},
		{"nobody has written it", []Update{update(1, 0)}, 7, nil, true},
		{"in a circle", []Update{update(1, 2), update(2, 1)}, 2, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost, err := LostUpdates(tt.updates, tt.last)
			var got []int64
			for _, u := range lost {
				got = append(got, u.ID)
			}
			if !slices.Equal(got, tt.lost) || (err != nil) != tt.wrong {
				t.Errorf("lost %v, %v; want %v, an error: %v", got, err, tt.lost, tt.wrong)
			}
		})
	}
}
