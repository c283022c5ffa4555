package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// A Notifier reports the state of a service to a supervisor, such as systemd, by sd_notify(3). Without a
// supervisor it does nothing.
type Notifier struct {
	socket string // "" without a supervisor
	log    *slog.Logger
}

// NewNotifier returns the notifier of the socket in NOTIFY_SOCKET.
func NewNotifier(log *slog.Logger) *Notifier {
	return &Notifier{os.Getenv("NOTIFY_SOCKET"), log}
}

// tell sends a state. If it fails, it logs the error and the service goes on.
func (n *Notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.Dial("unixgram", n.socket) // Go, too, takes a name that begins with @ for an abstract one
	if err == nil {
		_, err = c.Write([]byte(state))
		c.Close()
	}
	if err != nil {
		n.log.Warn("cannot notify the supervisor", "NOTIFY_SOCKET", n.socket, "state", state, "err", err)
	}
}

// Ready reports that the service serves.
func (n *Notifier) Ready() { n.tell("READY=1") }

// Stopping reports that the service stops.
func (n *Notifier) Stopping() { n.tell("STOPPING=1") }

// Reloading reports that the service reloads its configuration. Ready ends that.
func (n *Notifier) Reloading() {
	n.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonicMicroseconds()))
}

// Watchdog reports to the supervisor that the server is alive, twice in each of the supervisor's
// intervals, until ctx ends. If the server is not alive, it reports nothing.
func (n *Notifier) Watchdog(ctx context.Context, alive func(context.Context) error) {
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	if err != nil || us <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return // no watchdog, or the watchdog of another process
	}
	keepAlive(ctx, time.Duration(us)*time.Microsecond/2, alive, func() { n.tell("WATCHDOG=1") })
}

// keepAlive calls pat in each interval in which alive returns nil.
func keepAlive(ctx context.Context, interval time.Duration, alive func(context.Context) error, pat func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, interval)
		err := alive(within)
		cancel()
		if err == nil {
			pat()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
