package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/daemon"
	"holdfast/ui"
)

// uiAddress is where ui listens without --listen.
const uiAddress = "127.0.0.1:7480"

func newUI(g *globals) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "ui [flags] [PREFIX]",
		Short: "Show locks, queues and deadlocks in a browser",
		Long: `ui serves a page that shows the locks whose names begin with PREFIX, or all locks in the namespace, and keeps it
up to date. PREFIX / is the whole server. It prints the address of the page, and runs until INT or TERM.

The page shows who holds each lock and since when, who waits for whom and how long, deadlocks with a suggested
victim, sessions, elections, shards, the audit lines of break and revoke, and what has happened in the last
hour. It knows the queues of Curator, kazoo, go-zookeeper and others by the names of their nodes. Each view has the
command that prints the same.

ui keeps one session and one watch, however many tabs are open, and a change of a lock costs the server one
read, or none. What it knows of the past begins when it starts, and is in memory only. If no server answers,
or the session expires, a banner says since when the page is old. ui goes on when a server answers again.

The page is for this machine: --listen refuses addresses that other machines can reach. To see it from
elsewhere, use ssh -L 7480:127.0.0.1:7480 HOST.

Exit codes:
  0   INT or TERM ended it
  2   wrong command line
  69  no server answered at the beginning
  77  no permission
  78  wrong configuration
  125 the address cannot be listened at`,
		Example: `  holdfast ui
  holdfast ui --listen 127.0.0.1:0 db/
  holdfast ui --server zk://zk1:2181 /`,
		Args: operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := g.lockPrefix(args)
			if err != nil {
				return err
			}
			addr, err := loopbackAddress(listen)
			if err != nil {
				return err
			}
			return g.serveUI(cmd, addr, prefix)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", uiAddress, "address of the page: a port of 127.0.0.1, or host:port; port 0 is any free port")
	return cmd
}

// loopbackAddress returns the address to listen at, if no other machine can reach it.
func loopbackAddress(text string) (string, error) {
	const hint = "give a port such as 7480, or an address such as 127.0.0.1:7480"
	addr, err := httpAddress(text)
	if err != nil {
		return "", usage(hint, "--listen %q is not an address", cut(text, 80))
	}
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", usage("give an address of this machine such as 127.0.0.1:7480; to see the page from elsewhere: ssh -L 7480:127.0.0.1:7480 HOST",
			"--listen %q: other machines can reach this address, and the page asks for no login", cut(text, 80))
	}
	return addr, nil
}

func (g *globals) serveUI(cmd *cobra.Command, addr, prefix string) error {
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return &fault{exitFailed, fmt.Errorf("--listen %s: %w", cut(addr, 80), err), "choose another address with --listen, or end the process that listens there"}
	}
	defer l.Close()
	say := g.newSayer(cmd.ErrOrStderr())
	defer say.flush()
	return g.stay(ctx, say, func(c *connection) error {
		page, err := ui.New(ui.Config{Client: c.client, Prefix: prefix, Namespace: g.namespace, Server: g.server})
		if err != nil {
			return err
		}
		defer page.Close()
		server := &http.Server{
			Handler:           daemon.OnlyLocalNames(page),
			ReadHeaderTimeout: answerPatience,
			ReadTimeout:       answerPatience,
			WriteTimeout:      2 * answerPatience,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          log.New(io.Discard, "", 0), // faults of clients
		}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", l.Addr()); err != nil {
			return err
		}
		if err := server.Serve(l); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
			return &fault{exitFailed, fmt.Errorf("ui: %w", err), ""}
		}
		return nil
	})
}
