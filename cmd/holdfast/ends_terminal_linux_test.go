package main

import (
	"testing"
	"time"
)

// While holdfast waits for leftover processes, ctrl-C goes to holdfast, which forwards it. The second one kills
// them.
func TestLeftoversAreKilledFromTheTerminal(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter(`holdfast run --leftovers wait job -- sh -c 'setsid sleep 1000 & exit 3'; echo code=$?`)
	c.expect(`holding the lock until`)
	c.keys(ctrlC)
	time.Sleep(100 * time.Millisecond) // two at once are one
	c.keys(ctrlC)
	c.expect(`code=3`)
}
