//go:build !linux && !darwin

package store

// bootID returns zeros: there is no boot id here, so everything is synced.
func bootID() BootID { return BootID{} }
