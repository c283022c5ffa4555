package zk

import "time"

// now is the time by a clock that also runs while the machine is suspended. Go's does
// not (golang/go #24595): after a suspend it would believe in a proof that has long run
// out. Only differences of it mean anything, and it is for use inside this package: what
// callers get is time.Time as time.Now gives it, see Session.Deadline.
func now() time.Time { return time.Now().Add(slept()) }

// slept is how long the machine has been suspended since the program began. It is a
// variable for tests.
var slept = systemSlept
