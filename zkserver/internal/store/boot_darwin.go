package store

import "golang.org/x/sys/unix"

// bootID returns the kernel's boot id, or zeros if it has none.
func bootID() BootID {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return BootID{}
	}
	return parseBoot(s)
}
