package conn

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
)

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
	{"HOLDFAST_COMPLETION_DESCRIPTIONS", "if it is 0, completion shows names alone"},
}

// givenVariables are in the environment of the command of run and elect.
var givenVariables = []variable{
	{"HOLDFAST_LOCK", "the lock's name"},
	{"HOLDFAST_TOKEN", "the fencing token of LOCK, a number that grows from holder to holder"},
	{"HOLDFAST_TOKENS", "the tokens of all locks, with those of --also, in the order of the command line"},
	{"HOLDFAST_SESSION", "the session that holds the lock, such as 0x10000a3c0010002"},
	{"HOLDFAST_OWNER", "the name of the holder, see --who"},
	{"HOLDFAST_SERVER", "the server of the lock, which a holdfast inside the command uses, too"},
	{"HOLDFAST_SLOT", "with run --slot: the number of the slot, the lowest with --permits"},
	{"HOLDFAST_SLOTS", "with run --slot: the numbers of all its slots, such as 0 3"},
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

// EnvironmentTopic returns the text of holdfast help environment. clients are the flags of the client commands.
func EnvironmentTopic(clients *pflag.FlagSet) string {
	var flags []variable
	clients.VisitAll(func(f *pflag.Flag) {
		flags = append(flags, variable{EnvName(f.Name), "--" + f.Name})
	})
	list := func(variables []variable) string {
		var b strings.Builder
		for _, v := range variables {
			fmt.Fprintf(&b, "  %-24s  %s\n", v.name, v.meaning)
		}
		return b.String()
	}
	return `These variables set the flags of all commands that use locks. The command line wins. A variable that is
empty counts as not set. holdfast serve does not read them. A command that uses locks warns of each variable
whose name begins with HOLDFAST_ and is not on this page.

` + list(flags) + `
holdfast also reads:

` + list(readVariables) + `
run, elect and shard add these to the environment of their command:

` + list(givenVariables) + `
watch --exec adds these, one command for each event:

` + strings.TrimSuffix(list(eventVariables), "\n")
}

// maxUnknown is how many unknown variables are named.
const maxUnknown = 5

// warnUnknown names the variables of the environment that look like those of holdfast and are none. A misspelt
// HOLDFAST_SERVER would give each machine locks of its own. The values may be secrets, and are not printed.
func warnUnknown(clients *pflag.FlagSet, log *term.LogFlags, cmd *cobra.Command) {
	unknown := unknownVariables(clients, os.Environ())
	for _, name := range unknown[:min(len(unknown), maxUnknown)] {
		hint := "holdfast help environment lists the variables"
		if near := nearestVariable(clients, name); near != "" {
			hint = "did you mean " + near + "?"
		}
		log.Warn(cmd, "the environment variable %s has no effect: %s", term.Escape(term.Cut(name, 60)), hint)
	}
	if more := len(unknown) - maxUnknown; more > 0 {
		log.Warn(cmd, "%d more variables that begin with %s have no effect", more, ownVariables)
	}
}

// ownVariables begins the names of the variables of holdfast.
const ownVariables = "HOLDFAST_"

// unknownVariables returns the names in the environment that begin as holdfast's do and that it neither reads nor sets.
// An empty variable counts as not set.
func unknownVariables(clients *pflag.FlagSet, environment []string) (unknown []string) {
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, ownVariables) && value != "" && !slices.Contains(knownVariables(clients), name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// knownVariables returns the names of the variables that holdfast reads or sets.
func knownVariables(clients *pflag.FlagSet) (known []string) {
	clients.VisitAll(func(f *pflag.Flag) { known = append(known, EnvName(f.Name)) })
	for _, v := range slices.Concat(readVariables, givenVariables, eventVariables) {
		known = append(known, v.name)
	}
	return known
}

// nearestVariable returns the known variable that the name is a misspelling of, or the one whose name ends with these
// words, as in HOLDFAST_TIMEOUT. It returns "" if there is none.
func nearestVariable(clients *pflag.FlagSet, name string) string {
	known := slices.DeleteFunc(knownVariables(clients), func(name string) bool { return !strings.HasPrefix(name, ownVariables) })
	if near := term.NearestWord(known, term.Cut(name, 60)); near != "" {
		return near
	}
	for _, k := range known {
		if strings.HasSuffix(k, strings.TrimPrefix(name, strings.TrimSuffix(ownVariables, "_"))) {
			return k
		}
	}
	return ""
}

// EnvName returns the environment variable that sets a flag. The command line wins.
func EnvName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
