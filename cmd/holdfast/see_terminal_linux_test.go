package main

import "testing"

// On a terminal, ls --watch keeps the table up to date in place, in colors, and leaves the terminal as it was.
func TestLsWatchOnATerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	c := startConsole(t, "TERM=xterm", "NO_COLOR=")
	c.enter(`stty rows 6 cols 100; holdfast lock db/migrate & sleep 0; holdfast ls --watch; echo "goes on"`)
	c.expect("\x1b\\[\\?7l\x1b\\[2J\x1b\\[H\x1b\\[1mNAME\x1b\\[0m")
	c.expect("\x1b\\[\\?7h") // a row is cut, not wrapped
	c.expect("\x1b\\[H\x1b\\[1mNAME\x1b\\[0m[^\x1b]*(\x1b\\[[^\x1b]*)*db/migrate  \x1b\\[33mheld\x1b\\[0m ")
	c.expect(" ≤?[1-9][0-9]*s +0 ")
	c.expect(" ≤?[1-9][0-9]+s +0 ") // the time goes on
	c.keys(ctrlC)
	c.enter(`echo "rc=$?"`)
	c.expect("rc=130")
	// A table that is longer than the screen is cut.
	c.enter(`for i in 1 2 3 4 5 6 7 8; do holdfast lock cut/$i 2>/dev/null & done; holdfast ls --watch cut/`)
	c.expect("… 4 more")
	c.keys(ctrlC)
	c.enter(`echo "rc=$?"`)
	c.expect("rc=130")
	c.enter(`NO_COLOR=1 holdfast ls --no-headers db/; echo "plain"`)
	c.expect("db/migrate +held .*\r\n")
	c.expect("plain")
	c.enter(`holdfast ls --no-headers db/`)
	c.expect("\x1b\\[33mheld\x1b\\[0m")
	c.enter(`holdfast ls --no-headers --color never db/; kill %1 %2 %3 %4 %5 %6 %7 %8 %9; wait; echo "en""ded"`)
	c.expect("db/migrate +held ")
	c.expect("ended")
}
