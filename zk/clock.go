package zk

import "time"

// now is the time by a clock that also runs while the machine is suspended. Go's clock does not
// (golang/go #24595): after a suspend it would trust a proof that has long run out. Only
// differences between two values of now mean anything, and only this package uses it. Callers
// get a time.Time as time.Now returns it, see Session.Deadline.
func now() time.Time { return time.Now().Add(slept()) }

// slept is the time that the machine has been suspended since the program began. It is a
// variable for tests.
var slept = systemSlept
