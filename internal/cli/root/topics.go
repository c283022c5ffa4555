package root

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// newTopics returns the topics of holdfast help that are no commands. Without texts, some have their names alone.
func newTopics(g *conn.Flags, texts bool) []*cobra.Command {
	topics := []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean"},
		{Use: "environment", Short: "Environment variables that holdfast reads and sets"},
		{Use: "guarantees", Short: "What holdfast promises, and what it cannot promise", Long: guaranteesTopic},
		{Use: "durations", Short: "How to write a duration", Long: durationsTopic},
	}
	if texts {
		topics[0].Long, topics[1].Long = exitCodesTopic(), conn.EnvironmentTopic(g.FlagSet)
	}
	return topics
}

func exitCodesTopic() string {
	return `The exit codes of run and elect answer one question: did my command run?

` + strings.Replace(term.RunExitCodes(), "Exit codes:", "run:", 1) + `

elect has the same codes, but not the flags --once-per and --once-key. elect --observe runs no command. It ends with 125, or with 128+N by signal N. elect --observe --once ends with 0 if there is a
leader, and with 1 if there is none.

shard does not pass on the codes of its commands. INT and TERM end it with 0, and another signal N with
128+N. Its other codes are 75 (--try), 125, 126 and 127: see holdfast shard --help.

The other commands:
` + term.OtherExitCodes() + `

holdfast COMMAND --help lists the codes that the command uses. 75, 77 and 78 are those of sysexits.h, and
79 is the first code after them. timeout(1) and env(1) use 125 to 127 in the same way.`
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

The claims and their assumptions are in docs/explanation/guarantees.md, the test of each in docs/contributing/evidence.md.`

const durationsTopic = `A duration is a number of seconds, or numbers with units:

  90      90 seconds
  0.5     half a second
  250ms   units are ns, us, ms, s, m and h
  1h30m   units in a row are added
  1d      a day is 24 hours
  1d12h   days come first

Configuration files and environment variables take the same values, and tables and messages write them in
the same way. JSON output has durations as integers, in fields whose names end with _ms for milliseconds and
_us for microseconds.

The address of a server is a URL for programs, too: its times, such as ?timeout=10s, need a unit and have no
days.`

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
