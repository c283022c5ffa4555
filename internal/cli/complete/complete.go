// Package complete completes commands, flags and the names of locks for the TAB key of a shell.
package complete

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
	"holdfast/zklocal"
)

// patience is how long the TAB key waits for the names of locks.
const patience = 500 * time.Millisecond

// Register gives cmd, each command below it and each flag its completion, if a shell asks for completions.
func Register(g *conn.Flags, cmd *cobra.Command) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
		complete(g, cmd)
	}
}

// complete gives cmd, each command below it and each flag its completion.
func complete(g *conn.Flags, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		complete(g, sub)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if of := flag(g, f); of != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, of) // fails for a shared flag that has it
		}
	})
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(cmd.Use, cmd.Name()+" "), "[flags] "), " ")
	switch first {
	case "LOCK", "NAME", "[PREFIX]":
		if cmd.Flags().Lookup("profile") == nil { // it is no client
			return
		}
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

// flag returns the completion of a flag's value, or nil if files are right.
func flag(g *conn.Flags, f *pflag.Flag) cobra.CompletionFunc {
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
	case <-time.After(patience):
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
		layout = f.Value.(*kind.Layout).Asked()
	}
	prefix := word
	if !strings.HasPrefix(word, "/") {
		prefix = strings.TrimSuffix(g.Namespace, "/") + "/" + word
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	found, err := see.Query{Prefix: prefix, Namespace: g.Namespace, Layout: layout}.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	var names []string
	now := time.Now()
	for _, l := range found {
		name := g.LockName(l.Path)
		if strings.HasPrefix(word, "/") {
			name = l.Path
		}
		if literal(name) {
			names = append(names, name+"\t"+inWords(l, now))
		}
	}
	return names, nil
}

// inWords describes a lock in a list of completions.
func inWords(l see.Lock, now time.Time) string {
	switch state := l.State(); {
	case len(l.Queue) == 0 && l.Reserved != nil:
		return term.Cut(show.Reservation(l.Reserved), 80)
	case len(l.Queue) == 0 || l.Unreadable || state == "waiting":
		return state
	}
	text := show.State(l.Queue[0].Entry) + " by " + term.Cut(show.Holder(l.Queue[0].Entry, now), 80) + show.Gone(l.Queue[0])
	if waiters := l.Waiters(); waiters > 0 {
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
