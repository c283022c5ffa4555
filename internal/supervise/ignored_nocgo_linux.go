//go:build !cgo && (amd64 || arm64)

package supervise

import (
	"syscall"
	"unsafe"
)

// ignored has a 1 for each signal that this process was started to ignore. look, in assembly, writes it before anything
// else of this program runs.
var ignored [maxSignal + 1]byte

// wasIgnored reports whether this process was started to ignore sig.
func wasIgnored(sig syscall.Signal) bool { return ignored[sig] != 0 }

// When Go's runtime starts, it asks the kernel what each signal does, and then handles the signal itself. If this variable
// is set, it asks the function there first. Package runtime/cgo sets it in programs with cgo. The function answers only
// what the kernel answers, and refuses all else, so that the runtime does it.
//
//go:linkname _cgo_sigaction _cgo_sigaction
var _cgo_sigaction = unsafe.Pointer(&look)

//go:linkname look holdfast_look
var look byte
