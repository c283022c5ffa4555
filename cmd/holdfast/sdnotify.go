package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// A notifier tells a supervisor, such as systemd, what serve is doing, by the protocol of
// sd_notify(3). Without a supervisor it does nothing.
type notifier struct {
	socket string // "" for none
	log    *slog.Logger
}

func newNotifier(log *slog.Logger) *notifier {
	return &notifier{os.Getenv("NOTIFY_SOCKET"), log}
}

// tell sends a state. That it fails is no reason to serve nobody.
func (n *notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.Dial("unixgram", n.socket) // a name that begins with @ is an abstract one, to Go too
	if err == nil {
		_, err = c.Write([]byte(state))
		c.Close()
	}
	if err != nil {
		n.log.Warn("serve: cannot notify the supervisor", "NOTIFY_SOCKET", n.socket, "state", state, "err", err)
	}
}

// ready, stopping and reloading are the states that a service goes through.
func (n *notifier) ready()    { n.tell("READY=1") }
func (n *notifier) stopping() { n.tell("STOPPING=1") }
func (n *notifier) reloading() {
	n.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonicMicroseconds()))
}

// watchdog tells the supervisor that the server is alive, twice within the time after
// which it would end it, for as long as that is true and ctx lives.
func (n *notifier) watchdog(ctx context.Context, alive func(context.Context) error) {
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	if err != nil || us <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return // there is none, or it is not ours
	}
	keepAlive(ctx, time.Duration(us)*time.Microsecond/2, alive, func() { n.tell("WATCHDOG=1") })
}

// keepAlive calls pat in every interval in which alive answers.
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
