package conn

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/watchdog"
	"holdfast/zk"
)

// A will is what a watchdog needs to close the session of a supervisor that has died.
type will struct {
	Flags    map[string]string
	Session  int64
	Password []byte
}

// willFlags are the flags by which the watchdog connects as this process does.
var willFlags = []string{"server", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "auth", "password-file"}

// executorPatience is how long an executor tries to close a session. Then the session has its timeout.
const executorPatience = 5 * time.Second

// Will returns a supervise.Terms.Will: when this process has died, and then its jobs, the watchdog closes the session with
// the given id. It is empty with outlive=true, and on Unix sockets, those of a file:// directory included. There, the
// session belongs to this process and its watchdog (see Guard), and the server ends it.
func (c *Connection) Will(session int64) string {
	if c.flags == nil || c.target.Dir != "" || c.target.ZK.Outlive || strings.HasPrefix(c.target.URL, "unix:") {
		return ""
	}
	s, err := c.Client.Session(context.Background())
	if err != nil || s.ID() != session {
		return "" // the lock is lost
	}
	w := will{Flags: make(map[string]string), Session: session, Password: s.Password()}
	for _, name := range willFlags {
		if v := c.flags.FlagSet.Lookup(name).Value.String(); v != "" {
			w.Flags[name] = v
		}
	}
	text, err := json.Marshal(w)
	if err != nil {
		return ""
	}
	return string(text)
}

// IsExecutor reports whether this process was started to carry out a will. If so, the program must call Execute, and do
// nothing else.
func IsExecutor() bool { return len(os.Args) == 2 && os.Args[0] == watchdog.ExecutorName }

// Execute closes the session of a supervisor that has died. It returns the exit code.
func Execute() int {
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return 2
	}
	var w will
	f := os.NewFile(uintptr(fd), "will")
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&w); err != nil {
		return 2
	}
	g := NewFlags()
	for name, value := range w.Flags {
		if err := g.FlagSet.Set(name, value); err != nil {
			return 2
		}
	}
	t, err := g.Target()
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), executorPatience)
	defer cancel()
	if err := zk.CloseSession(ctx, t.ZK, w.Session, w.Password); err != nil {
		return 1
	}
	return 0
}
