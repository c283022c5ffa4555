package supervise

import (
	"path/filepath"
	"testing"
)

// LookForMeans says what a watchdog gets that starts now: a cgroup, or none.
func TestMeansAreThoseOfAWatchdog(t *testing.T) {
	m := LookForMeans()
	c, err := newCgroup()
	if err == nil {
		defer c.remove(removePatience)
		if dir := filepath.Dir(c.path); dir != m.Cgroup {
			t.Errorf("a watchdog makes its cgroup in %s; LookForMeans says %q (%v)", dir, m.Cgroup, m.NoCgroup)
		}
	} else if m.NoCgroup == nil || m.Cgroup != "" {
		t.Errorf("a watchdog gets no cgroup (%v); LookForMeans says %q (%v)", err, m.Cgroup, m.NoCgroup)
	}
	if m.NoDeathSignal != nil {
		t.Errorf("no signal at the death of a parent: %v", m.NoDeathSignal)
	}
}
