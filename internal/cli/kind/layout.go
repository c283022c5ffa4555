// Package kind has the flags that say which kind of lock a lock is, and how its nodes are named.
package kind

import (
	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/layout"
)

// Layout is --layout, a flag of all subcommands that read a lock's nodes.
type Layout struct {
	holdfast.Layout
	given bool
}

// Asked returns the layout that the user asks for. It is nil if there is none: then the names of the nodes tell it.
func (l *Layout) Asked() *locks.Layout {
	if !l.given {
		return nil
	}
	return locks.Compiled(l.Layout)
}

// Register gives a command the flag.
func (l *Layout) Register(cmd *cobra.Command) {
	l.Layout = layout.Curator
	cmd.Flags().Var(l, "layout", "how the lock's nodes are named: curator, leaderlatch, kazoo, go-zookeeper, writelock, hostrw, sessionid, article, named:NAME for one of several locks in a directory, or form:PATTERN for other names, where PATTERN may have {uuid}, {hex}, {session} or {host} with text behind it. The other programs must be able to read them: form:ex makes ex<number>, and form: a number alone. All users of a lock must give the same layout")
}

// String returns the name of the layout.
func (l *Layout) String() string { return l.Name }

// Type returns the name of the value in the help.
func (l *Layout) Type() string { return "name" }

// Set accepts the name of a layout.
func (l *Layout) Set(name string) (err error) {
	l.Layout, err = holdfast.ParseLayout(name)
	l.given = err == nil
	return err
}
