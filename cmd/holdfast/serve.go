package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/host"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/version"
	"holdfast/internal/daemon"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
	"holdfast/zklocal"
	"holdfast/zkserver"
)

// shutdownPatience is how long serve answers requests that it has received, before it stops.
const shutdownPatience = 5 * time.Second

type serveFlags struct {
	dir      string
	listen   []string
	unix     []string
	group    string // of the sockets of unix; "": this user alone
	gid      int    // of group
	admin    string
	insecure bool
	linger   time.Duration
	tick     time.Duration
	tls      certs.Flags
	auth     serveAuthFlags
	limits   serveLimitsFlags
	log      term.ServerLog
	config   string // file
	detached bool

	flags *pflag.FlagSet // the flags above, with their values in force
	from  certs.Origins  // of the values from the file
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve the store in a directory to ZooKeeper clients",
		Long: `serve stores nodes and sessions in a directory and serves them to ZooKeeper clients. It listens on the
directory's own socket (for --server file://DIR) and on the addresses of --listen, --listen-tls and
--unix. It prints one line for each address on stdout, then ready.

INT and TERM stop serve. Sessions stay in the directory. HUP reloads certificates, users and limits.
serve reloads changed certificates without HUP, too.

Exit codes:
  0   INT or TERM stopped the server, or nobody used it for --linger
  2   wrong command line
  69  the server could not start, or failed: another one hosts the directory, the disk is full
  77  no permission
  78  wrong configuration, or a directory on a file system that several machines can mount`,
		Example: `  holdfast serve --data-dir /var/lib/holdfast/data --listen 127.0.0.1:2181
  holdfast serve --listen-tls :2281 --tls-cert server.pem --tls-key server.key --tls-client-ca clients.pem`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			f.flags = cmd.Flags()
			if f.config != "" {
				if f.from, err = readConfig(cmd.Flags(), f.config); err != nil {
					return err
				}
			}
			err = f.serve(cmd.OutOrStdout())
			if f.detached && err != nil {
				// host.Start reads this line, if it is still waiting.
				fmt.Fprintln(cmd.OutOrStdout(), host.Failed+strings.ReplaceAll(err.Error(), "\n", " "))
			}
			return err
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *serveFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "data-dir", "", "directory of the store (default $XDG_STATE_HOME/holdfast)")
	flags.StringArrayVar(&f.listen, "listen", nil, "TCP address without encryption, such as 127.0.0.1:2181; repeatable")
	flags.StringArrayVar(&f.unix, "unix", nil, "path of another Unix socket; repeatable")
	flags.StringVar(&f.group, "unix-group", "", "group, by name or number, whose members can connect to the sockets of --unix; each can acquire and break every lock (default: this user alone)")
	flags.BoolVar(&f.insecure, "insecure", false, "allow addresses that other machines can reach without encryption or without authentication")
	term.DurationVar(flags, &f.linger, "linger", "", 0, "stop after this long without a client and without a session (default: never)")
	term.DurationVar(flags, &f.tick, "tick", "", 2*time.Second, "unit of session timeouts, which are 2 to 20 ticks")
	flags.StringVar(&f.admin, "admin", "", "TCP address for HTTP with /metrics, /healthz, /readyz and /debug/pprof; port 0 chooses a free port")
	f.tls.Register(flags)
	f.auth.register(flags)
	f.limits.register(flags)
	f.log.Register(flags)
	flags.StringVar(&f.config, "config", "", "YAML file with these flags as keys, without --; flags on the command line win")
	flags.BoolVar(&f.detached, watchdog.DetachedFlag[2:], false, "")
	_ = flags.MarkHidden(watchdog.DetachedFlag[2:])
}

