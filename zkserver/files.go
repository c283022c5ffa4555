package zkserver

import (
	"errors"
	"math"
	"net"
	"slices"
)

// Connections and the store share the open files of the process. If the store cannot open its
// next file, it fails for good. So the server reserves some files.

// reservedFiles returns how many files are kept for the store, listeners, HTTP and the rest of a
// process that may have at most most files open.
func reservedFiles(most int64) int64 { return min(64, most/2) }

// connectionsFor returns how many connections there are files for. The process may have most files
// open and has open of them in use. A negative open is unknown. If nearly all files are in use, some
// connections are still allowed, because the store has its files already.
func connectionsFor(open, most int64) int64 {
	return max(most-reservedFiles(most)-max(open, 0), min(16, most/4), 1)
}

// limitByFiles limits connections to the number that the limit of open files permits. It is called
// with the store open, before there are connections.
func (s *Server) limitByFiles(open, most int64) {
	s.fileRoom, s.mostFiles = math.MaxInt64, most
	if most >= 0 {
		s.fileRoom = connectionsFor(open, most)
	}
	s.tellFileRoom()
}

// tellFileRoom warns if the configuration allows more connections than there are files for. s.mu is
// held, or no other goroutine has the server yet.
func (s *Server) tellFileRoom() {
	if configured := s.limits().Connections; s.fileRoom < int64(configured) {
		s.cfg.Logger.Warn("zkserver: fewer connections than configured: the limit of open files is too low; raise ulimit -n (LimitNOFILE in systemd)",
			"connections", s.fileRoom, "configured", configured, "open_files", s.mostFiles, "reserved", reservedFiles(s.mostFiles))
	}
}

// isFile reports whether a connection takes an open file of this process.
func isFile(nc net.Conn) bool {
	_, memory := nc.(*memoryConn)
	return !memory
}

// Passing reports whether Accept may succeed again after err. Such an error means that the process or
// the machine is short of files or memory, or that a connection ended before it was accepted.
func Passing(err error) bool {
	if slices.ContainsFunc(shortages, func(shortage error) bool { return errors.Is(err, shortage) }) {
		return true
	}
	ne, ok := err.(net.Error)
	//lint:ignore SA1019 no other method tells that, say, a connection was aborted before it was accepted
	return ok && ne.Temporary()
}
