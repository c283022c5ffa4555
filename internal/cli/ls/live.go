package ls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/lockwatch"
	"holdfast/zk"
)

// lsPause is the shortest time between two lists of ls --watch.
const lsPause = time.Second

// lsWatchAgain is when ls --watch asks again for a watch that the server does not have, and reads again without an event.
const lsWatchAgain = time.Minute

// lsWatch implements ls --watch. list reads the locks to print.
func lsWatch(g *conn.Flags, cmd *cobra.Command, p *term.Printer, prefix string, list func(context.Context, *zk.Client) ([]see.Lock, time.Time, error)) error {
	ctx, stop := conn.UntilStopped(cmd.Context())
	defer stop()
	say := g.Log.NewSayer(os.Stderr)
	defer say.Flush()
	return conn.Stay(ctx, g, say, func(c *conn.Connection) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		changes := make(chan struct{}, 1)
		go func() {
			if err := watchChanges(ctx, c.Client, conn.Parent(prefix), changes); err != nil {
				cancel(err)
			}
		}()
		picture := &picture{out: cmd.OutOrStdout(), printer: p, Flags: g, contact: c.Contact.State}
		defer picture.end()
		var pace lockwatch.Pace
		for {
			began := time.Now()
			var found []see.Lock
			var now time.Time
			var err error
			picture.reading = began
			read := make(chan struct{})
			go func() {
				defer close(read)
				found, now, err = list(ctx, c.Client)
			}()
			if err := picture.keep(read); err != nil {
				cancel(nil)
				<-read
				return err
			}
			picture.reading, picture.failed = time.Time{}, err
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss), errors.Is(err, zk.ErrThrottled): // again, after the pause
			case err != nil:
				return err
			default:
				if picture.live() {
					c.Quiet() // from now on, the table tells
					say.Flush()
				}
				if err := picture.update(found, now); err != nil {
					return err
				}
			}
			if err := picture.wait(ctx, changes, pace.Pause(lsPause, time.Since(began)), err != nil); err != nil {
				return err
			}
		}
	})
}

// watchChanges puts a token into changes after each change at path or below it. It returns when ctx ends, or
// when the server refuses the watch.
func watchChanges(ctx context.Context, c *zk.Client, path string, changes chan<- struct{}) error {
	change := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		w, err := c.AddWatch(ctx, path, zk.WatchPersistentRecursive)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss), errors.Is(err, zk.ErrThrottled):
		case errors.Is(err, zk.ErrUnimplemented):
			// Another member, or a later version, may have such watches.
			for tick, until := time.Tick(lsPause), time.Now().Add(lsWatchAgain); ctx.Err() == nil && time.Now().Before(until); <-tick {
				change()
			}
		case err != nil:
			return err
		default:
			change() // there may have been some before
			again := time.NewTicker(lsWatchAgain)
			for ended := false; !ended; {
				select {
				case <-again.C: // no event tells of a node that has become unreadable
					change()
				case _, ok := <-w.C: // an event with an error, too, asks for another look
					ended = !ok
					change()
				case <-ctx.Done():
					ended = true
				}
			}
			again.Stop()
			w.Stop()
		}
		select {
		case <-time.After(lsPause / 10):
		case <-ctx.Done():
		}
	}
	return nil
}

// A picture prints the locks again and again.
type picture struct {
	*conn.Flags
	out     io.Writer
	printer *term.Printer

	contact func() (down time.Time, causes string)

	found   []see.Lock
	now     time.Time // of found, by this machine's clock
	reading time.Time // when the list under way began; zero: none is
	failed  error     // of a later list
	shown   string    // what was printed last, without the times
	begun   bool
}

// lsSlow is how long a list may take before the table counts as old.
const lsSlow = 3 * time.Second

// stale returns why the table may be older than it should be, or "".
func (s *picture) stale(now time.Time) string {
	down, causes := s.contact()
	switch {
	case !down.IsZero():
		return "no server answers: " + causes
	case s.failed != nil:
		return strings.TrimPrefix(s.failed.Error(), "holdfast: ")
	case !s.reading.IsZero() && now.Sub(s.reading) > lsSlow:
		return "the server is slow: reading for " + term.Age(s.reading, now)
	}
	return ""
}

