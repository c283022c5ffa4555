package main

import (
	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/layout"
)

// layoutFlag is --layout, a flag of all subcommands that read a lock's nodes.
type layoutFlag struct {
	holdfast.Layout
	given bool
}

// asked returns the layout that the user asks for. It is nil if there is none: then the names of the nodes tell it.
func (l *layoutFlag) asked() *locks.Layout {
	if !l.given {
		return nil
	}
	return locks.Compiled(l.Layout)
}

func (l *layoutFlag) register(cmd *cobra.Command) {
	l.Layout = layout.Curator
	cmd.Flags().Var(l, "layout", "how the lock's nodes are named: curator, leaderlatch, kazoo, go-zookeeper, writelock, hostrw, sessionid, article, named:NAME for one of several locks in a directory, or form:PATTERN for other names, where PATTERN may have {uuid}, {hex}, {session} or {host} with text behind it. The other programs must be able to read them: form:ex makes ex<number>, and form: a number alone. All users of a lock must give the same layout")
}

func (l *layoutFlag) String() string { return l.Name }

// Type returns the name of the value in the help.
func (l *layoutFlag) Type() string { return "name" }

// Set accepts the name of a layout.
func (l *layoutFlag) Set(name string) (err error) {
	l.Layout, err = holdfast.ParseLayout(name)
	l.given = err == nil
	return err
}
