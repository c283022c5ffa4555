// Package serve has the commands serve, check and backup: a store in a directory, and its server.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// settings are the flags of serve.
type settings struct {
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
	auth     authFlags
	limits   limitsFlags
	log      term.ServerLog
	config   string // file
	detached bool

	flags *pflag.FlagSet // the flags above, with their values in force
	from  certs.Origins  // of the values from the file
}

// New returns the command serve.
func New() *cobra.Command {
	var f settings
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
				if f.from, err = ReadConfig(cmd.Flags(), f.config); err != nil {
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

func (f *settings) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "data-dir", "", "directory of the store (default $XDG_STATE_HOME/holdfast)")
	flags.StringArrayVar(&f.listen, "listen", nil, "TCP address without encryption, such as 127.0.0.1:2181; repeatable")
	flags.StringArrayVar(&f.unix, "unix", nil, "path of another Unix socket; repeatable")
	flags.StringVar(&f.group, "unix-group", "", "group, by name or number, whose members can connect to the sockets of --unix; each can acquire and break every lock (default: this user alone)")
	flags.BoolVar(&f.insecure, "insecure", false, "allow addresses that other machines can reach without encryption or without authentication")
	term.DurationVar(flags, &f.linger, "linger", "", 0, "stop after this long without a client and without a session (default: never)")
	term.DurationVar(flags, &f.tick, "tick", "", 2*time.Second, "unit of session timeouts, which are 2 to 30 ticks")
	flags.StringVar(&f.admin, "admin", "", "TCP address for HTTP with /metrics, /healthz, /readyz and /debug/pprof; port 0 chooses a free port")
	f.tls.Register(flags)
	f.auth.register(flags)
	f.limits.register(flags)
	f.log.Register(flags)
	flags.StringVar(&f.config, "config", "", "YAML file with these flags as keys, without --; flags on the command line win")
	flags.BoolVar(&f.detached, watchdog.DetachedFlag[2:], false, "")
	_ = flags.MarkHidden(watchdog.DetachedFlag[2:])
}

// serve opens the store and serves it until a signal, or the end of --linger.
func (f *settings) serve(stdout io.Writer) (err error) {
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
	cfg, err := f.store(log)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, slices.Concat(supervise.StopSignals, supervise.ReloadSignals)...)
	hosting, err := zklocal.OpenHost(cfg)
	if err != nil {
		return err
	}
	defer hosting.Close()
	opened := hosting.Server().Stats()
	log.Info("serve: this process hosts the directory", "dir", cfg.Dir, "pid", os.Getpid(), "version", version.Info().Version,
		"sessions", opened.Sessions, "znodes", opened.Znodes, "zxid", opened.LastZxid)
	s := &service{settings: f, log: log, keys: keys, hosting: hosting}
	return s.run(signals, stdout)
}

// store returns the configuration of the store and its server.
func (f *settings) store(log *slog.Logger) (zkserver.Config, error) {
	cfg := zkserver.Config{Dir: f.dir, TickTime: f.tick, Linger: f.linger, Logger: log, OneMachine: len(f.listen)+len(f.tls.Listen) == 0}
	if cfg.Dir == "" {
		var err error
		if cfg.Dir, err = conn.DefaultDir(); err != nil {
			return cfg, err
		}
	}
	if limit, by := daemon.LimitMemory(); limit > 0 {
		log.Info("serve: the memory is limited", "bytes", limit, "by", by)
	}
	if err := f.limits.apply(&cfg); err != nil {
		return cfg, err
	}
	return cfg, f.auth.apply(&cfg, f.from, f.tls.ClientCA)
}

// A service is a store that is served.
type service struct {
	*settings
	log     *slog.Logger
	keys    *certs.Keyring
	hosting *zklocal.Host
}

// run opens all addresses, says so, and serves until a signal or a failure.
func (s *service) run(signals <-chan os.Signal, stdout io.Writer) error {
	lines := []string{"listening unix " + s.hosting.Socket()}
	listeners, err := s.listeners(s.keys)
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
	if s.admin != "" {
		l, err := net.Listen("tcp", s.admin)
		if err != nil {
			return fmt.Errorf("%s: %w", s.from.Name("admin"), err)
		}
		lines = append(lines, fmt.Sprintf("listening admin %s", l.Addr()))
		build := version.Info()
		page := daemon.NewMetrics(s.hosting.Server().Stats, s.keys.Expires(), daemon.Build{Version: build.Version, Commit: build.Commit, Go: build.Go})
		admin := daemon.NewAdmin(s.hosting.Server(), page, s.insecure, s.log)
		defer admin.Close()
		helpers.Go(func() {
			if err := admin.Serve(daemon.SharedListener(l, s.hosting.Server(), daemon.AdminConnections)); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	for _, l := range listeners {
		go func() { failed <- s.hosting.Server().Serve(l) }()
	}
	if err := s.announce(stdout, lines); err != nil {
		return err
	}
	systemd := daemon.NewNotifier(s.log)
	systemd.Ready()
	helpers.Go(func() { systemd.Watchdog(ctx, s.hosting.Server().Alive) })
	return s.wait(ctx, signals, failed, systemd)
}

// announce prints the addresses, and that serve is ready.
func (s *service) announce(stdout io.Writer, lines []string) error {
	for _, line := range append(lines, host.Ready) {
		if _, err := fmt.Fprintln(stdout, line); err != nil && !s.detached {
			return fmt.Errorf("serve: stdout: %w", err) // a detached host outlives the process that started it
		}
	}
	if s.detached {
		host.ForgetStdout()
	}
	return nil
}

// wait returns when a signal stops serve, nobody has used the store for --linger, or something failed.
func (s *service) wait(ctx context.Context, signals <-chan os.Signal, failed <-chan error, systemd *daemon.Notifier) error {
	for {
		select {
		case sig := <-signals:
			if slices.Contains(supervise.ReloadSignals, sig) {
				systemd.Reloading()
				s.keys.Reload()
				s.reload(ctx, s.hosting.Server(), s.log)
				systemd.Ready()
				continue
			}
			s.log.Info("serve: stopping", "signal", sig)
			systemd.Stopping()
			return shutdown(s.hosting)
		case <-s.hosting.Done():
			return s.hosting.Err() // nil after --linger
		case err := <-failed:
			if !errors.Is(err, zkserver.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			failed = nil // Done is next and has the cause
		}
	}
}

// check validates the flags before serve opens anything.
func (f *settings) check() error {
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
