// Package watch is the command watch: what happens to locks, as it happens.
package watch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/locks"
	"holdfast/internal/lockwatch"
)

// Event is an event of watch in JSON.
type Event struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Type       string    `json:"type"`
	At         time.Time `json:"at"`
	Name       string    `json:"name"`
	Path       string    `json:"path"`
	Node       string    `json:"node,omitempty"`
	Owner      string    `json:"owner"`
	Why        string    `json:"why"`
	Session    string    `json:"session,omitempty"`
	Token      string    `json:"token,omitempty"`
	Mode       string    `json:"mode,omitempty"`
	WaitedMS   *int64    `json:"waited_ms,omitempty"`
	HeldMS     *int64    `json:"held_ms,omitempty"`
	Waiters    int       `json:"waiters"`
	Gap        string    `json:"gap,omitempty"`
}

// eventTypes are the types of events that --events takes. A gap is always reported.
var eventTypes = []string{"queued", "acquired", "released", "left", "gap"}

// about is the help.
const about = `watch prints one line for each event of the locks whose names begin with PREFIX, or of all locks in
the namespace, until INT (ctrl-C) or TERM ends it:

  queued    a client has joined the queue and waits
  acquired  a client holds the lock
  released  the node of a holder is gone: the holder has released the lock, or its session has ended, or
            somebody has broken the lock. The server does not tell which
  left      the node of a waiter is gone, and it never held the lock
  gap       there were events that watch has not seen, for this lock or for one whose name begins with it

The line has the time, the event, the lock, the client, the token, and how long the client has waited
or held the lock, if watch has seen the beginning. If a client was gone before its node could be read,
it is unknown. A client of a semaphore always queues first. A lock that a program keeps for its next use
counts as held. All permits that a client acquires at once are one event. While run --min-hold keeps a lock, the
next holdfast command waits at the head of the queue, and watch prints acquired for it.

watch sees every event, in order, also of locks that are held for less than a millisecond. When the
connection breaks, watch reads all locks again. It prints what has changed, with the time of the reading,
and a gap for each lock where the server has counted more changes. On servers before ZooKeeper 3.6, it
reads all locks once a second, or less often if there are many. Every minute, it asks whether the server is
newer.

Without --layout, watch follows the locks of all layouts but form:PATTERN. Two layouts in one directory are two locks
then, although go-zookeeper's Lock respects kazoo's. With --layout go-zookeeper, they are one.

A server reports no event of a node that the client may not read. If watch may not read all nodes of a lock, it
prints a gap, and then no events of that lock. It finds out at the first event of another node of the lock.

With --exec, watch prints nothing. It runs CMD with the shell for each event, one after the other, in
order. The event is on standard input as a LockEvent (see docs/reference/json.md), and in HOLDFAST_EVENT
(its type), HOLDFAST_LOCK, HOLDFAST_LOCK_PATH, HOLDFAST_OWNER, HOLDFAST_SESSION, HOLDFAST_TOKEN and
HOLDFAST_AT. A name or an owner of more than 64 KiB is cut there, but not on standard input. If CMD
fails, watch prints a message and continues.

-o jsonl prints one LockEvent a line, -o json one indented LockEvent for each event. -o wide adds the
session and the node, -o name prints the names of the locks alone.

Exit codes:
  0   INT or TERM ended it
  2   wrong command line
  69  no server answered at the beginning
  77  no permission
  78  wrong configuration`

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var format term.Format
	var layout kind.Layout
	var events []string
	var command string
	cmd := &cobra.Command{
		Use:   "watch [flags] [PREFIX]",
		Short: "Print what happens to locks, as it happens",
		Long:  about,
		Example: `  holdfast watch
  holdfast watch --events acquired,released db/
  holdfast watch -o jsonl | jq -r 'select(.type == "released") | .held_ms'
  holdfast watch --events released --exec 'logger -t locks "$HOLDFAST_OWNER released $HOLDFAST_LOCK"'`,
		Args: term.Operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("events") && len(events) == 0 {
				return term.Usage("want "+term.OrList(eventTypes)+", separated by commas, or leave --events out", "--events is empty")
			}
			for _, name := range events {
				if !slices.Contains(eventTypes, name) {
					return term.Usage("want "+term.OrList(eventTypes)+", separated by commas", "--events: there is no event %q", term.Cut(name, 100))
				}
			}
			if cmd.Flags().Changed("exec") && strings.TrimSpace(command) == "" {
				return term.Usage("give a command line for the shell", "--exec is empty")
			}
			prefix, err := conn.LockPrefix(g, args)
			if err != nil {
				return err
			}
			w := &eventWriter{Flags: g, out: cmd.OutOrStdout(), format: format, events: events, command: command}
			cfg := lockwatch.Config{Prefix: prefix}
			if layout.Asked() != nil {
				cfg.Layout = layout.Layout
			}
			return w.watch(cmd.Context(), cfg)
		},
	}
	format.Register(cmd, term.AllFormats...)
	layout.Register(cmd)
	cmd.Flags().StringSliceVar(&events, "events", nil, "print only these events: queued, acquired, released, left; separated by commas. A gap is always printed (default: all)")
	cmd.Flags().StringVar(&command, "exec", "", "run this command line for each event, in place of printing it")
	return cmd
}

