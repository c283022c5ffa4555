package zkserver

import (
	"bytes"
	"testing"
)

// Each store has its own secret. So a client cannot use one server to compute passwords for
// another server's sessions.
func TestPasswordsOfAnotherServerOpenNothing(t *testing.T) {
	var passwords [][]byte
	for range 2 {
		inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
			passwords = append(passwords, s.password(7))
		})
	}
	if bytes.Equal(passwords[0], passwords[1]) {
		t.Error("two servers give one session the same password")
	}
}
