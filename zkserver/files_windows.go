package zkserver

import "golang.org/x/sys/windows"

// openFiles is how many files this process has open and may have; -1 is unknown.
func openFiles() (open, most int64) { return -1, -1 }

// shortages are the errors of an accept that lacks something which the system has given to
// others.
var shortages = []error{windows.WSAEMFILE, windows.WSAENOBUFS}
