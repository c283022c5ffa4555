package zkserver

import (
	"bytes"
	"testing"
)

// The secret is each store's own: who has a server at hand can make no passwords for
// another's sessions.
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
