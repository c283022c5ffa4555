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

// checkTLS says what is wrong with cfg.TLS.
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

// tlsAtLeast12 is a copy of cfg that does not go below version 1.2; nil for nil.
func tlsAtLeast12(cfg *tls.Config) *tls.Config {
	if cfg != nil {
		cfg = cfg.Clone()
		cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	}
	return cfg
}

// startTLS secures nc, and closes it if that fails or ctx ends first. The server must have
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

// secured is a TLS connection that is closed without a farewell. tls.Conn waits up to
// five seconds for a server that takes no bytes any more, which is when a session has
// no time to lose; and requests and replies have lengths, so that nobody is deceived
// by a connection that ends early.
type secured struct{ *tls.Conn }

func (c secured) Close() error { return c.NetConn().Close() }

// hungUp tells whether err is what one sees where one side speaks TLS and the other
// does not: a connection that breaks, or nonsense on it.
func hungUp(err error) bool {
	var nonsense tls.RecordHeaderError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, zkproto.ErrMalformed) || errors.As(err, &nonsense)
}