// An eventWriter prints events, or runs a command for each.
type eventWriter struct {
	*conn.Flags
	out     io.Writer
	format  term.Format
	events  []string
	command string
	say     *term.Sayer
}

// commandBacklog and commandBacklogBytes bound the events that wait for the command of --exec. Beyond them, the watch
// waits.
const (
	commandBacklog      = 10_000
	commandBacklogBytes = 64 << 20
)

func (w *eventWriter) watch(ctx context.Context, cfg lockwatch.Config) error {
	ctx, stop := conn.UntilStopped(ctx)
	defer stop()
	w.say = w.Log.NewSayer(os.Stderr)
	defer w.say.Flush()
	cfg.Ready = func(s lockwatch.Summary) {
		w.say.Line("watching %s: %d locks in use, %d held, %d clients wait", term.Escape(cfg.Prefix), s.Locks, s.Held, s.Waiters)
		if s.Polls {
			w.say.Line("the server has no persistent watches (ZooKeeper 3.6): all locks are read once a second or less often")
		}
	}
	return conn.Stay(ctx, w.Flags, w.say, func(c *conn.Connection) error {
		report := w.print
		if w.command != "" {
			queue := make(chan Event, commandBacklog)
			room := semaphore.NewWeighted(commandBacklogBytes)
			size := func(e Event) int64 {
				return min(int64(len(e.Name)+len(e.Path)+len(e.Node)+len(e.Owner)+len(e.Why)), commandBacklogBytes)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for e := range queue {
					if ctx.Err() == nil {
						w.run(ctx, e)
					}
					room.Release(size(e))
				}
			}()
			defer func() {
				close(queue)
				<-done
			}()
			report = func(e Event) error {
				if room.Acquire(ctx, size(e)) != nil {
					return nil // ctx has ended
				}
				select {
				case queue <- e:
				case <-ctx.Done():
				}
				return nil
			}
		}
		return lockwatch.Watch(ctx, c.Client, cfg, func(e lockwatch.Event) error {
			if e.Type != lockwatch.Gap && len(w.events) > 0 && !slices.Contains(w.events, string(e.Type)) {
				return nil
			}
			return report(w.document(e))
		})
	})
}

func (w *eventWriter) document(e lockwatch.Event) Event {
	d := Event{
		APIVersion: term.APIVersion, Kind: "LockEvent", Type: string(e.Type), At: e.At.UTC().Truncate(time.Millisecond),
		Name: w.LockName(locks.Typed(e.Lock)), Path: e.Lock, Node: e.Node, Owner: e.Owner, Why: e.Reason, Waiters: e.Waiters, Gap: e.Why,
	}
	if e.Known {
		d.Token = strconv.FormatInt(e.Token, 10)
		if e.Session != 0 {
			d.Session = locks.SessionText(e.Session)
		}
	}
	if e.Type != lockwatch.Gap {
		d.Mode = "exclusive"
		if e.Shared {
			d.Mode = "shared"
		}
	}
	if ms := e.Took.Milliseconds(); e.Took > 0 {
		if e.Type == lockwatch.Released {
			d.HeldMS = &ms
		} else {
			d.WaitedMS = &ms
		}
	}
	return d
}