// live reports whether the table is updated in place.
func (s *picture) live() bool {
	return (s.printer.Format == "table" || s.printer.Format == "wide") && term.IsTerminal(s.out) && os.Getenv("TERM") != "dumb"
}

func (s *picture) update(found []see.Lock, now time.Time) error {
	s.found, s.now = found, now
	if s.live() {
		return s.draw()
	}
	what := signature(found)
	if s.begun && what == s.shown {
		return nil
	}
	again := s.begun
	s.shown, s.begun = what, true
	l := see.Listing(s.LockName, found, now)
	switch s.printer.Format {
	case "json":
		return term.JSON(s.out, l.Whole())
	case "jsonl":
		return term.JSONLine(s.out, l.Whole())
	}
	if again {
		if _, err := fmt.Fprintln(s.out); err != nil {
			return err
		}
	}
	return term.Show(s.out, s.printer, l)
}

// signature is what a list says, without times.
func signature(found []see.Lock) string {
	var b strings.Builder
	for _, l := range found {
		fmt.Fprintf(&b, "%s %s %v %s\n", l.Path, l.Layout, l.Permits, l.State())
		for _, e := range l.Queue {
			fmt.Fprintf(&b, " %s %d %v %v\n", e.Path, e.Token, e.Held, e.Kept)
		}
	}
	return b.String()
}

// draw replaces what the terminal shows with the table. It shows no more rows than the terminal has, and of each
// row only what fits into one line.
func (s *picture) draw() error {
	lines, err := s.lines(time.Now())
	if err != nil {
		return err
	}
	if height := term.ScreenHeight(s.out); height > 1 && len(lines) > height {
		hidden := len(lines) - height + 1
		lines = append(lines[:height-1:height-1], fmt.Sprintf("… %d more", hidden))
	}
	const home, clearLine, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	const cutLines, wrapLines = "\x1b[?7l", "\x1b[?7h"
	out := home + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow
	if !s.begun {
		out = "\x1b[2J" + out
		s.begun = true
	}
	_, err = io.WriteString(s.out, cutLines+out+wrapLines)
	return err
}

// lines returns the lines of the table. If the table is old, the first line says so, and no time goes on.
func (s *picture) lines(now time.Time) ([]string, error) {
	colored := s.printer.Color.On(s.out)
	var b strings.Builder
	at := now
	if old := s.stale(now); old != "" {
		at = s.now
		text := fmt.Sprintf("OLD: of %s, %s ago: %s", s.now.Format("15:04:05"), term.Age(s.now, now), term.Escape(term.Cut(old, 250)))
		if colored {
			text = term.Red.Paint(text)
		}
		b.WriteString(text + "\n")
	}
	l := see.Listing(s.LockName, s.found, at)
	t := l.Grid(s.printer.Format == "wide")
	t.Headed, t.Colored = !s.printer.NoHeaders, colored
	err := t.Print(&b)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), err
}

// keep keeps the table on a terminal up to date until done is closed.
func (s *picture) keep(done <-chan struct{}) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-tick.C:
			if err := s.redraw(); err != nil {
				return err
			}
		}
	}
}

// redraw draws the table on a terminal again, with the times of now.
func (s *picture) redraw() error {
	if s.live() && s.begun {
		return s.draw()
	}
	return nil
}

// wait returns after the next change, but not before the pause is over. Meanwhile it keeps the times on a
// terminal up to date. If again is true, it does not wait for a change.
func (s *picture) wait(ctx context.Context, changes <-chan struct{}, pause time.Duration, again bool) error {
	due := time.After(pause)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for over := false; ; {
		var changed <-chan struct{}
		if over {
			if again {
				return nil
			}
			changed = changes
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-due:
			over = true
		case <-changed:
			return nil
		case <-tick.C:
			if err := s.redraw(); err != nil {
				return err
			}
		}
	}
}

// end leaves the cursor below the table.
func (s *picture) end() {
	if s.live() && s.begun {
		_, _ = io.WriteString(s.out, "\r\n")
	}
}
