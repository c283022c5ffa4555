//go:build unix

package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ask sends a server a four-letter word and returns the answer.
func ask(ctx context.Context, addr, word string) (string, error) {
	// A server that is stopped still accepts: its kernel does.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// mode asks a server with the four-letter word srvr what it is: "standalone",
// "leader" or "follower".
func mode(ctx context.Context, addr string) (string, error) {
	answer, err := ask(ctx, addr, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(answer) {
		if m, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(m), nil
		}
	}
	return "", fmt.Errorf("peers: srvr %s: %q", addr, answer)
}

// Uptime is for how long server i has served in the role that it has now, by the clock
// by which it expires sessions. The settings must let it answer mntr, which it does not by
// default. It waits at most a second for the answer.
func (z *ZooKeeper) Uptime(ctx context.Context, i int) (time.Duration, error) {
	addr := z.Addrs()[i]
	answer, err := ask(ctx, addr, "mntr")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(answer) {
		if text, ok := strings.CutPrefix(line, "zk_uptime\t"); ok {
			ms, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return time.Duration(ms * float64(time.Millisecond)), err
		}
	}
	return 0, fmt.Errorf("peers: mntr %s: no uptime in %q", addr, answer)
}

// Packets returns how many packets server i has received from its clients, and sent to them, since it started.
func (z *ZooKeeper) Packets(ctx context.Context, i int) (received, sent int64, err error) {
	addr := z.Addrs()[i]
	answer, err := ask(ctx, addr, "srvr")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(answer) {
		for name, to := range map[string]*int64{"Received: ": &received, "Sent: ": &sent} {
			if text, ok := strings.CutPrefix(line, name); ok {
				if *to, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil {
					return 0, 0, fmt.Errorf("peers: srvr %s: %w", addr, err)
				}
			}
		}
	}
	return received, sent, nil
}

// errExited is what awaitMode reports when the server will never get ready.
var errExited = errors.New("the process ended")

// awaitMode waits until the server at addr serves clients.
func awaitMode(ctx context.Context, addr string, p *Process) error {
	for {
		_, err := mode(ctx, addr)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("peers: ZooKeeper on %s: %w: %v", addr, errExited, p.err)
		case <-ctx.Done():
			return fmt.Errorf("peers: ZooKeeper on %s is not ready: %w (last: %v)", addr, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond): // it has no event to wait for
		}
	}
}
