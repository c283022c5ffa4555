//go:build linux

package interop

import "holdfast"

// localHandoff is holdfast.WithLocalHandoff; nil while there is none.
var localHandoff func(n int) holdfast.Option

// localTurns is how often the lock goes from one goroutine to the next before it goes back
// to the ensemble.
const localTurns = 1000
