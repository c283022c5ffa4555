package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"holdfast/zklocal"
	"holdfast/zkserver"
)

// shutdownPatience is how long serve lets its clients have the answers to what they have
// sent before it stops.
const shutdownPatience = 5 * time.Second

type serveFlags struct {
	dir      string
	listen   []string
	unix     []string
	insecure bool
	linger   time.Duration
	tick     time.Duration
	detached bool
	auth     serveAuthFlags
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve a directory's store to ZooKeeper clients",
		Long: `serve keeps locks in a directory and serves them by the ZooKeeper protocol, on the directory's
own socket (for --server file://DIR), and on what --listen and --unix name. It prints one line for each,
then ready, on stdout. INT and TERM stop it; sessions stay in the directory.`,
		Example: `  holdfast serve --data-dir /var/lib/holdfast --listen 127.0.0.1:2181`,
		Args:    operands(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.serve(cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&f.dir, "data-dir", "", "directory of the store (default $XDG_STATE_HOME/holdfast)")
	cmd.Flags().StringArrayVar(&f.listen, "listen", nil, "TCP address, as in 127.0.0.1:2181; can be given more than once")
	cmd.Flags().StringArrayVar(&f.unix, "unix", nil, "path of another Unix socket; can be given more than once")
	cmd.Flags().BoolVar(&f.insecure, "insecure", false, "allow --listen on addresses that other machines can reach; there is no encryption and no password")
	cmd.Flags().DurationVar(&f.linger, "linger", 0, "stop when no client has been connected for this long (default: never)")
	cmd.Flags().DurationVar(&f.tick, "tick", 2*time.Second, "unit of time: session timeouts are 2 to 20 ticks")
	f.auth.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.detached, detachedFlag[2:], false, "")
	_ = cmd.Flags().MarkHidden(detachedFlag[2:])
	return cmd
}

func (f *serveFlags) serve(stdout io.Writer) (err error) {
	if f.detached {
		closeInherited()
	}
	if f.linger < 0 || f.tick <= 0 {
		return usage("", "serve: --linger must not be negative, and --tick must be positive")
	}
	for _, addr := range f.listen {
		if err := f.checkListen(addr); err != nil {
			return err
		}
	}
	dir := f.dir
	if dir == "" {
		if dir, err = defaultDir(); err != nil {
			return err
		}
	}
	signals := make(chan os.Signal, 16)
	surviveBrokenPipe()
	notify(signals, stopSignals...)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := zkserver.Config{Dir: dir, TickTime: f.tick, Linger: f.linger, Logger: log}
	if err := f.auth.apply(&cfg); err != nil {
		return err
	}
	host, err := zklocal.OpenHost(cfg)
	if err != nil {
		return err
	}
	defer host.Close()

	lines := []string{"listening unix " + host.Socket()}
	listeners, err := f.listeners()
	for _, l := range listeners {
		defer l.Close()
		lines = append(lines, fmt.Sprintf("listening %s %s", l.Addr().Network(), l.Addr()))
	}
	if err != nil {
		return err
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- host.Server().Serve(l) }()
	}
	for _, line := range append(lines, "ready") {
		if _, err := fmt.Fprintln(stdout, line); err != nil {
			return fmt.Errorf("serve: stdout: %w", err)
		}
	}

	for {
		select {
		case <-signals:
			ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
			defer cancel()
			if err := host.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		case <-host.Done():
			return host.Err() // nil after the linger time
		case err := <-failed:
			if !errors.Is(err, zkserver.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			failed = nil // host.Done is next, and says why
		}
	}
}

// checkListen refuses to be reached by other machines unless that is asked for: there is
// no encryption and no authentication, and whoever connects can take every lock.
func (f *serveFlags) checkListen(addr string) error {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return usage("want an address such as 127.0.0.1:2181", "serve: --listen %s: %w", addr, err)
	}
	if f.insecure || tcp.IP != nil && tcp.IP.IsLoopback() {
		return nil
	}
	return usage("listen on 127.0.0.1, or add --insecure if the network is trusted",
		"serve: --listen %s can be reached from other machines, without encryption or a password", addr)
}

// listeners opens what --listen and --unix name. When it fails it returns also what it
// has opened.
func (f *serveFlags) listeners() ([]net.Listener, error) {
	var all []net.Listener
	for _, addr := range f.listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return all, fmt.Errorf("serve: %w", err)
		}
		all = append(all, l)
	}
	for _, path := range f.unix {
		l, err := listenUnix(path)
		if err != nil {
			return all, fmt.Errorf("serve: --unix: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// listenUnix replaces a socket on which nobody listens, which a server that was killed has
// left, and nothing else. Only our user may connect.
func listenUnix(path string) (net.Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("%s: another server listens there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
