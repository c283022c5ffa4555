package term

import (
	"fmt"
	"strings"
)

// exitCodes is the table of all exit codes. The help of run, the topic exit-codes and docs/reference/cli.md
// are made from it.
var exitCodes = []struct {
	code   string
	run    string // the meaning for run, which has to leave codes to the command
	others string // the meaning for all commands but run, elect and shard
}{
	{"0", "", "done; or the answer is yes"},
	{"1", "", "the answer is no, such as status -q of a free lock; or a problem was found (doctor, check,\n         backup, bench)"},
	{"2", "", "wrong command line"},
	{"35", "deadlock: the wait was the victim of one, and gave up (--on-deadlock fail); the command did not run", "the wait was the victim of a deadlock, and gave up (lock --on-deadlock fail)"},
	{"69", "", "no server answered, or the server failed"},
	{
		"75", "busy: the lock was held (--try), the wait timed out (--wait), the job is already done\n       (--once-per, --once-key), a newer run has the place of this one (--supersede), or too many wait\n       (--queue-max); the command did not run. -E and --superseded-exit-code choose other codes",
		"busy: the lock was held (--try), the wait timed out (--wait), standard input ended during the wait\n         (lock --stdin), a newer waiter has the place (--supersede), too many wait (--queue-max), or somebody else holds the lock (unlock, break, revoke)",
	},
	{"77", "", "no permission"},
	{"78", "", "wrong configuration"},
	{"79", "the lock was lost while the command ran, whatever the command's own code; or a job\n       (--once-per, --once-key) succeeded, but it is not certain that this is recorded.\n       --lost-exit-code chooses another code", "the lock was lost"},
	{"124", "the command was stopped after --max-hold, whatever its own code", ""},
	{"125", "holdfast failed, no server answered (--try, --wait), or the command line or the configuration is wrong;\n       the command did not run", "the address space is too small (ulimit -v). lock: the holdfast run around this command holds the lock"},
	{"126", "the command cannot be executed", ""},
	{"127", "the command was not found", ""},
	{"128+N", "signal N arrived during the wait; the command did not run. After INT (ctrl-C) or QUIT, holdfast ends by\n         that signal: a shell shows 130 or 131", "signal N ended the command. TERM ends lock with 0 once it holds the lock, and ls --watch and\n         watch with 0. INT and TERM end top, bench and serve with 0, and any signal ends mcp with 0"},
}

// RunExitCodes returns the list of exit codes in the help of run.
func RunExitCodes() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n  the command's own, or 128+N if signal N killed it\n")
	for _, e := range exitCodes {
		if e.run != "" {
			fmt.Fprintf(&b, "  %-3s  %s\n", e.code, e.run)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// OtherExitCodes returns the list of exit codes of the other commands.
func OtherExitCodes() string {
	var b strings.Builder
	for _, e := range exitCodes {
		if e.others != "" {
			fmt.Fprintf(&b, "  %-5s  %s\n", e.code, e.others)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
