package zklocal

import "io/fs"

// checkPrivate accepts every directory. The mode bits mean nothing on Windows. A directory
// inherits the access list of its parent, and that of a user's own state directory admits only
// that user and the administrators.
func checkPrivate(string, fs.FileInfo) error { return nil }

func closeToOthers(string) error { return nil }

// syncDir does nothing: NTFS journals names, and a directory cannot be flushed.
func syncDir(string) error { return nil }
