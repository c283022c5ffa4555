package main

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
	"holdfast/zklocal"
)

// completionPatience is how long the TAB key waits for the names of locks.
const completionPatience = 500 * time.Millisecond

func newCompletion() *cobra.Command {
	shells := map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes holdfast commands in a shell",
		Long: `completion prints a script for bash, zsh, fish or powershell. With it, the TAB key completes commands,
flags and their values, and the names of locks on the server that the command line and the settings
name. A name is offered only if a shell takes it literally, so a name with a space or $ is not. TAB waits
half a second for the server at most, and it never starts a server for a directory.

bash (needs the package bash-completion), for all new shells:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast

zsh, in a directory of $fpath, before compinit runs:
  holdfast completion zsh > "${fpath[1]}/_holdfast"

fish:
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish

PowerShell, in the profile:
  holdfast completion powershell | Out-String | Invoke-Expression

Exit codes:
  0   the script is printed
  2   wrong command line`,
		Example: `  source <(holdfast completion bash)
  source <(holdfast completion zsh)`,
		Args:      term.Operands("SHELL"),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			write := shells[args[0]]
			if write == nil {
				return term.Usage("give one of "+strings.Join(names, ", "), "completion: no script for %q", term.Cut(args[0], 40))
			}
			return write(cmd.Root(), cmd.OutOrStdout())
		},
	}
}

// complete gives each command and each flag below cmd its completion.
func complete(g *conn.Flags, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		complete(g, sub)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if of := completionOf(g, f); of != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, of) // fails for a shared flag that has it
		}
	})
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(cmd.Use, cmd.Name()+" "), "[flags] "), " ")
	switch first {
	case "LOCK", "NAME", "[PREFIX]":
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return lockNames(g, cmd, word), cobra.ShellCompDirectiveNoFileComp
			}
			if strings.Contains(cmd.Use, "COMMAND") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	case "DIR":
		cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
}

var (
	layoutNames = []string{"curator", "leaderlatch", "kazoo", "go-zookeeper", "writelock", "hostrw", "sessionid", "article"}
	formatNames = []string{"table", "wide", "json", "jsonl", "name", "text"}
	signalNames = []string{"TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL", "STOP", "CONT"}
)

// completionOf returns the completion of a flag's value, or nil if files are right.
func completionOf(g *conn.Flags, f *pflag.Flag) cobra.CompletionFunc {
	switch f.Name {
	case "layout":
		return values(f, layoutNames, "named:", "form:")
	case "output", "log-format":
		return values(f, formatNames)
	case "color":
		return values(f, []string{"auto", "always", "never"})
	case "kill-signal":
		return values(f, signalNames)
	case "auth":
		return values(f, nil, "digest:", "sasl-digest:")
	case "server":
		return values(f, nil, "zk://", "zks://", "unix:///", "file:///")
	case "log-level":
		return values(f, slices.Collect(maps.Keys(term.LogLevels)))
	case "also":
		return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return lockNames(g, cmd, word), cobra.ShellCompDirectiveNoFileComp
		}
	case "profile":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return profileNames(g), cobra.ShellCompDirectiveNoFileComp
		}
	case "data-dir":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
	if kind := f.Value.Type(); kind == "duration" || kind == "int" || f.Name == "why" || f.Name == "value" || f.Name == "namespace" {
		return cobra.NoFileCompletions
	}
	return nil
}

// values completes a flag with those of the words that it accepts. The beginnings are words to go on with.
func values(f *pflag.Flag, words []string, beginnings ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) (all []string, _ cobra.ShellCompDirective) {
		for _, w := range words {
			if strings.HasPrefix(w, word) && f.Value.Set(w) == nil { // the process ends after this
				all = append(all, w)
			}
		}
		if len(all) > 0 && word != "" {
			return all, cobra.ShellCompDirectiveNoFileComp
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		for _, b := range beginnings {
			if strings.HasPrefix(b, word) {
				all = append(all, b)
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return all, directive
	}
}

// profileNames returns the profiles of the configuration files, or none if a file is wrong.
func profileNames(g *conn.Flags) []string {
	return slices.DeleteFunc(g.Profiles(), func(name string) bool { return !literal(name) })
}

// lockNames returns the names of locks that begin with word, and their states. It returns nothing if the
// server does not answer in time: the user of the TAB key can do nothing about it.
func lockNames(g *conn.Flags, cmd *cobra.Command, word string) []string {
	found := make(chan []string, 1)
	go func() {
		names, _ := findNames(g, cmd, word)
		found <- names
	}()
	select {
	case names := <-found:
		return names
	case <-time.After(completionPatience):
		return nil
	}
}

func findNames(g *conn.Flags, cmd *cobra.Command, word string) ([]string, error) {
	if err := g.Settle(cmd.Flags()); err != nil {
		return nil, err
	}
	t, err := g.Target()
	if err != nil {
		return nil, err
	}
	var layout *locks.Layout
	if f := cmd.Flags().Lookup("layout"); f != nil {
		layout = f.Value.(*layoutFlag).asked()
	}
	prefix := word
	if !strings.HasPrefix(word, "/") {
		prefix = strings.TrimSuffix(g.Namespace, "/") + "/" + word
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	cfg := t.ZK
	if t.Dir != "" {
		nc, err := zklocal.DialHost(ctx, t.Dir)
		if err != nil {
			return nil, err // no host: Dial would try again until the time is over
		}
		nc.Close()
		cfg.Servers = []string{"unix:///host"} // for messages, which nobody reads
		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return zklocal.DialHost(ctx, t.Dir) }
	}
	cfg.SessionTimeout = g.Timeout
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	found, err := lockQuery{prefix, g.Namespace, layout}.read(ctx, c)
	if err != nil {
		return nil, err
	}
	var names []string
	now := time.Now()
	for _, l := range found {
		name := g.LockName(l.path)
		if strings.HasPrefix(word, "/") {
			name = l.path
		}
		if literal(name) {
			names = append(names, name+"\t"+l.inWords(now))
		}
	}
	return names, nil
}

// inWords describes a lock in a list of completions.
func (l located) inWords(now time.Time) string {
	switch state := l.state(); {
	case len(l.queue) == 0 && l.reserved != nil:
		return term.Cut(show.Reservation(l.reserved), 80)
	case len(l.queue) == 0 || l.unreadable || state == "waiting":
		return state
	}
	text := show.State(l.queue[0].Entry) + " by " + term.Cut(show.Holder(l.queue[0].Entry, now), 80)
	if waiters := l.waiters(); waiters > 0 {
		text += ", " + strconv.Itoa(waiters) + " waiting"
	}
	return text
}

// literal reports whether every shell takes a name literally. Others choose the names of locks. bash puts
// what several names have in common into the command line without quotes, and evaluates the line at the
// next TAB. So a name such as $(reboot)1 must not be offered.
func literal(name string) bool {
	for i, r := range name {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '.', r == '/':
		case i > 0 && strings.ContainsRune("-+@%:,", r):
		default:
			return false
		}
	}
	return name != ""
}
