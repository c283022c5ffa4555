package tf

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/passwd"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
	"holdfast/internal/deed"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
	"holdfast/terraform"
	"holdfast/zk"
)

// runFlags are the flags of tf -- COMMAND.
type runFlags struct {
	project, workspace string
	stateDir           string
	locksOnly          bool
	ends               job.Flags
}

// New returns the root of the program holdfast-tf.
func New() *cobra.Command {
	g := conn.NewFlags()
	var f runFlags
	cmd := &cobra.Command{
		Use:   "tf [flags] -- COMMAND [ARG...]",
		Short: "Run Terraform or OpenTofu with its state and its lock here",
		Long: `tf runs a command, such as tofu apply, with a backend for its state and its lock. The backend listens on this
machine, with a password of its own, and ends with the command. The configuration needs no more than

  terraform {
    backend "http" {}
  }

The command's environment has TF_HTTP_ADDRESS and the other variables of that backend. The command can be a script
that runs several commands.

The lock is the one of holdfast run, not the one of holdfast tf serve: it ends with tf, also if tf or this
machine dies. So no crash leaves a lock behind. If the lock cannot be proven any more, tf asks the command to stop before
somebody else can acquire the lock (see holdfast run --help: the flags and the exit codes are the same).

If a state is refused or not stored, the client writes it to errored.tfstate. Then nobody can lock the workspace until
somebody pushes that state (tofu state push errored.tfstate), or gives it up with holdfast tf forgive.

A project is a name for what one directory describes. A workspace is one state of it. Both are part of the
address, so the client's own workspaces are not used. In the subcommands, network is short for network/default.

Exit codes:
  the command's own, or 128+N if signal N killed it
  79    the lock was lost while the command ran
  124   the command was stopped after --max-hold
  125   holdfast failed, no server answered, or the command line or the configuration is wrong
  126   the command cannot be executed
  127   the command was not found
  128+N signal N arrived before the command started`,
		Example: `  holdfast tf -- tofu apply
  holdfast tf --project network --workspace prod -- terraform plan -lock-timeout=10m
  holdfast tf history network/prod
  holdfast tf freeze network "release 9"`,
		Args: commandGiven,
		RunE: func(cmd *cobra.Command, args []string) error {
			ending, err := f.ends.Ending(cmd, g)
			if err != nil {
				return err
			}
			ws, err := f.target()
			if err != nil {
				return err
			}
			return f.run(g, ws, f.ends.Command(append([]string{"tf"}, args...)), ending)
		},
	}
	f.register(cmd)
	for _, sub := range []*cobra.Command{newHistory(g), newShow(g), newRestore(g), newForgive(g), newFreeze(g), newServe(g)} {
		g.Register(sub)
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(passwd.New("tf"))
	return program.New(cmd, g)
}

// commandGiven refuses arguments without a command behind --.
func commandGiven(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return term.Usage("usage: "+cmd.UseLine(), "tf: no command given")
	}
	if cmd.ArgsLenAtDash() != 0 {
		return term.Usage(fmt.Sprintf("put -- before a command: holdfast tf -- %s", term.Cut(strings.Join(args, " "), 100)), "tf: unknown subcommand %q", term.Cut(args[0], 80))
	}
	return nil
}

func (f *runFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.project, "project", "", "name of the project (default: the name of the working directory)")
	cmd.Flags().StringVar(&f.workspace, "workspace", terraform.DefaultName, "name of the workspace")
	cmd.Flags().StringVar(&f.stateDir, "state-dir", "", "existing directory for the states, which all users of the project share (default: in the server)")
	cmd.Flags().BoolVar(&f.locksOnly, "locks-only", false, "keep the lock and no state: TF_HTTP_ADDRESS of the environment stays")
	f.ends.Register(cmd)
}

