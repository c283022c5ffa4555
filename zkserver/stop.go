package zkserver

// stopListening takes the first step of every stop.
func (s *Server) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for l := range s.listeners {
		(*l).Close()
	}
}

// stopNow stops everything without finishing it. err is nil if the program asked for the stop.
func (s *Server) stopNow(err error) {
	s.stopListening()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quitting {
		return
	}
	s.quitting, s.err = true, err
	close(s.quit)
	for c := range s.conns {
		c.close()
	}
}

// Err returns why the server stopped. It is nil while the server runs, and after Shutdown, Close or
// a linger.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Server) stopError() error {
	if err := s.Err(); err != nil {
		return err
	}
	return ErrServerClosed
}
