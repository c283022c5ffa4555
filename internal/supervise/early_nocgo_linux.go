//go:build !cgo && (amd64 || arm64)

package supervise

import (
	"syscall"
	"unsafe"
)

// Two things must be known before Go's runtime starts. It handles the signals that this process was started to ignore, and
// forgets that they were ignored. And it ends with a trace and exit code 2 if there is too little address space, with which
// a script takes it for the command's own end.
//
// In programs with cgo, package runtime/cgo gives the runtime two functions by these variables, and the runtime calls them
// instead of the kernel. The first memory that it asks for is its heap. These here, in assembly, look first, and then do what
// the runtime does without them.
//
//go:linkname _cgo_sigaction _cgo_sigaction
var _cgo_sigaction = unsafe.Pointer(&sigactionHere)

//go:linkname _cgo_mmap _cgo_mmap
var _cgo_mmap = unsafe.Pointer(&mmapHere)

//go:linkname sigactionHere holdfast_sigaction
var sigactionHere byte

//go:linkname mmapHere holdfast_mmap
var mmapHere byte

var (
	// ignored has a 1 for each signal that this process was started to ignore.
	ignored [maxSignal + 1]byte
	// looked: the address space is large enough.
	looked byte
	// leastSpace is the address space that two processes need, in bytes, and refusal says that.
	leastSpace uint64 = 1750000 << 10
	refusal           = "holdfast: the address space is too small: Go programs need ulimit -v 1750000 or more\n"
)

// wasIgnored reports whether this process was started to ignore sig.
func wasIgnored(sig syscall.Signal) bool { return ignored[sig] != 0 }
