package hold

import (
	"testing"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

// The times of a run begin with the command line, and end when the lock is released.
func TestTimesOfTheStatusFile(t *testing.T) {
	t0 := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	end := t0.Add(62100 * time.Millisecond)
	held := runRecord{acquired: t0.Add(2 * time.Second), token: 9007199254740993, session: 0x100200a0001, started: true, out: supervise.Outcome{Code: 3}}
	released := held
	released.released = t0.Add(62 * time.Second)
	for name, tt := range map[string]struct {
		record               runRecord
		waited, heldFor      int64
		token, session, what string
	}{
		"released":  {released, 2000, 60_000, "9007199254740993", "0x100200a0001", outcomeExited},
		"held":      {held, 2000, 60_100, "9007199254740993", "0x100200a0001", outcomeExited},
		"not begun": {runRecord{}, 62_100, 0, "", "", outcomeInterrupted},
	} {
		p := &Plan{Name: "nightly", Path: "/holdfast/locks/nightly", Who: "ann@web1:100", why: "backup", Labels: map[string]string{"team": "data"}}
		s := (&statusFile{start: t0}).status(p, &tt.record, term.ExitCode(term.ExitSignal+2), term.ExitSignal+2, end)
		if s.WaitedMS != tt.waited || s.HeldMS != tt.heldFor || s.Token != tt.token || s.Session != tt.session || s.Outcome != tt.what || !s.EndedAt.Equal(end) {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Lock != "nightly" || s.Path != "/holdfast/locks/nightly" || s.Owner != "ann@web1:100" || s.Why != "backup" || s.Labels["team"] != "data" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
