// Package dashboard is the program holdfast-ui: the page of package ui, as a client of any server.
package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/passwd"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
	"holdfast/internal/htpasswd"
	"holdfast/ui"
	"holdfast/zk"
)

const (
	// defaultAddress is where ui listens without --listen.
	defaultAddress = "127.0.0.1:7480"
	// connections is how many connections the page has open at most: more than it has tabs.
	connections = 512
)

// New returns the command of the program.
func New() *cobra.Command {
	g := conn.NewFlags()
	var f flags
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
read, or none. Its history begins when it starts, and is in memory only. If no server answers,
or the session expires, a banner says since when the page is old. ui goes on when a server answers again.
It tells systemd when the page can be opened (sd_notify).

The printed URL is for one browser: it has a token that is used up when the page is opened, and the browser gets a
cookie for 12 hours. ui prints the next URL then. The browser that opens it can break locks, revoke and end sessions, with
a reason that goes into the audit (see holdfast break --help), unless ui runs with --read-only.

To let other machines reach the page, give --listen an address of the network, a certificate with --https-cert and
--https-key, and a file of users with --users. They log in with a password. A viewer sees everything, and an operator
acts, too. holdfast ui passwd makes the lines of that file. Give the names in the URL with --allow-host: the page
answers to no other. Without all that, use ssh -L 7480:127.0.0.1:7480 HOST.

Exit codes:
  0   INT or TERM ended it
  2   wrong command line
  69  no server answered at the beginning
  77  no permission
  78  wrong configuration
  125 the address cannot be listened at`,
		Example: `  holdfast ui
  holdfast ui --listen 127.0.0.1:0 db/
  holdfast ui --server zk://zk1:2181 /
  holdfast ui --listen :7480 --users users --https-cert cert.pem --https-key key.pem --allow-host locks.example.com`,
		Args: term.Operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := conn.LockPrefix(g, args)
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return serve(g, cmd, &f, prefix)
		},
	}
	f.register(cmd.Flags())
	cmd.AddCommand(passwd.New("ui", string(ui.Viewer), string(ui.Operator)))
	return program.New(cmd, g)
}

// flags are the flags of ui.
type flags struct {
	listen    string
	users     string // file
	hosts     []string
	cert, key string // files
	readOnly  bool
}

func (f *flags) register(set *pflag.FlagSet) {
	set.StringVar(&f.listen, "listen", defaultAddress, "address of the page: a port of 127.0.0.1, or host:port; port 0 is any free port")
	set.BoolVar(&f.readOnly, "read-only", false, "nobody breaks locks, revokes or ends sessions from the page")
	set.StringVar(&f.users, "users", "", "file of the users, with lines of holdfast ui passwd; other users of this machine must not be able to read it")
	set.StringArrayVar(&f.hosts, "allow-host", nil, "host name in URLs under which browsers reach the page, such as locks.example.com; repeatable")
	set.StringVar(&f.cert, "https-cert", "", "file with the certificate (PEM) of the page, followed by intermediate ones")
	set.StringVar(&f.key, "https-key", "", "file with the private key (PEM) of --https-cert; other users must not be able to read it")
}

// check refuses flags that do not go together. It replaces a port in --listen by an address.
func (f *flags) check() error {
	addr, err := term.LocalAddress("--listen", "give a port such as 7480, or an address such as 127.0.0.1:7480", f.listen)
	if err != nil {
		return err
	}
	if strings.HasPrefix(f.listen, ":") { // every interface, as with serve
		addr = f.listen
	}
	open, err := term.Reachable(addr)
	if err != nil {
		return term.Usage("give an address such as 127.0.0.1:7480", "--listen %q is not an address: %w", term.Cut(f.listen, 80), err)
	}
	f.listen = addr
	switch {
	case (f.cert == "") != (f.key == ""):
		return term.Usage("give both, or neither", "ui: --https-cert and --https-key go together")
	case open && (f.cert == "" || f.users == ""):
		return term.Usage("give --https-cert, --https-key and --users, or listen on 127.0.0.1; to see the page from elsewhere: ssh -L 7480:127.0.0.1:7480 HOST",
			"--listen %s: other machines can reach this address, so the page needs TLS and users", term.Cut(addr, 80))
	}
	return nil
}

// access opens the files, and returns who may use the page at l, and l with TLS. announce is called with each URL for
// one browser.
func (f *flags) access(l net.Listener, keys *certs.Keyring, announce func(url string), log *slog.Logger) (*ui.Access, net.Listener, error) {
	scheme := "http"
	if keys != nil {
		l, scheme = tls.NewListener(l, keys.PageConfig()), "https"
	}
	cfg := ui.AccessConfig{
		Addr: l.Addr(), TLS: keys != nil, Owner: conn.Owner(), ReadOnly: f.readOnly, Hosts: f.hosts, Logger: log,
		Admitted: daemon.Admit,
		Announce: func(path string) { announce(scheme + "://" + f.address(l.Addr()) + path) },
	}
	var err error
	if cfg.Users, err = f.readUsers(); err != nil {
		return nil, nil, err
	}
	if cfg.Users != nil {
		announce(scheme + "://" + f.address(l.Addr()) + "/")
	}
	a, err := ui.NewAccess(cfg)
	if err != nil {
		return nil, nil, term.Usage("", "%w", err)
	}
	return a, l, nil
}

// follow gives the page the users again whenever their file has changed, until ctx ends.
func (f *flags) follow(ctx context.Context, watch *htpasswd.Watch, access *ui.Access, log *slog.Logger) {
	watch.Follow(ctx, func() {
		users, err := f.readUsers()
		if err == nil {
			err = access.SetUsers(users)
		}
		if err != nil {
			log.Error("ui: users not reloaded; the present ones stay in force", "err", err)
			return
		}
		log.Info("ui: users reloaded")
	})
}

// readUsers reads the file of the users. It returns nil if there is none.
func (f *flags) readUsers() (*ui.Users, error) {
	if f.users == "" {
		return nil, nil
	}
	text, err := conn.ReadSecret("--users", f.users)
	if err != nil {
		return nil, err
	}
	users, err := ui.ParseUsers(string(text))
	if err != nil {
		return nil, term.Misconfigured("holdfast ui passwd NAME makes a line: NAME:HASH:ROLE, with a hash of bcrypt", "--users: %s: %w", f.users, err)
	}
	return users, nil
}

// address returns host and port for the URL of the page. No browser can use 0.0.0.0 or [::], which stand for all
// interfaces.
func (f *flags) address(listens net.Addr) string {
	tcp, ok := listens.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return listens.String()
	}
	host := "127.0.0.1"
	if len(f.hosts) > 0 {
		host = f.hosts[0]
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// keys reads the certificate. It returns nil without one.
func (f *flags) keys(log *slog.Logger) (*certs.Keyring, error) {
	if f.cert == "" {
		return nil, nil
	}
	files := certs.Flags{Cert: f.cert, Key: f.key, Listen: []string{f.listen}}
	return files.Open(certs.Origins{"tls-cert": "--https-cert", "tls-key": "--https-key"}, log)
}

// serve serves the page until a signal ends it.
func serve(g *conn.Flags, cmd *cobra.Command, f *flags, prefix string) error {
	ctx, stop := conn.UntilStopped(cmd.Context())
	defer stop()
	say := g.Log.NewSayer(cmd.ErrOrStderr())
	defer say.Flush()
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	keys, err := f.keys(log)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("--listen %s: %w", term.Cut(f.listen, 80), err), Hint: "choose another address with --listen, or end the process that listens there"}
	}
	defer l.Close()
	l = daemon.AdmissionListener(l, daemon.WithinFiles(connections))
	return conn.Stay(ctx, g, say, func(c *conn.Connection) error {
		// A server that wants a login refuses the first request: that is an error now, and not only on the page.
		if err := zk.Retry(ctx, func() error { _, _, err := c.Client.Exists(ctx, conn.Parent(prefix)); return err }); err != nil {
			return err
		}
		announced := make(chan string, 1) // the first URL: the page is there before it is printed
		watch := htpasswd.NewWatch(f.users)
		access, l, err := f.access(l, keys, func(url string) {
			select {
			case announced <- url:
			default:
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), url)
			}
		}, log)
		if err != nil {
			return err
		}
		go f.follow(ctx, watch, access, log)
		page, err := ui.New(ui.Config{Client: c.Client, Prefix: prefix, Namespace: g.Namespace, Server: g.Server, Access: access})
		if err != nil {
			return err
		}
		defer page.Close()
		server := access.Server(page)
		server.ConnContext, server.ConnState = daemon.TrackConn, daemon.TrackState
		systemd := daemon.NewNotifier(log)
		defer context.AfterFunc(ctx, func() {
			systemd.Stopping()
			_ = server.Close()
		})()
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), <-announced); err != nil {
			return err
		}
		announced <- "" // from now on, URLs are printed at once
		systemd.Ready()
		if err := server.Serve(l); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
			return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("ui: %w", err)}
		}
		return nil
	})
}
