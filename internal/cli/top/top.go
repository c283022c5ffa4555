// Package top is the program holdfast-top: locks and their queues on a screen that is kept up to date.
package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/duration"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
)

// shortest is the shortest --interval.
const shortest = 100 * time.Millisecond

const long = `top shows the locks whose names begin with PREFIX, or all locks in the namespace, and below them the queue
of the selected lock. It keeps both up to date until you press q. The columns are those of holdfast ls and
holdfast status. A narrow screen has fewer of them. If the lock is in a deadlock with others of the list, top says who waits
for whom, and what to type to end it.

Keys:
  up, down, k, j    select a lock; also page up, page down, home (g) and end (G)
  tab, enter        select a place in the queue of the lock; esc goes back to the locks
  /                 show only locks with a text in their names, owners or reasons; esc shows all again
  s                 change the order: by wait, by name, by hold
  b                 break: take the lock away from its holder, or the selected place from the queue
  r                 revoke: ask the holder, or the selected place, to release the lock
  ?                 help
  q, ctrl-C         end

b and r show what happens to whom, and ask. Any answer but y does nothing. If the holder has changed since you
pressed the key, they do nothing either. They leave the audit line of holdfast break and holdfast revoke. When
top ends, it prints these lines on stderr. b does not end the time of run --min-hold: holdfast break does. Until
then, the next holdfast command waits at the head of the queue, where top shows it as the holder.

The first line of the screen has the time of the reading. If no server answers, or answers too slowly, the
line begins with OLD and says why, and the times in the table stop. top goes on when a server answers again.

top reads the locks once per --interval, and after b and r. It reads less often if there are more than 1000
locks or if a reading takes longer than --interval. It never begins a reading before the last one has ended.

Exit codes:
  0   you have ended it, or INT or TERM
  2   wrong command line; or no terminal
  69  no server answered at the beginning
  77  no permission
  78  wrong configuration`

// New returns the program holdfast-top.
func New() *cobra.Command {
	g := conn.NewFlags()
	var interval time.Duration
	var order see.Filter
	var layout kind.Layout
	var color term.ColorFlag
	cmd := &cobra.Command{
		Use:   "top [flags] [PREFIX]",
		Short: "Show locks and their queues on a screen that is kept up to date",
		Long:  long,
		Example: `  holdfast top
  holdfast top --sort hold db/
  holdfast top --interval 5s`,
		Args: term.Operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := order.Check(); err != nil {
				return err
			}
			if interval < shortest {
				return term.Usage("give a time such as 1s", "--interval %v is too short: want at least %v", interval, shortest)
			}
			prefix, err := conn.LockPrefix(g, args)
			if err != nil {
				return err
			}
			if !term.Interactive(os.Stdin) || !term.Interactive(os.Stdout) || os.Getenv("TERM") == "dumb" {
				return term.Usage("holdfast ls --watch prints the locks again after each change, and holdfast ls -o json prints them for programs",
					"top: standard input and standard output must be a terminal with a cursor")
			}
			m := newModel(interval, order, g.LockName)
			m.screen.colored = color.On(os.Stdout)
			return run(g, cmd, m, prefix, layout.Asked())
		},
	}
	term.DurationVar(cmd.Flags(), &interval, "interval", "", time.Second, "shortest time between two readings")
	cmd.Flags().StringVar(&order.Sort, "sort", "wait", "order: name, hold (held longest first) or wait (the longest wait first)")
	color.Register(cmd)
	layout.Register(cmd)
	return program.New(cmd, g)
}

// run shows m until its user ends it.
func run(g *conn.Flags, cmd *cobra.Command, m *model, prefix string, layout *locks.Layout) error {
	ctx, stop := conn.UntilStopped(cmd.Context())
	defer stop()
	say := g.Log.NewSayer(os.Stderr)
	defer say.Flush()
	return conn.Stay(ctx, g, say, func(c *conn.Connection) error {
		c.Quiet() // from now on, the screen tells
		say.Flush()

		background, cancel := context.WithCancel(ctx)
		var acting sync.WaitGroup
		var audit bytes.Buffer // the program's screen has stderr, too
		cmd.SetErr(&audit)
		defer func() {
			cancel()
			acting.Wait()
			_, _ = io.Copy(os.Stderr, &audit)
		}()
		m.feed.contact = c.Contact.State
		var before []waitgraph.Lock // one reading follows another
		m.feed.read = func() tea.Msg {
			began := time.Now()
			found, err := see.Query{Prefix: prefix, Namespace: g.Namespace, Layout: layout}.Read(background, c.Client)
			now := see.Graph(found)
			stuck := deadlock.Words{Graph: waitgraph.Twice(before, now), LockName: g.LockName}.ByLock()
			before = now
			return listMsg{found, stuck, began, time.Now(), err}
		}
		m.dialog.act = func(a deed.Action, name, path, dir string, places []holdfast.Entry) tea.Cmd {
			done := make(chan tea.Msg, 1) // nobody reads it if the program ends first
			acting.Go(func() {
				ctx, cancel := context.WithTimeout(background, g.Patience())
				defer cancel()
				err := act.CarryOut(ctx, g, cmd, c.Client, &deed.Plan{Action: a, Path: path, Dir: dir, Token: places[0].Token, Places: places}, name, "")
				if errors.Is(err, context.DeadlineExceeded) {
					err = fmt.Errorf("no answer within %v, so it may have happened (%w)", duration.Text(g.Patience()), err)
				}
				done <- doneMsg{a, name, places[0].Token, err}
			})
			return func() tea.Msg { return <-done }
		}
		profile := colorprofile.ASCII
		if m.screen.colored {
			profile = colorprofile.ANSI
		}
		program := tea.NewProgram(m, tea.WithoutSignalHandler(), tea.WithInput(os.Stdin), tea.WithOutput(os.Stdout), tea.WithColorProfile(profile))
		// With WithContext, bubbletea would close its input while a goroutine reads it.
		defer context.AfterFunc(ctx, program.Quit)()
		_, err := program.Run()
		switch {
		case m.fault != nil:
			return m.fault
		case ctx.Err() != nil:
			return context.Canceled
		case err != nil:
			return fmt.Errorf("top: cannot use the terminal: %w", err)
		}
		return nil
	})
}
