package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"

	"holdfast/ui"
)

// uiAddress is where ui listens without --listen.
const uiAddress = "127.0.0.1:7480"

func newUI(g *globals) *cobra.Command {
	f := uiFlags{}
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

On this machine, the address that ui prints is good for one browser, which then may see everything and act: break
and revoke locks, and end sessions. Each act wants a reason, and leaves an audit line. ui prints an address for the
next browser after each use. With --read-only, nobody acts.

An address that other machines can reach needs TLS (--https-cert, --https-key) and a login (--users, see holdfast ui
passwd). Browsers that use a host name need --allow-host NAME. To see the page without these, use ssh -L
7480:127.0.0.1:7480 HOST.

Exit codes:
  0   INT or TERM ended it
  2   wrong command line
  69  no server answered at the beginning
  77  no permission
  78  wrong configuration
  125 the address cannot be listened at`,
		Example: `  holdfast ui
  holdfast ui --listen 127.0.0.1:0 db/
  holdfast ui --read-only --server zk://zk1:2181 /
  holdfast ui --listen 0.0.0.0:7480 --https-cert ui.pem --https-key ui.key --users users --allow-host locks.example.com`,
		Args: operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := g.lockPrefix(args)
			if err != nil {
				return err
			}
			return g.serveUI(cmd, &f, prefix)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", uiAddress, "address of the page: a port of 127.0.0.1, or host:port; port 0 is any free port")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "nobody breaks or revokes locks, or ends sessions")
	cmd.Flags().StringVar(&f.cert, "https-cert", "", "certificate of the page, in PEM")
	cmd.Flags().StringVar(&f.key, "https-key", "", "its key, in PEM")
	cmd.Flags().StringVar(&f.users, "users", "", "file with the users who may log in, one line of holdfast ui passwd each")
	cmd.Flags().StringArrayVar(&f.hosts, "allow-host", nil, "host name by which browsers may reach the page; repeatable")
	cmd.AddCommand(newUIPasswd())
	return cmd
}

// uiFlags are the flags of ui.
type uiFlags struct {
	listen, cert, key, users string
	readOnly                 bool
	hosts                    []string
}

// access returns who may see the page at l, and l with TLS if there is a certificate.
func (f *uiFlags) access(l net.Listener, announce func(string)) (net.Listener, *ui.Access, error) {
	cfg := ui.AccessConfig{Addr: l.Addr(), Owner: owner(), ReadOnly: f.readOnly, Hosts: f.hosts, Announce: announce}
	if (f.cert == "") != (f.key == "") {
		return nil, nil, usage("", "ui: --https-cert and --https-key go together")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, nil, misconfigured("", "--https-cert %s: %w", cut(f.cert, 80), err)
		}
		l, cfg.TLS = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}), true
	}
	if f.users != "" {
		text, err := os.ReadFile(f.users)
		if err != nil {
			return nil, nil, misconfigured("", "--users: %w", err)
		}
		if cfg.Users, err = ui.ParseUsers(string(text)); err != nil {
			return nil, nil, misconfigured("holdfast ui passwd NAME makes a line", "--users %s: %w", cut(f.users, 80), err)
		}
	}
	a, err := ui.NewAccess(cfg)
	if err != nil {
		return nil, nil, usage("give --https-cert, --https-key and --users, or an address of this machine such as 127.0.0.1:7480", "%w", err)
	}
	return l, a, nil
}

func (g *globals) serveUI(cmd *cobra.Command, f *uiFlags, prefix string) error {
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	addr, err := httpAddress(f.listen)
	if err != nil {
		return usage("give a port such as 7480, or an address such as 127.0.0.1:7480", "--listen %q is not an address", cut(f.listen, 80))
	}
	plain, err := net.Listen("tcp", addr)
	if err != nil {
		return &fault{exitFailed, fmt.Errorf("--listen %s: %w", cut(addr, 80), err), "choose another address with --listen, or end the process that listens there"}
	}
	defer plain.Close()
	urls := make(chan string, 8) // the first is printed when the page is there
	out := cmd.OutOrStdout()
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	var ready atomic.Bool
	l, access, err := f.access(plain, func(path string) {
		url := scheme + "://" + plain.Addr().String() + path
		if ready.Load() {
			fmt.Fprintln(out, url)
			return
		}
		urls <- url
	})
	if err != nil {
		return err
	}
	say := g.newSayer(cmd.ErrOrStderr())
	defer say.flush()
	return g.stay(ctx, say, func(c *connection) error {
		page, err := ui.New(ui.Config{Client: c.client, Prefix: prefix, Namespace: g.namespace, Server: g.server, Access: access})
		if err != nil {
			return err
		}
		defer page.Close()
		server := access.Server(page)
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		ready.Store(true)
		first := scheme + "://" + plain.Addr().String() + "/"
		if f.users == "" {
			first = <-urls
		}
		if _, err := fmt.Fprintln(out, first); err != nil {
			return err
		}
		if err := server.Serve(l); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
			return &fault{exitFailed, fmt.Errorf("ui: %w", err), ""}
		}
		return nil
	})
}
