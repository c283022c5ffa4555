package store

import "golang.org/x/sys/unix"

func bootID() BootID {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return BootID{}
	}
	return parseBoot(s)
}
