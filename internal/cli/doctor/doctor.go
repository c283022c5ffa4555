// Package doctor is the command doctor: it examines the servers, the store and this machine.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var format term.Format
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Examine the servers, the store and this machine",
		Long: `doctor examines what holdfast needs, and prints one line for each result: ok, warning or problem. A
hint says what to do. doctor examines

  environment  what chooses the server: a variable, a file, or the default; default stores of other users
  store        of a file:// server: permissions, files of a crash, file system, space, time of a disk sync
  watchdog     how holdfast run can end a command here
  name         the addresses of each host name
  certificate  of zks:// servers: issuer, host name, days left
  server       each address by itself: mode, version, time of a read and of a write; whether it is Apache
               ZooKeeper (or holdfast serve), and has containers, which vanish when nobody uses them
  session      the session timeout that the server grants, and its minimum; which outage a command survives
  clock        the difference between the server's clock and this machine's
  servers      whether all of them are one service
  locks        places that nobody can release, places without an owner, empty directories

On each server, doctor creates one node, .holdfast-doctor-SESSION, in the directory of the locks, and
removes it. ls, graph and watch leave it out. If doctor is killed, the server removes the node after the
session timeout. doctor opens two sessions on each server, the second one to find out the shortest session
timeout that the server grants. doctor changes nothing else. If the store of a file:// server has no host, doctor starts one, as every command does; the
host ends by itself after ten seconds. Disk syncs are timed on Linux, with a file without a name.

Exit codes:
  0   no problem; there may be warnings
  1   a problem
  2   wrong command line
  69  no server answered
  78  wrong configuration
  128+N  signal N ended doctor`,
		Example: `  holdfast doctor
  holdfast doctor --server zk://zk1,zk2,zk3
  holdfast doctor -o json | jq '.items[] | select(.state != "ok")'`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < time.Second || timeout > time.Hour {
				return term.Usage("give a time such as 10s", "--timeout %v is out of range: want 1s to 1h", timeout)
			}
			if err := g.CheckNamespace(); err != nil {
				return err
			}
			t, err := g.Target()
			if err != nil {
				return err
			}
			d := &examiner{Flags: g, target: t, timeout: timeout, byDefault: g.Server == ""}
			return d.examine(cmd.Context(), cmd.OutOrStdout(), format)
		},
	}
	format.Register(cmd)
	term.DurationVar(cmd.Flags(), &timeout, "timeout", "", 10*time.Second, "end the examination after this long; 1s or more")
	return cmd
}

// An examiner examines a target. Each examination runs in a goroutine of its own, since a system call on a
// dead file system cannot be cancelled. An examination that takes too long is abandoned and reported.
type examiner struct {
	*conn.Flags
	target    conn.Target
	timeout   time.Duration // of the whole examination
	byDefault bool          // no server is given
}

// reserve is the part of the time that the last examinations have for cleaning up.
func (d *examiner) reserve() time.Duration { return min(time.Second, d.timeout/5) }

// An examination is a part of doctor. Its findings come through the channel.
type examination struct {
	check  string
	result <-chan findings
}

// examine runs all examinations at the same time and prints their findings in a fixed order.
func (d *examiner) examine(ctx context.Context, w io.Writer, format term.Format) error {
	signals := make(chan os.Signal, 1)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, supervise.StopSignals...)
	ctx, cancel := context.WithTimeout(ctx, d.timeout-d.reserve())
	defer cancel()
	var reached bool
	return d.conclude(w, format, signals, cancel, &reached, []examination{
		{"environment", later(ctx, func(context.Context) findings { return d.examineEnvironment() })},
		{"store", later(ctx, func(context.Context) findings { return d.examineStore() })},
		{"watchdog", later(ctx, func(context.Context) findings { return examineWatchdog() })},
		{"server", later(ctx, func(ctx context.Context) findings {
			f, ok := d.examineServers(ctx)
			reached = ok // read after the channel has delivered
			return f
		})},
	})
}

// conclude prints the findings as they come, at most for the timeout, and returns the exit code. The last
// examination is that of the servers, which sets reached. A signal ends it by cancel.
func (d *examiner) conclude(w io.Writer, format term.Format, signals <-chan os.Signal, cancel func(), reached *bool, all []examination) error {
	began := time.Now()
	out := Diagnosis{APIVersion: term.APIVersion, Kind: "Diagnosis", Server: d.target.URL, Items: findings{}, AsOf: began.UTC().Truncate(time.Millisecond)}
	give := time.NewTimer(d.timeout)
	defer give.Stop()
	for _, e := range all {
		var f findings
		select {
		case f = <-e.result:
			out.Reached = e.check == "server" && *reached
		case sig := <-signals:
			cancel()
			select { // the examination removes its nodes
			case <-all[len(all)-1].result:
			case <-time.After(d.reserve()):
			}
			return term.EndedBy(sig)
		case <-give.C:
			give.Reset(0) // for those that follow
			select {
			case f = <-e.result: // it came in time
				out.Reached = e.check == "server" && *reached
			default:
				f.problem(e.check, "give more time with --timeout; if it does not help, a disk or a server hangs", "no result within %v", d.timeout)
			}
		}
		if format != "json" {
			if err := f.print(w); err != nil {
				return err
			}
		}
		out.Items = append(out.Items, f...)
	}
	for _, f := range out.Items {
		switch f.State {
		case stateProblem:
			out.Problems++
		case stateWarning:
			out.Warnings++
		}
	}
	out.TookMS = time.Since(began).Milliseconds()
	var err error
	if format == "json" {
		err = term.JSON(w, out)
	} else {
		_, err = fmt.Fprintf(w, "%s, %s\n", term.Count(out.Problems, "problem"), term.Count(out.Warnings, "warning"))
	}
	switch {
	case err != nil:
		return err
	case !out.Reached:
		return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("no server of %s answered", term.Cut(d.target.URL, 200))}
	case out.Problems > 0:
		return term.ExitCode(term.ExitNo)
	}
	return nil
}

// later runs an examination and delivers its findings.
func later(ctx context.Context, examine func(context.Context) findings) <-chan findings {
	result := make(chan findings, 1)
	go func() { result <- examine(ctx) }()
	return result
}
