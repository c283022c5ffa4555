package conn

import (
	"fmt"
	"os"
	"os/user"
	"time"

	"holdfast/internal/cli/term"
)

// Owner returns the name of this process in the queue.
func Owner() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("%s@%s:%d", name, host, os.Getpid())
}

// Granted refuses a session timeout longer than the user's, since the lock of a killed holder would
// last as long.
func Granted(g *Flags, timeout time.Duration) error {
	if !g.TimeoutGiven || timeout <= g.Timeout {
		return nil
	}
	return term.Usage(fmt.Sprintf("give --session-timeout %v or more", timeout),
		"session timeout %v is too short: the server grants at least %v", g.Timeout, timeout)
}
