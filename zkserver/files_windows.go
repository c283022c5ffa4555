package zkserver

import "golang.org/x/sys/windows"

// openFiles returns how many files this process has open and may have. -1 is unknown.
func openFiles() (open, most int64) { return -1, -1 }

// shortages are the errors of Accept that mean a lack of files or buffers. A later call may succeed.
var shortages = []error{windows.WSAEMFILE, windows.WSAENOBUFS}
