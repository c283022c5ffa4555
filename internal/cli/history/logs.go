package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/locks"
	"holdfast/internal/txlog"
)

// LogEvent is one thing that the logs of the servers tell of a place in a queue.
type LogEvent struct {
	Type    string    `json:"type"`
	At      time.Time `json:"at"`
	AtLeast bool      `json:"at_least,omitempty"` // it was at that time or later
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Node    string    `json:"node"`
	Owner   string    `json:"owner"`
	Why     string    `json:"why"`
	Session string    `json:"session,omitempty"`
	Token   string    `json:"token"`
	Zxid    string    `json:"zxid"`
	HeldMS  int64     `json:"held_ms,omitempty"`
	By      string    `json:"by,omitempty"` // the session that has removed the place
}

// LogDocument is all that the logs of the servers tell, in JSON.
type LogDocument struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Events     []LogEvent `json:"events"`
}

// logs are the flags that read the logs of servers instead of asking one.
type logs struct {
	dirs []string
	at   string
}

func (l *logs) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&l.dirs, "from-logs", nil, "read the transaction logs and snapshots of Apache ZooKeeper, or the journals of holdfast serve, in this `directory`, without asking a server. Repeat it for several servers of an ensemble")
	cmd.Flags().StringVar(&l.at, "at", "", "with --from-logs: show who held and who waited at this `time`, as 2026-11-28T09:30:00Z")
}

// given reports whether logs are read. LOCK can be left out then.
func (l *logs) given() bool { return len(l.dirs) > 0 }

// run reads the logs, and prints what they tell.
func (l *logs) run(cmd *cobra.Command, g *conn.Flags, p *term.Printer, args []string) error {
	cfg := txlog.Config{Dirs: l.dirs, Warn: func(err error) { g.Log.Warn(cmd, "%v", err) }}
	if len(args) > 0 {
		path, err := g.LockPath(args[0])
		if err != nil {
			return err
		}
		cfg.Wants = func(lock string) bool { return lock == path || strings.HasPrefix(lock, path+"/") }
	}
	if l.at != "" {
		at, err := time.Parse(time.RFC3339, l.at)
		if err != nil {
			return term.Usage("write it as 2026-11-28T09:30:00Z or 2026-11-28T10:30:00+01:00", "--at %q is no time", term.Cut(l.at, 50))
		}
		cfg.Until = at
	}
	w := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	out := logPrinter{w: w, format: p.Format, name: g.LockName}
	cfg.Report = out.print
	if l.at != "" {
		cfg.Report = func(txlog.Event) error { return nil }
	}
	now, err := txlog.Read(cfg)
	if bad := (*fs.PathError)(nil); errors.As(err, &bad) {
		return term.Usage("give the dataLogDir or the dataDir of a server", "--from-logs %q: %v", term.Cut(bad.Path, 100), bad.Err)
	}
	if errors.Is(err, txlog.ErrSeveral) {
		return term.Usage("give --from-logs once", "--from-logs: %v", err)
	}
	if err != nil {
		return errors.Join(err, w.Flush())
	}
	if l.at != "" {
		for _, e := range now {
			if err := out.print(e); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(out.end(), w.Flush()); err != nil {
		return err
	}
	if out.events == 0 {
		return term.ExitCode(term.ExitNo)
	}
	return nil
}

// A logPrinter prints events as they come: there can be millions.
type logPrinter struct {
	w      io.Writer
	format term.Format
	name   func(path string) string
	events int
}

func (o *logPrinter) print(e txlog.Event) error {
	o.events++
	d := o.event(e)
	switch o.format {
	case "json":
		return o.item(d)
	case "jsonl":
		return term.JSONLine(o.w, d)
	case "name":
		_, err := fmt.Fprintln(o.w, term.Escape(d.Owner))
		return err
	}
	at := d.At.Format("2006-01-02T15:04:05.000Z07:00")
	if d.AtLeast {
		at = "≥" + at
	}
	line := fmt.Sprintf("%-25s %-9s %s  %s", at, d.Type, term.Escape(d.Name), term.Escape(d.Owner))
	if d.Session != "" {
		line += "  session " + d.Session
	}
	line += "  token " + d.Token
	if d.HeldMS > 0 {
		least := ""
		if d.AtLeast {
			least = "≥"
		}
		line += "  held " + least + duration.Age(time.Duration(d.HeldMS)*time.Millisecond)
	}
	if d.By != "" {
		line += "  by session " + d.By
	}
	if d.Why != "" {
		line += "  " + term.Escape(d.Why)
	}
	_, err := fmt.Fprintln(o.w, line)
	return err
}

func (o *logPrinter) event(e txlog.Event) LogEvent {
	d := LogEvent{
		Type: string(e.Type), At: e.At.UTC(), AtLeast: e.Since && e.Type != txlog.Joined || e.AtLeast, Name: o.name(e.Lock), Path: e.Lock, Node: e.Place.Path,
		Owner: e.Place.Owner, Why: e.Place.Reason, Token: strconv.FormatInt(e.Place.Token, 10), Zxid: fmt.Sprintf("0x%x", uint64(e.Zxid)),
		HeldMS: e.Held.Milliseconds(),
	}
	if e.Place.Session != 0 {
		d.Session = locks.SessionText(e.Place.Session)
	}
	if e.By != 0 {
		d.By = locks.SessionText(e.By)
	}
	return d
}

// frame returns what is before the events and after them in the document of -o json.
func frame() (before, after string, err error) {
	var b strings.Builder
	err = term.JSON(&b, LogDocument{APIVersion: term.APIVersion, Kind: "LockLogs", Events: []LogEvent{}})
	before, after, _ = strings.Cut(b.String(), "]")
	return before, "]" + after, err
}

// item prints an event in the document of -o json.
func (o *logPrinter) item(d LogEvent) error {
	lead := ","
	if o.events == 1 {
		before, _, err := frame()
		if err != nil {
			return err
		}
		lead = before
	}
	var b strings.Builder
	if err := term.JSON(&b, d); err != nil {
		return err
	}
	const newLine = "\n    "
	_, err := io.WriteString(o.w, lead+newLine+strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", newLine))
	return err
}

// end prints the end of the document of -o json.
func (o *logPrinter) end() error {
	if o.format != "json" {
		return nil
	}
	before, after, err := frame()
	switch {
	case err != nil:
		return err
	case o.events == 0:
		after = before + after
	default:
		after = "\n  " + after
	}
	_, err = io.WriteString(o.w, after)
	return err
}
