package act

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/zk"
)

// Flags are the flags of the subcommands that act on locks of others.
type Flags struct {
	Yes    bool
	Reason string
}

// Register gives a command the flags.
func (f *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.Yes, "yes", "y", false, "do not ask; needed where standard input is no terminal")
	cmd.Flags().StringVar(&f.Reason, "reason", "", "reason, for the audit line")
}

// Confirm asks on the terminal, unless the user has said yes before. word is what the user has to type. in is read
// by nobody else.
func (f *Flags) Confirm(cmd *cobra.Command, verb, word string) error {
	if f.Yes {
		return nil
	}
	if !term.Interactive(os.Stdin) {
		return term.Usage("look at what it says above, and add --yes if that is what you want", "%s: standard input is no terminal, so nobody can confirm", cmd.Name())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "To %s, type %s: ", verb, term.Escape(word))
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, 64<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: cannot read the answer: %w", cmd.Name(), err)
	}
	if strings.TrimSpace(line) != word {
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s: not confirmed; nothing was done", cmd.Name())}
	}
	return nil
}

// TellAudit prints the audit line of what was done, and warns if the server does not have it. err is the outcome.
func TellAudit(g *conn.Flags, cmd *cobra.Command, r deed.Record, err error) {
	outcome := ""
	if err != nil {
		outcome = " (failed)"
	}
	for _, p := range r.Places {
		g.Log.Info(cmd, "audit: %s %s %s: %s, token %s%s", r.At.Format(time.RFC3339), term.Escape(r.By), term.Escape(r.Action), term.Escape(p.Path), p.Token, outcome)
	}
	if r.Missing != nil {
		g.Log.Warn(cmd, "the audit line is not in %s: %s", deed.Path, term.Escape(term.Cut(r.Missing.Error(), deed.MaxText)))
	}
}

// Audited does something to locks of others, leaves an audit line and prints it.
func Audited(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, e deed.Entry, reason string, act func() error) error {
	record, err := deed.Audited(ctx, c, e, deed.By{Name: conn.Owner(), Reason: reason}, act)
	TellAudit(g, cmd, record, err)
	return err
}
