package show_test

import (
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/internal/locks"
)

// A lock whose only client waits is neither free nor held, for a user and for an agent.
func TestStateOfADocument(t *testing.T) {
	for _, tt := range []struct {
		queue []holdfast.Entry
		state string
	}{
		{nil, "free"},
		{[]holdfast.Entry{{}}, "waiting"},
		{[]holdfast.Entry{{Held: true}, {}}, "held"},
		{[]holdfast.Entry{{Held: true, Kept: true}}, "kept"},
		{[]holdfast.Entry{{Held: true, Detached: true}}, "held"},
	} {
		var places []locks.Place
		for _, e := range tt.queue {
			places = append(places, locks.Place{Entry: e})
		}
		if d := show.Describe("job", "/l/job", places, time.Now()); d.State != tt.state {
			t.Errorf("%+v: the state is %q; want %q", tt.queue, d.State, tt.state)
		}
	}
}