func (f *runFlags) target() (terraform.Workspace, error) {
	project := f.project
	if project == "" {
		dir, err := os.Getwd()
		if err != nil {
			return terraform.Workspace{}, term.Usage("give --project NAME", "tf: %w", err)
		}
		project = filepath.Base(dir)
	}
	ws := terraform.Workspace{Project: project, Name: f.workspace}
	parsed, err := terraform.ParseWorkspace(ws.String())
	if err != nil {
		return ws, term.Usage("give --project NAME and --workspace NAME", "tf: %w", err)
	}
	return parsed, nil
}

func (f *runFlags) run(g *conn.Flags, ws terraform.Workspace, command []string, at job.Ending) error {
	if err := f.checkStateDir(); err != nil {
		return err
	}
	t, err := g.Target()
	if err != nil {
		return err
	}
	file, err := exec.LookPath(command[0])
	if err != nil {
		return job.CannotRun(command[0], err)
	}
	sup, err := supervise.Start(watchdog.IsHost)
	if err != nil {
		return &term.Fault{Code: term.ExitFailed, Err: err}
	}
	defer sup.Close()
	signals := make(chan os.Signal, 64)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, job.StopSignals(syscall.Signal(f.ends.Signal))...)
	say := g.Log.NewLiveSayer(os.Stderr)
	defer say.Flush()
	c, err := connect(g, t, say, signals)
	if err != nil {
		return err
	}
	defer c.Close()
	session, err := sessionOf(g, t, c)
	if err != nil {
		return err
	}
	ends, err := at(session.Timeout())
	if err != nil {
		return err
	}
	gateway, env, err := f.serve(g, c.Client, ws, t)
	if err != nil {
		return err
	}
	defer gateway.close()
	c.Quiet()
	supervise.Notify(signals, supervise.JobSignals...)
	backend := gateway.backend
	out, startErr := sup.Run(
		supervise.Command{Path: file, Args: command, Env: job.Environ(env)},
		supervise.Terms{
			Lost: backend.Lost(), Deadline: backend.Deadline, Ending: ends, Signals: signals,
			Warn: func(format string, args ...any) {
				say.Line("%s: %s", ws, term.Escape(fmt.Sprintf(format, duration.InMessage(args)...)))
			},
			Suspect: c.Contact.IsDown, Changed: c.Contact.Changed, Guard: c.Guard(session.Context()), Will: c.Will(session.ID()),
		},
	)
	_, _ = job.UnlessHurried(signals, 2, func() error { gateway.close(); return nil })
	return verdict(ws, command[0], out, startErr, ends.MaxHold)
}

// sessionOf returns the session, if it is long enough to stop a command in time.
func sessionOf(g *conn.Flags, t conn.Target, c *conn.Connection) (*zk.Session, error) {
	session, err := c.Client.Session(context.Background())
	if err != nil {
		return nil, t.Explain(err)
	}
	if err := conn.Granted(g, session.Timeout()); err != nil {
		return nil, err
	}
	if least := 2 * supervise.KillMargin; session.Timeout() < least {
		return nil, term.Usage("give --session-timeout "+duration.Text(least)+" or more", "session timeout %v is too short", session.Timeout())
	}
	return session, nil
}

func (f *runFlags) checkStateDir() error {
	if f.stateDir == "" {
		return nil
	}
	if info, err := os.Stat(f.stateDir); err != nil || !info.IsDir() {
		return term.Misconfigured("create it", "--state-dir %s: no such directory", term.Cut(f.stateDir, 200))
	}
	return nil
}

// verdict returns the end of the command as that of this program.
func verdict(ws terraform.Workspace, name string, out supervise.Outcome, startErr error, maxHold time.Duration) error {
	switch {
	case errors.Is(startErr, supervise.ErrGuards):
		return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("tf: %w", startErr)}
	case startErr != nil:
		return job.CannotRun(name, startErr)
	case out.Lost:
		return &term.Fault{Code: term.ExitLost, Err: fmt.Errorf("%s: the lock was lost while the command ran (it ended with code %d)", ws, out.Code),
			Hint: "if the client has written errored.tfstate, push it: tofu state push errored.tfstate"}
	case out.Overdue:
		return &term.Fault{Code: term.ExitOverdue, Err: fmt.Errorf("%s: the command was stopped after %v, see --max-hold (it ended with code %d)", ws, duration.Text(maxHold), out.Code)}
	}
	return job.ExitOf(out)
}

