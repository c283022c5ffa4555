package zkserver

import "testing"

// ready asks as /readyz does.
func ready(t *testing.T, s *Server) error { return s.Ready(t.Context()) }
