package daemon

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A Notifier reports the state of a service to a supervisor, such as systemd, by sd_notify(3). Without a
// supervisor it does nothing.
type Notifier struct{ log *slog.Logger }

// NewNotifier returns the notifier of the socket in NOTIFY_SOCKET.
func NewNotifier(log *slog.Logger) *Notifier { return &Notifier{log} }

// tell sends a state. If it fails, it logs the error and the service goes on.
func (n *Notifier) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("cannot notify the supervisor", "NOTIFY_SOCKET", os.Getenv("NOTIFY_SOCKET"), "state", state, "err", err)
	}
}

// Ready reports that the service serves.
func (n *Notifier) Ready() { n.tell(daemon.SdNotifyReady) }

// Stopping reports that the service stops.
func (n *Notifier) Stopping() { n.tell(daemon.SdNotifyStopping) }

// Reloading reports that the service reloads its configuration. Ready ends that.
func (n *Notifier) Reloading() {
	n.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Watchdog reports to the supervisor that the server is alive, twice in each of the supervisor's
// intervals, until ctx ends. If the server is not alive, it reports nothing.
func (n *Notifier) Watchdog(ctx context.Context, alive func(context.Context) error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return // no watchdog, or the watchdog of another process
	}
	keepAlive(ctx, interval/2, alive, func() { n.tell(daemon.SdNotifyWatchdog) })
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
