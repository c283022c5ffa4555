package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// newTopics returns the topics of holdfast help that are no commands.
func newTopics(g *conn.Flags) []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesTopic()},
		{Use: "environment", Short: "Environment variables that holdfast reads and sets", Long: environmentTopic(g)},
		{Use: "guarantees", Short: "What holdfast promises, and what it cannot promise", Long: guaranteesTopic},
		{Use: "durations", Short: "How to write a duration", Long: durationsTopic},
	}
}

func exitCodesTopic() string {
	return `The exit codes of run and elect answer one question: did my command run?

` + strings.Replace(term.RunExitCodes(), "Exit codes:", "run:", 1) + `

elect has the same codes, but not the flags --once-per, --once-key, -E and --lost-exit-code. elect --observe
runs no command. It ends with 125, or with 128+N by signal N. elect --observe --once ends with 0 if there is a
leader, and with 1 if there is none.

shard does not pass on the codes of its commands. INT and TERM end it with 0, and another signal N with
128+N. Its other codes are 125, 126 and 127: see holdfast shard --help.

The other commands:
` + term.OtherExitCodes() + `

holdfast COMMAND --help lists the codes that the command uses. 75, 77 and 78 are those of sysexits.h, and
79 is the first code after them. timeout(1) and env(1) use 125 to 127 in the same way.`
}

// A variable of the environment, besides those of flags.
type variable struct{ name, meaning string }

var readVariables = []variable{
	{"HOLDFAST_CONFIG", "the user's configuration file: see holdfast help config"},
	{"XDG_CONFIG_HOME", "directory of holdfast/config.yaml (default ~/.config)"},
	{"XDG_STATE_HOME", "directory of holdfast, the store without --server (default ~/.local/state)"},
	{"CREDENTIALS_DIRECTORY", "directory of holdfast.password, as systemd sets it: see holdfast help config"},
	{"HOME", "your home directory, for the defaults of the two above"},
	{"NO_COLOR", "if it is set, tables have no colors: see --color"},
	{"TERM", "if it is dumb, no colors and no messages that change in place"},
	{"USER", "part of the default of --who"},
	{"SUDO_USER", "with sudo holdfast doctor: the user whose default store is compared"},
	{"SOURCE_DATE_EPOCH", "date of the manual pages that holdfast man writes"},
}

// givenVariables are in the environment of the command of run and elect.
var givenVariables = []variable{
	{"HOLDFAST_LOCK", "the lock's name"},
	{"HOLDFAST_TOKEN", "the fencing token of LOCK, a number that grows from holder to holder"},
	{"HOLDFAST_TOKENS", "the tokens of all locks, with those of --also, in the order of the command line"},
	{"HOLDFAST_SESSION", "the session that holds the lock, such as 0x10000a3c0010002"},
	{"HOLDFAST_OWNER", "the name of the holder, see --who"},
	{"HOLDFAST_SERVER", "the server of the lock, which a holdfast inside the command uses, too"},
	{"HOLDFAST_SLOT", "with run --slot: the number of the slot"},
	{"HOLDFAST_SHARD", "with shard: the number of the shard, from 0"},
	{"HOLDFAST_SHARDS", "with shard: the number of shards"},
	{"HOLDFAST_LOST_FD", "a descriptor that ends when the lock is lost or in doubt, see run"},
	{"HOLDFAST_HELD", "the locks that this command and those around it hold, for a holdfast inside the command"},
}

// eventVariables are in the environment of the command of watch --exec.
var eventVariables = []variable{
	{"HOLDFAST_EVENT", "what happened: queued, acquired, released, left or gap"},
	{"HOLDFAST_LOCK", "the lock's name"},
	{"HOLDFAST_LOCK_PATH", "the path of the lock's node"},
	{"HOLDFAST_OWNER", "the client, if it is known"},
	{"HOLDFAST_TOKEN", "its token, if it is known"},
	{"HOLDFAST_SESSION", "its session, if it is known"},
	{"HOLDFAST_AT", "when it happened"},
}

func environmentTopic(g *conn.Flags) string {
	var flags []variable
	g.FlagSet.VisitAll(func(f *pflag.Flag) {
		flags = append(flags, variable{conn.EnvName(f.Name), "--" + f.Name})
	})
	list := func(variables []variable) string {
		var b strings.Builder
		for _, v := range variables {
			fmt.Fprintf(&b, "  %-24s  %s\n", v.name, v.meaning)
		}
		return b.String()
	}
	return `These variables set the flags of all commands that use locks. The command line wins. A variable that is
empty counts as not set. holdfast serve does not read them.

` + list(flags) + `
holdfast also reads:

` + list(readVariables) + `
run, elect and shard add these to the environment of their command:

` + list(givenVariables) + `
watch --exec adds these, one command for each event:

` + strings.TrimSuffix(list(eventVariables), "\n")
}

const guaranteesTopic = `At every moment, the server has at most one holder of a lock, and every holder has a larger fencing
token than all holders before it. This needs no clock.

run stops its command before the server can give the lock to another client. It measures the time from
its last contact that the server has confirmed. This holds if
  clocks run at rates within 1 % of each other
  holdfast run or its watchdog is scheduled within half a second
  on an ensemble: its tickTime is 3 s or less, or the address has it, as in ?tick=5s
  nobody breaks the lock or removes its node

If somebody breaks the lock, the next client acquires it at once, perhaps while the command still runs.

On Linux, the command and all its descendants end in time even if holdfast run is killed, crashes or is
stopped. On other systems, the command keeps running if holdfast run is killed or stopped.

Nobody can stop a command on a machine that is paused as a whole. When the machine continues, another
client may hold the lock, and the command runs on for a moment. If that would do damage, give the token
(HOLDFAST_TOKEN) to the resource, and let the resource refuse smaller tokens than it has seen. If a second
run would only waste work, the lock alone is enough.

A lock does not remember runs. A job that hosts with different clocks start one after the other runs on
each of them, unless run has --once-per, --once-key or --min-hold.

Without --server, the locks are for one user on one machine.

The claims, their assumptions and the test of each are in docs/explanation/guarantees.md.`

const durationsTopic = `A duration is a number of seconds, or numbers with units:

  90      90 seconds
  0.5     half a second
  250ms   units are ns, us, ms, s, m and h
  1h30m   units in a row are added
  1d      a day is 24 hours
  1d12h   days come first

Configuration files and environment variables take the same values. JSON output has durations as
integers, in fields whose names end with _ms for milliseconds and _us for microseconds.

The flags of holdfast serve need a unit and have no days.`

// newHelp returns the command help. Unlike cobra's, it fails for a name that it does not know.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND or TOPIC]",
		Short: "Help about a command or a topic",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if of, _ := find(cmd.Root(), args); of != nil {
				for _, sub := range of.Commands() {
					if !sub.Hidden && sub.Name() != "help" {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if is, err := helpBeside(cmd.Root(), args); is {
				return err
			}
			of, unknown := find(cmd.Root(), args)
			if of == nil {
				return term.Usage("holdfast help lists the commands and topics", "no help about %q", term.Cut(unknown, 40))
			}
			of.InitDefaultHelpFlag() // so that the help has it
			return of.Help()
		},
	}
}

// find returns the command or topic that names lead to from root, or nil and the name that is unknown.
func find(root *cobra.Command, names []string) (of *cobra.Command, unknown string) {
	of = root
	for _, name := range names {
		i := slices.IndexFunc(of.Commands(), func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
		if i < 0 {
			return nil, name
		}
		of = of.Commands()[i]
	}
	return of, ""
}
