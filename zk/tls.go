package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"holdfast/zkproto"
)

// checkTLS returns an error if cfg.TLS is invalid.
func (cfg *Config) checkTLS() error {
	if cfg.TLS == nil {
		return nil
	}
	if v := cfg.TLS.MaxVersion; v != 0 && v < tls.VersionTLS12 {
		return fmt.Errorf("TLS: MaxVersion is %s; 1.2 is the least that is used", tls.VersionName(v))
	}
	for _, s := range cfg.Servers {
		if network, _, _ := splitServer(s); network == "unix" && cfg.TLS.ServerName == "" {
			return fmt.Errorf("TLS: server %q is a socket, so ServerName must say whose certificate it has", s)
		}
	}
	return nil
}

// tlsAtLeast12 returns a copy of cfg that does not allow versions below 1.2; nil for nil.
func tlsAtLeast12(cfg *tls.Config) *tls.Config {
	if cfg != nil {
		cfg = cfg.Clone()
		cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	}
	return cfg
}

// startTLS starts TLS on nc. It closes nc if that fails or ctx ends first. The server must have
// a certificate for the host of hostPort, unless cfg names another.
func startTLS(ctx context.Context, nc net.Conn, cfg *tls.Config, hostPort string) (net.Conn, error) {
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(hostPort)
		if err != nil {
			nc.Close()
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	c := tls.Client(nc, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		nc.Close()
		if hungUp(err) {
			return nil, fmt.Errorf("TLS handshake: %w (the port does not speak TLS, or the server is not ready)", err)
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured{c}, nil
}

// secured is a TLS connection that closes without a close_notify. tls.Conn waits up to five
// seconds for a server that no longer reads, and a session may not have that time. Requests and
// replies carry their lengths, so a truncated connection is noticed without it.
type secured struct{ *tls.Conn }

func (c secured) Close() error { return c.NetConn().Close() }

// hungUp reports whether err looks as if one side speaks TLS and the other does not: a
// connection that breaks, or malformed data.
func hungUp(err error) bool {
	var nonsense tls.RecordHeaderError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, zkproto.ErrMalformed) || errors.As(err, &nonsense)
}
