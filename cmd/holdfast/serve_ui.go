package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
	"holdfast/ui"
	"holdfast/zk"
	"holdfast/zkserver"
)

// serveUIFlags are the flags for the page in the server's process.
type serveUIFlags struct {
	uiFlags
	tls bool // other machines can reach the address
}

func (u *serveUIFlags) register(f *pflag.FlagSet) {
	f.StringVar(&u.listen, "ui", "", "TCP address for the page of holdfast ui, such as 127.0.0.1:7480; other addresses than those of this machine use --tls-cert and need --ui-users")
	f.StringVar(&u.users, "ui-users", "", "file of the users of the page, with lines of holdfast ui passwd; other users of this machine must not be able to read it")
	f.StringArrayVar(&u.hosts, "ui-allow-host", nil, "host name in URLs under which browsers reach the page; repeatable")
	f.BoolVar(&u.readOnly, "ui-read-only", false, "nobody breaks locks, revokes or ends sessions from the page")
}

// checkUI validates the flags of the page.
func (f *serveFlags) checkUI() error {
	u := &f.ui
	u.usersFlag = f.from.Name("ui-users")
	switch {
	case u.listen == "":
		for name, given := range map[string]bool{"ui-users": u.users != "", "ui-allow-host": len(u.hosts) > 0, "ui-read-only": u.readOnly} {
			if given {
				return term.Usage("give the address of the page with --ui", "serve: %s is given, but no address", f.from.Name(name))
			}
		}
		return nil
	case f.linger > 0:
		return term.Usage("", "%s and %s do not go together: the page uses the server as long as it runs", f.from.Name("ui"), f.from.Name("linger"))
	}
	if err := u.checkLogin(f.from, f.auth.required); err != nil {
		return err
	}
	open, err := f.reachable("ui", u.listen)
	if err == nil && open && (u.users == "" || f.tls.Cert == "") {
		err = term.Usage("listen on 127.0.0.1, or give --tls-cert, --tls-key and --ui-users",
			"%s %s: other machines can reach this address, so the page needs TLS and users", f.from.Name("ui"), u.listen)
	}
	u.tls, f.tls.Others = open, f.tls.Others || open
	return err
}

// checkLogin refuses a server that wants a login of the page.
func (u *serveUIFlags) checkLogin(from certs.Origins, required []string) error {
	if u.listen == "" || len(required) == 0 {
		return nil
	}
	return term.Usage("run holdfast ui beside the server, with --auth", "%s and %s do not go together: the page has no login at the server", from.Name("ui"), from.Name("auth-required"))
}

// A uiServer is the page in the server's process.
type uiServer struct {
	flags    *uiFlags
	listener net.Listener
	access   *ui.Access
	log      *slog.Logger
	first    string // the first URL
}

// open listens at the address of the page. It returns nil if there is none. next is called with each further URL for one
// browser.
func (u *serveUIFlags) open(from certs.Origins, server *zkserver.Server, keys *certs.Keyring, log *slog.Logger, next func(url string)) (*uiServer, error) {
	if u.listen == "" {
		return nil, nil
	}
	if !u.tls {
		keys = nil
	}
	l, err := net.Listen("tcp", u.listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Name("ui"), err)
	}
	s := &uiServer{flags: &u.uiFlags, log: log}
	s.access, s.listener, err = u.access(daemon.SharedListener(l, server, uiConnections), keys, func(url string) {
		if s.first == "" {
			s.first = url
			return
		}
		next(url)
	}, log)
	if err != nil {
		l.Close()
		return nil, err
	}
	return s, nil
}

// reload gives the page the users of u, as the file has them now. s is nil if there is no page.
func (s *uiServer) reload(u *serveUIFlags, from certs.Origins) {
	if s == nil {
		return
	}
	u.usersFlag = from.Name("ui-users")
	users, err := u.readUsers()
	if err == nil {
		err = s.access.SetUsers(users)
	}
	switch {
	case err != nil:
		s.log.Error("serve: users of the page not reloaded; the present users stay in force", "err", err)
	case users != nil:
		s.log.Info("serve: users of the page reloaded")
	}
}

// serve serves the page with a client of the socket until ctx ends.
func (s *uiServer) serve(ctx context.Context, socket string) error {
	c, err := zk.Dial(ctx, zk.Config{
		Servers: []string{"unix://" + socket}, Logger: s.log, SessionTimeout: zk.DefaultSessionTimeout,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("the page: %w", err)
	}
	defer c.Close()
	page, err := ui.New(ui.Config{Client: c, Access: s.access})
	if err != nil {
		return err
	}
	defer page.Close()
	server := s.access.Server(page)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(s.listener); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the page: %w", err)
	}
	return nil
}