func (f *serveFlags) serve(stdout io.Writer) (err error) {
	var kept []string
	if f.detached {
		host.CloseInherited()
		supervise.LeaveJob() // the job whose holdfast run started this host
		kept = host.BecomeNeutral()
	}
	if err := f.check(); err != nil {
		return err
	}
	log := f.log.Logger(os.Stderr)
	if len(kept) > 0 {
		log.Warn("serve: the host keeps settings of the job that started it: no permission to reset them", "kept", strings.Join(kept, ", "))
	}
	keys, err := f.tls.Open(f.from, log)
	if err != nil {
		return err
	}
	dir := f.dir
	if dir == "" {
		if dir, err = conn.DefaultDir(); err != nil {
			return err
		}
	}
	if limit, by := daemon.LimitMemory(); limit > 0 {
		log.Info("serve: the memory is limited", "bytes", limit, "by", by)
	}
	signals := make(chan os.Signal, 16)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, slices.Concat(supervise.StopSignals, supervise.ReloadSignals)...)
	cfg := zkserver.Config{Dir: dir, TickTime: f.tick, Linger: f.linger, Logger: log, OneMachine: len(f.listen)+len(f.tls.Listen) == 0}
	if err := f.limits.apply(&cfg); err != nil {
		return err
	}
	if err := f.auth.apply(&cfg, f.from, f.tls.ClientCA); err != nil {
		return err
	}
	hosting, err := zklocal.OpenHost(cfg)
	if err != nil {
		return err
	}
	defer hosting.Close()
	opened := hosting.Server().Stats()
	log.Info("serve: this process hosts the directory", "dir", dir, "pid", os.Getpid(), "version", version.Info().Version,
		"sessions", opened.Sessions, "znodes", opened.Znodes, "zxid", opened.LastZxid)

	lines := []string{"listening unix " + hosting.Socket()}
	listeners, err := f.listeners(keys)
	for _, l := range listeners {
		defer l.Close()
		lines = append(lines, fmt.Sprintf("listening %s %s", l.protocol, l.Addr()))
	}
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer end()
	failed := make(chan error, len(listeners)+1)
	if f.admin != "" {
		l, err := net.Listen("tcp", f.admin)
		if err != nil {
			return fmt.Errorf("%s: %w", f.from.Name("admin"), err)
		}
		lines = append(lines, fmt.Sprintf("listening admin %s", l.Addr()))
		build := version.Info()
		page := daemon.NewMetrics(hosting.Server().Stats, keys.Expires(), daemon.Build{Version: build.Version, Commit: build.Commit, Go: build.Go})
		admin := daemon.NewAdmin(hosting.Server(), page, f.insecure, log)
		defer admin.Close()
		helpers.Go(func() {
			if err := admin.Serve(daemon.SharedListener(l, hosting.Server(), daemon.AdminConnections)); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	for _, l := range listeners {
		go func() { failed <- hosting.Server().Serve(l) }()
	}
	log.Info("serve: connections that the limits, the open files and the memory allow", "connections", hosting.Server().Stats().ConnectionsMost)
	for _, line := range append(lines, host.Ready) {
		if _, err := fmt.Fprintln(stdout, line); err != nil && !f.detached {
			return fmt.Errorf("serve: stdout: %w", err) // a detached host outlives the process that started it
		}
	}
	if f.detached {
		host.ForgetStdout()
	}

	systemd := daemon.NewNotifier(log)
	systemd.Ready()
	helpers.Go(func() { systemd.Watchdog(ctx, hosting.Server().Alive) })
	for {
		select {
		case sig := <-signals:
			if slices.Contains(supervise.ReloadSignals, sig) {
				systemd.Reloading()
				keys.Reload()
				f.reload(ctx, hosting.Server(), log)
				systemd.Ready()
				continue
			}
			log.Info("serve: stopping", "signal", sig)
			systemd.Stopping()
			return shutdown(hosting)
		case <-hosting.Done():
			return hosting.Err() // nil after --linger
		case err := <-failed:
			if !errors.Is(err, zkserver.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			failed = nil // host.Done is next and has the cause
		}
	}
}

// check validates the flags before serve opens anything.
func (f *serveFlags) check() error {
	switch {
	case f.linger < 0:
		return term.Usage("", "%s %v: must not be negative", f.from.Name("linger"), f.linger)
	case f.tick < time.Millisecond:
		return term.Usage("", "%s %v: must be at least 1ms", f.from.Name("tick"), f.tick)
	}
	if err := f.checkGroup(); err != nil {
		return err
	}
	return f.checkAddresses()
}

// shutdown answers the requests that the server has received, within shutdownPatience.
func shutdown(host *zklocal.Host) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
	defer cancel()
	if err := host.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
