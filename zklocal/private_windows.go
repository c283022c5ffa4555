package zklocal

import "io/fs"

// checkPrivate accepts every directory: the mode bits mean nothing on Windows, and a
// directory inherits the access list of its parent, which for a user's own state
// directory lets in that user and the administrators.
func checkPrivate(string, fs.FileInfo) error { return nil }

func closeToOthers(string) error { return nil }

// syncDir has nothing to do: NTFS journals names, and a directory cannot be flushed.
func syncDir(string) error { return nil }