// serve starts the gateway of one run on this machine, and returns the variables that lead the command to it.
func (f *runFlags) serve(g *conn.Flags, c *zk.Client, ws terraform.Workspace, t conn.Target) (*server, []string, error) {
	const user = "holdfast"
	password := crand.Text()
	logs := term.ServerLog{Level: term.LogLevel{Level: slog.LevelWarn}, Format: g.Log.Format}
	if g.Log.Verbose {
		logs.Level.Level = slog.LevelInfo
	}
	log := logs.Logger(os.Stderr)
	b, err := terraform.New(terraform.Config{
		Client: c, Credentials: terraform.OneUser(user, password), Ephemeral: true, StateDir: f.stateDir, LocksOnly: f.locksOnly, Logger: log, Admitted: daemon.Admit,
		Audit: func(ctx context.Context, e terraform.Event) {
			e.From = conn.Owner()
			auditForce(ctx, c, e, log)
		},
	})
	if err != nil {
		return nil, nil, term.Misconfigured("", "tf: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("tf: %w", err)}
	}
	l = daemon.AdmissionListener(l, daemon.WithinFiles(mostConnections)) // other users of this machine can connect
	s := &server{backend: b, http: httpServer(b, log)}
	go func() { _ = s.http.Serve(l) }() // it ends with close
	address := "http://" + l.Addr().String() + "/tf/" + ws.String()
	env := []string{
		"TF_HTTP_LOCK_ADDRESS=" + address + "/lock", "TF_HTTP_LOCK_METHOD=LOCK",
		"TF_HTTP_UNLOCK_ADDRESS=" + address + "/lock", "TF_HTTP_UNLOCK_METHOD=UNLOCK",
		"TF_HTTP_USERNAME=" + user, "TF_HTTP_PASSWORD=" + password,
		"HOLDFAST_SERVER=" + t.URL,
	}
	if !f.locksOnly {
		env = append(env, "TF_HTTP_ADDRESS="+address, "TF_HTTP_UPDATE_METHOD=POST")
	}
	return s, env, nil
}

// ask runs f with a Backend for the subcommands. name is PROJECT or PROJECT/WORKSPACE.
func ask(ctx context.Context, g *conn.Flags, stateDir, name string, f func(context.Context, *zk.Client, *terraform.Backend, terraform.Workspace) error) error {
	ws, err := terraform.ParseWorkspace(name)
	if err != nil {
		return term.Usage("", "tf: %w", err)
	}
	return g.Ask(ctx, func(ctx context.Context, c *zk.Client) error {
		b, err := terraform.New(terraform.Config{Client: c, StateDir: stateDir})
		if err != nil {
			return term.Misconfigured("", "%w", err)
		}
		defer b.Close()
		err = f(ctx, c, b, ws)
		switch {
		case errors.Is(err, terraform.ErrNoVersion):
			return &term.Fault{Code: term.ExitNo, Err: err, Hint: "holdfast tf history " + name + " lists the versions"}
		case errors.Is(err, terraform.ErrLocked), errors.Is(err, holdfast.ErrLocked):
			return &term.Fault{Code: term.ExitBusy, Err: err, Hint: "holdfast status " + b.LockPath(ws) + " shows the holder"}
		}
		return err
	})
}

// audited leaves an audit line about a workspace.
func audited(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, action, path, reason string, do func() error) error {
	return act.Audited(ctx, g, cmd, c, deed.Entry{Action: action, Places: []deed.Place{{Path: path, Owner: conn.Owner(), Token: "0"}}}, reason, do)
}
