package zklocal

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// sharedFileSystem returns the name of the file system of a directory if other machines can
// mount it. It returns "" if they cannot, or if that is unknown.
func sharedFileSystem(dir string) string {
	volume := filepath.VolumeName(dir) + `\`
	name, err := windows.UTF16PtrFromString(volume)
	if err == nil && windows.GetDriveType(name) == windows.DRIVE_REMOTE {
		return volume
	}
	return ""
}
