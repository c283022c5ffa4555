//go:build unix

package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// mode asks a server with the four-letter word srvr what it is: "standalone",
// "leader" or "follower".
func mode(ctx context.Context, addr string) (string, error) {
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
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(answer)) {
		if m, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(m), nil
		}
	}
	return "", fmt.Errorf("peers: srvr %s: %q", addr, answer)
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
