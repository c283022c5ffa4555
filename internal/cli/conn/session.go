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

// longestPatience is how long a command that does not wait for a lock waits at most for an answer of the server. A longer
// session timeout is for those that hold locks.
const longestPatience = 15 * time.Second

// Patience returns how long a command that does not wait for a lock waits for an answer of the server: the session timeout,
// but at most 15 seconds.
func (g *Flags) Patience() time.Duration { return min(g.Timeout, longestPatience) }

// Granted refuses a session timeout longer than the user's, since the lock of a machine that died would
// last as long.
func Granted(g *Flags, timeout time.Duration) error {
	if !g.TimeoutGiven || timeout <= g.Timeout {
		return nil
	}
	return term.Usage(fmt.Sprintf("give --session-timeout %v or more", timeout),
		"session timeout %v is too short: the server grants at least %v", g.Timeout, timeout)
}
