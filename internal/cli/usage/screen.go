package usage

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// A screen is the help of a command for -h.
type screen struct {
	examples []string
	flags    []option
	codes    []string // the exit codes, in three lines at most
	rest     string   // what --help has besides
}

// option is a flag with its shorthand and its value, and what it does in a few words.
type option struct{ flag, text string }

var (
	onServer = option{"    --server URL", "server, such as zk://h1:2181,h2:2181 (default: this machine)"}
	doNot    = option{"-n, --try", "do not wait: exit 75 if the lock is held"}
	atMost   = option{"-w, --wait TIME", "wait at most this long, then exit 75"}
	because  = option{"    --why TEXT", "reason for holding the lock, shown to waiters"}
	expiry   = option{"    --session-timeout TIME", "how long a lock outlives its machine (default 40s; 1m on file://)"}
	looking  = []string{"0: the server has answered; 69: no server answered; 77: no permission", "2: wrong command line; 78: wrong configuration"}
	running  = []string{
		"the command's own; 75: the lock was busy; 79: the lock was lost; 124: stopped after --max-hold",
		"125: holdfast failed; 126: the command cannot be executed; 127: the command was not found",
		"128+N: signal N ended the command or the wait",
	}
)

// screens are the commands with a short help.
var screens = map[string]screen{
	"run": {
		examples: []string{
			"holdfast run nightly -- ./backup.sh",
			`holdfast run --wait 30s --why "schema 42" db/migrate -- ./migrate --all`,
			"holdfast run -q -n --once-per 59m hourly -- ./job    # in the crontab of several hosts",
			"holdfast run --of 3 crawler -- ./crawl               # three at a time",
			"holdfast run -s catalogue -- ./export                # together with other readers",
			"holdfast run --shell report './collect | ./send'     # by sh -c",
		},
		flags: []option{
			doNot, atMost,
			{"-q, --quiet", "print errors only"},
			{"-s, --shared", "acquire the lock as a reader, together with other readers"},
			{"    --of N", "let N run at a time; all users give the same N"},
			{"    --once-per TIME", "run the job at most once in this time, on any host"},
			{"    --max-hold TIME", "stop the command when it has run for this long"},
			because, expiry, onServer,
		},
		codes: running,
		rest:  "all flags, signals, the loss of the lock, the command's environment",
	},
	"lock": {
		examples: []string{
			"holdfast lock db/migrate                              # ctrl-C releases it",
			`holdfast lock --try --why "by hand" db/migrate`,
			"holdfast lock --wait 30s db/migrate",
			"claim=$(holdfast lock --detached --expires 2h deploy) || exit",
			`eval "$claim"                                         # sets id, token and expires`,
			`holdfast unlock --id "$id" deploy`,
		},
		flags: []option{
			doNot, atMost,
			{"    --detached", "print the lock's id and exit; the lock stays held until holdfast unlock"},
			{"    --expires TIME", "with --detached: the lock ends after this time"},
			{"    --stdin", "release the lock when standard input ends"},
			{"-s, --shared", "acquire the lock as a reader, together with other readers"},
			{"    --of N", "let N hold it at a time; all users give the same N"},
			because, expiry, onServer,
		},
		codes: []string{
			"0: released by TERM, or held with --detached; 75: the lock was busy; 79: the lock was lost",
			"2: wrong command line; 69: no server answered; 77: no permission; 78: wrong configuration",
			"125: holdfast failed; 128+N: signal N ended the wait or released the lock",
		},
		rest: "all flags, when a detached lock ends, metrics",
	},
	"elect": {
		examples: []string{
			"holdfast elect scheduler -- ./scheduler",
			"holdfast elect --value 10.0.0.5:8080 scheduler -- ./scheduler",
			"holdfast elect --try scheduler -- ./scheduler         # exit 75 if somebody else leads",
			"holdfast elect --prefer 1 scheduler -- ./scheduler    # lead when this machine is there",
			"holdfast elect --http 4040 scheduler -- ./scheduler   # GET /leader is 200 or 503",
			"holdfast elect --observe scheduler                    # print the leader and each change",
		},
		flags: []option{
			{"-n, --try", "do not wait: exit 75 if another candidate is ahead"},
			{"-w, --wait TIME", "wait at most this long to lead, then exit 75"},
			{"    --value TEXT", "value that others read from the leader, such as its address"},
			{"    --prefer N", "lead before candidates with a smaller number (default 0)"},
			{"    --observe", "print the leader and each change; do not run for leader"},
			{"    --once", "with --observe: print the leader and exit, with 1 if nobody leads"},
			{"    --http ADDRESS", "answer HTTP requests about the election on this port"},
			{"    --kill-after TIME", "send KILL this long after the command was asked to stop"},
			expiry, onServer,
		},
		codes: running,
		rest:  "all flags, what --observe prints, the answers of --http, metrics",
	},
	"shard": {
		examples: []string{
			"holdfast shard --count 16 orders -- ./consume          # the same on each machine",
			`holdfast shard --count 4 mail -- sh -c './send --part "$HOLDFAST_SHARD"'`,
			"holdfast shard --count 16 --kill-after 1m orders -- ./consume",
			"holdfast shard --count 16 --metrics 9101 orders -- ./consume",
			"holdfast ls orders/shards/                             # who has which shard",
			"holdfast shard --try --count 16 orders -- ./consume    # exit 75 if no shard is left",
		},
		flags: []option{
			{"    --count N", "number of shards; all processes give the same number"},
			{"-n, --try", "do not wait: exit 75 if the other processes have all shards"},
			{"    --kill-after TIME", "time from TERM to KILL when a shard moves (default 10s)"},
			{"-E, --busy-exit-code CODE", "exit code if --try finds no shard (default 75)"},
			{"    --metrics ADDRESS", "answer Prometheus on this port"},
			{"    --who NAME", "name of the holder, shown in ls and status (default user@host:pid)"},
			because, expiry,
			{"-v, --verbose", "also report the server, the session and each shard"},
			onServer,
		},
		codes: []string{
			"0: TERM ended shard; 75: the other processes have all shards (--try)",
			"125: holdfast failed; 126: the command cannot be executed; 127: the command was not found",
			"128+N: signal N ended shard",
		},
		rest: "all flags, when shards move, when commands run again, their environment",
	},
	"ls": {
		examples: []string{
			"holdfast ls",
			"holdfast ls db/                                     # names that begin with db/",
			"holdfast ls --held --older-than 1h --sort hold      # what is stuck",
			"holdfast ls --owner 'ci@*' -o name                  # what this user holds or waits for",
			"holdfast ls --waiting --sort wait --watch",
			"holdfast ls -o json db/",
		},
		flags: []option{
			{"    --held", "list only locks that somebody holds or keeps"},
			{"    --waiting", "list only locks that somebody waits for"},
			{"    --older-than TIME", "list only locks that have been held for longer"},
			{"    --owner PATTERN", "list only locks that such an owner holds or waits for"},
			{"    --sort ORDER", "name, hold or wait (default name)"},
			{"    --watch", "print the locks again after each change"},
			{"-o, --output FORMAT", "table, wide, json, jsonl or name (default table)"},
			{"    --no-headers", "print no headings"},
			{"    --namespace PATH", "path above all lock names (default /holdfast/locks)"},
			onServer,
		},
		codes: looking,
		rest:  "all flags, the states of locks, what the times mean",
	},
	"status": {
		examples: []string{
			"holdfast status nightly",
			"holdfast status -q nightly && echo held",
			"holdfast status -o wide nightly                     # with modes, nodes and labels",
			"holdfast status -o json nightly",
			"holdfast status --server zk://h1:2181 nightly",
			"holdfast status --layout kazoo /app/locks/nightly   # a lock of another library",
		},
		flags: []option{
			{"-q, --quiet", "print nothing: exit 0 if held, 1 if free"},
			{"-o, --output FORMAT", "table, wide, json, jsonl or name (default table)"},
			{"    --no-headers", "print the places alone"},
			{"    --color WHEN", "auto, always or never (default auto)"},
			{"    --layout NAME", "show the lock of this layout (default: all layouts)"},
			{"    --namespace PATH", "path above all lock names (default /holdfast/locks)"},
			{"    --profile NAME", "use the settings of this profile: see holdfast help config"},
			{"    --auth USER", "log in as a user: digest:USER or sasl-digest:USER"},
			{"-v, --verbose", "also report the server and the session"},
			onServer,
		},
		codes: append([]string{"with -q, 0: the lock is held, kept or reserved; 1: the lock is free"}, looking...),
		rest:  "all flags, the states of a lock, what the times mean",
	},
	"serve": {
		examples: []string{
			"holdfast serve --data-dir /var/lib/holdfast/data --listen 127.0.0.1:2181",
			"holdfast serve --listen-tls :2281 --tls-cert server.pem --tls-key server.key \\",
			"               --tls-client-ca clients.pem",
			"holdfast serve --listen 127.0.0.1:2181 --admin 127.0.0.1:9090    # metrics and health",
			"holdfast serve --unix /run/holdfast/socket --unix-group deploy",
			"holdfast serve --config /etc/holdfast/serve.yaml",
		},
		flags: []option{
			{"    --data-dir DIR", "directory of the store (default: that of this user's locks)"},
			{"    --listen ADDRESS", "TCP address without encryption; repeatable"},
			{"    --listen-tls ADDRESS", "TCP address for TLS (zks://); repeatable"},
			{"    --tls-cert FILE", "certificate (PEM) for --listen-tls"},
			{"    --tls-key FILE", "private key (PEM) of --tls-cert"},
			{"    --tls-client-ca FILE", "CA certificates (PEM) to verify clients"},
			{"    --auth-users FILE", "users for SASL DIGEST-MD5, one line user:password each"},
			{"    --unix PATH", "another Unix socket; repeatable"},
			{"    --admin ADDRESS", "HTTP with /metrics, /healthz and /readyz"},
			{"    --config FILE", "YAML file with these flags as keys"},
		},
		codes: []string{
			"0: INT or TERM stopped the server; 69: it could not start, or failed; 77: no permission",
			"2: wrong command line; 78: wrong configuration, or an unfit file system",
		},
		rest: "all flags, limits, signals",
	},
}

func (s screen) print(w io.Writer, cmd *cobra.Command) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\nUsage: %s\n\nExamples:\n", cmd.Short, line(cmd))
	for _, text := range s.examples {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	b.WriteString("\nFlags:\n")
	for _, o := range s.flags {
		fmt.Fprintf(&b, "  %-26s %s\n", o.flag, o.text)
	}
	b.WriteString("\nExit codes:\n")
	for _, text := range s.codes {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	fmt.Fprintf(&b, "\n%s --help: %s\n", cmd.CommandPath(), s.rest)
	b.WriteString("holdfast help TOPIC: " + names(topics(cmd.Root())) + "\n")
	_, _ = io.WriteString(w, b.String()) // a failure cannot be reported anywhere
}
