package lockwatch

import "time"

// A Pace limits how much of the time a program reads that reads again and again.
type Pace struct{ last time.Duration }

// Pause returns the pause after a reading that took so long: every, or more, so that readings take a tenth of the time at
// most. It counts the shorter of the last two readings. A reading during an outage takes as long as the outage, and says
// nothing about the next one.
func (p *Pace) Pause(every, took time.Duration) time.Duration {
	busy := min(took, p.last)
	p.last = took
	return max(every, 9*busy)
}

const (
	// watchTries is how often in a row a watcher asks for a persistent watch before it reads the tree instead. A server
	// without such watches closes the connection, so the next try can reach another member.
	watchTries = 3
	// watchAgain is how long it reads before it asks again.
	watchAgain = time.Minute
)
