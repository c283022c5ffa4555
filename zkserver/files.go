package zkserver

import (
	"errors"
	"math"
	"net"
	"slices"
)

// The connections of all listeners and the store share the open files of the process.

// connectionsFor returns how many connections there are files for, if the process may have most files open and
// has open of them in use. A negative open is unknown. An eighth of the free files is for the store and for
// the rest of the process.
func connectionsFor(open, most int64) int64 { return max((most-max(open, 0))*7/8, 1) }

// limitByFiles limits connections to the number that the limit of open files permits. It is called
// with the store open, before there are connections.
func (s *Server) limitByFiles(open, most int64) {
	s.fileRoom, s.mostFiles = math.MaxInt64, most
	if most >= 0 {
		s.fileRoom = connectionsFor(open, most)
	}
	s.tellRoom()
}

// SetAside takes open files of the process from those that are for connections of s, for the connections of
// another listener of this process. It takes at most a quarter of what is left, and returns how many it has
// taken. Call it before clients connect. If fewer connections than configured are left now, it warns, unless Open has.
func (s *Server) SetAside(files int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fileRoom == math.MaxInt64 { // this system has no limit
		return files
	}
	told := s.mostConnections() < int64(s.limits().Connections)
	n := int(max(min(int64(files), s.fileRoom/4), 1))
	s.fileRoom = max(s.fileRoom-int64(n), 1)
	if told {
		s.counters.mostConnections.Store(s.mostConnections())
	} else {
		s.tellRoom()
	}
	return n
}

// mostConnections returns how many connections of other processes there may be. s.mu is held, or no other goroutine has
// the server yet.
func (s *Server) mostConnections() int64 {
	return min(int64(s.limits().Connections), s.fileRoom, int64(s.limits().BufferBytes/2/connectionBytes))
}

// mostNewcomers returns how many of them may wait for their login.
func (s *Server) mostNewcomers() int64 { return max(s.mostConnections()/4, 16) }

// tellRoom warns if there is room for fewer connections than configured. s.mu is held, or no other goroutine has the
// server yet.
func (s *Server) tellRoom() {
	most := s.mostConnections()
	s.counters.mostConnections.Store(most)
	switch configured := int64(s.limits().Connections); {
	case configured == math.MaxInt32 || most == configured:
	case most == s.fileRoom:
		s.cfg.Logger.Warn("zkserver: fewer connections than configured: the limit of open files is too low; raise ulimit -n (LimitNOFILE in systemd)",
			"connections", most, "configured", configured, "open_files", s.mostFiles)
	default:
		s.cfg.Logger.Warn("zkserver: fewer connections than configured: the limit of memory is too low; raise GOMEMLIMIT or the limit of the cgroup",
			"connections", most, "configured", configured)
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