func (w *eventWriter) print(e Event) error {
	var err error
	switch w.format {
	case "json":
		err = term.JSON(w.out, e)
	case "jsonl":
		err = term.JSONLine(w.out, e)
	case "name":
		_, err = fmt.Fprintln(w.out, term.Escape(e.Name))
	default:
		_, err = fmt.Fprintln(w.out, e.text(w.format == "wide"))
	}
	if err != nil {
		return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("watch: cannot print: %w", err)}
	}
	return nil
}

// text returns the event as one line.
func (e *Event) text(wide bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-8s %s", e.At.Format("2006-01-02T15:04:05.000Z07:00"), e.Type, term.Escape(term.Cut(e.Name, term.MaxCell)))
	if e.Type == string(lockwatch.Gap) {
		fmt.Fprintf(&b, " (%s)", e.Gap)
		return b.String()
	}
	switch {
	case e.Token == "":
		b.WriteString(" by unknown")
	case e.Owner == "":
		b.WriteString(" by session " + e.Session)
	default:
		b.WriteString(" by " + term.Escape(term.Cut(e.Owner, term.MaxCell)))
	}
	if e.Token != "" {
		b.WriteString(" token=" + e.Token)
	}
	for _, d := range []struct {
		name string
		ms   *int64
	}{{"waited", e.WaitedMS}, {"held", e.HeldMS}} {
		if d.ms != nil {
			fmt.Fprintf(&b, " %s=%s", d.name, duration.Text(time.Duration(*d.ms)*time.Millisecond))
		}
	}
	if e.Waiters > 0 {
		fmt.Fprintf(&b, " waiters=%d", e.Waiters)
	}
	if wide && e.Session != "" {
		b.WriteString(" session=" + e.Session)
	}
	if wide {
		b.WriteString(" node=" + term.Escape(term.Cut(e.Node, 2*term.MaxCell)))
	}
	if e.Why != "" {
		b.WriteString(` ("` + term.Escape(term.Cut(e.Why, term.MaxCell)) + `")`)
	}
	return b.String()
}

// run runs the command of --exec for one event. It ends the command when ctx ends.
func (w *eventWriter) run(ctx context.Context, e Event) {
	var text bytes.Buffer
	if err := term.JSONLine(&text, e); err != nil {
		w.say.Line("--exec: %v", err)
		return
	}
	shell, option := "sh", "-c"
	if runtime.GOOS == "windows" {
		shell, option = "cmd", "/c"
	}
	cmd := exec.CommandContext(ctx, shell, option, w.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &text, os.Stdout, os.Stderr
	cmd.Env = job.Environ([]string{
		"HOLDFAST_EVENT=" + e.Type, "HOLDFAST_LOCK=" + forVariable(e.Name), "HOLDFAST_LOCK_PATH=" + forVariable(e.Path), "HOLDFAST_OWNER=" + forVariable(e.Owner),
		"HOLDFAST_SESSION=" + e.Session, "HOLDFAST_TOKEN=" + e.Token, "HOLDFAST_AT=" + e.At.Format(time.RFC3339Nano),
	})
	cmd.Cancel = func() error {
		if runtime.GOOS == "windows" {
			return cmd.Process.Kill()
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		w.say.Line("--exec: the command for %s of %s failed: %v", e.Type, term.Escape(term.Cut(e.Name, term.MaxCell)), err)
	}
}

// forVariable makes text of another program fit for an environment variable. Linux refuses to run a command with a
// variable of 128 KiB.
func forVariable(s string) string { return term.Cut(strings.ReplaceAll(s, "\x00", `\x00`), 64<<10) }
