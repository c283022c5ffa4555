package zkserver

import (
	"errors"
	"net"
	"slices"
)

// Open files are what connections could take from the store, which fails for good if it
// cannot open its next one.

// reservedFiles is how many files are kept for the store, listeners, the HTTP console and the
// rest of the process, of the most that the process may have open.
func reservedFiles(most int64) int64 { return min(64, most/2) }

// connectionsFor returns for how many connections there are files, if there is room for most
// files and open of them are in use. It is at least 1. A negative number is unknown.
func connectionsFor(open, most int64) int64 {
	return max(most-reservedFiles(most)-max(open, 0), 1)
}

// limitByFiles lowers the limit of connections to what the limit of open files permits. It is
// called with the store open.
func (s *Server) limitByFiles(open, most int64) {
	if most < 0 {
		return
	}
	room := connectionsFor(open, most)
	if room >= int64(s.limits.Connections) {
		return
	}
	s.cfg.Logger.Warn("zkserver: fewer connections than configured, for want of open files; raise ulimit -n (LimitNOFILE in systemd)",
		"connections", room, "configured", s.limits.Connections, "open files", most, "reserved", reservedFiles(most))
	s.limits.Connections = int(room)
}

// passing reports whether a later accept may succeed after err.
func passing(err error) bool {
	if slices.ContainsFunc(shortages, func(shortage error) bool { return errors.Is(err, shortage) }) {
		return true
	}
	ne, ok := err.(net.Error)
	return ok && ne.Temporary() //nolint:staticcheck // a connection that was aborted meanwhile, say
}
