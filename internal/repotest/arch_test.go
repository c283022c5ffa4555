package repotest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The arrows of the design: which package may import which. They point down only.
//
//	shards → holdfast, internal/balance, internal/queue, internal/queue/names, zk     internal/cli → shards
//	holdfast, once, shards, reserve → internal/lend     internal/lend → internal/queue, zk
//	holdfast, internal/cli, internal/lockwatch, internal/locks → internal/budget
//	internal/cli/root → internal/cli/conn → internal/cli/host, internal/cli/term
//	cmd/holdfast → internal/cli/root
//	internal/cli/root → internal/cli/bench → internal/cli/conn, holdfast
//	internal/cli/root → internal/cli/ls, internal/cli/status, internal/cli/history → internal/cli/see     internal/cli/watch → internal/lockwatch
//	internal/cli/root → internal/cli/graph → internal/cli/deadlock, internal/waitgraph     internal/cli/root → internal/cli/sessions → internal/cli/act, internal/deed
//	internal/cli/root → internal/cli/serve → internal/cli/certs, internal/cli/host, internal/daemon, zklocal, zkserver
//	internal/cli/root → internal/cli/doctor → internal/cli/conn, internal/cli/job, internal/cli/see
//	internal/cli → ui, holdfast, zklocal, zkserver, zk, internal/watchdog, internal/supervise, internal/daemon
//	ui → holdfast, zk, internal/deed, internal/lockwatch, internal/locks, internal/waitgraph
//	holdfast → internal/tenure     internal/tenure → internal/queue, internal/queue/names, zk
//	holdfast → internal/queue, internal/queue/names, zk     internal/queue → internal/queue/names, zk
//	internal/watchdog → internal/supervise     internal/daemon → zkserver
//	internal/cli → internal/locks, internal/waitgraph     internal/locks → holdfast, reserve, internal/lend, internal/waitgraph, internal/queue, internal/queue/names, zk
//	internal/cli, internal/supervise, ui → internal/duration
//	deadlock, internal/cli/deadlock → internal/cyclewatch → internal/locks, internal/waitgraph, zk
//	deadlock → holdfast, internal/lend, internal/locks, internal/queue, internal/waitgraph
//	internal/cli → internal/deed     internal/deed → holdfast, zk, internal/locks, internal/queue, internal/queue/names
//	internal/cli → internal/lockwatch     internal/lockwatch → holdfast, internal/queue, internal/queue/names, zk
//	reserve → holdfast, internal/lend, internal/queue, zk     internal/cli, internal/deed → reserve
//	layout → holdfast     internal/cli, ui → layout
//	fence → holdfast
//	internal/cli → once     once → holdfast, internal/queue, internal/queue/names, zk
//	internal/cli/root, cmd/holdfast-mcp → internal/cli/program → internal/cli/complete, internal/cli/conn, internal/cli/man → internal/cli/version → internal/cli/term
//	cmd/holdfast-ui → internal/cli/dashboard → ui, zk, internal/daemon, internal/htpasswd, internal/cli/certs, internal/cli/passwd, internal/cli/program
//	cmd/holdfast-mcp → internal/cli/mcp → internal/cli/outer, holdfast, internal/waitgraph
//	internal/cli/hold, internal/cli/mcp → internal/cli/show, internal/cli/who     internal/cli/show → internal/locks, reserve     internal/cli/who → internal/cli/conn
//	cmd/holdfast-top → internal/cli/top → internal/cli/act, internal/cli/kind, internal/cli/program, internal/cli/see
//	internal/cli/ls, internal/cli/complete → internal/cli/see → internal/cli/show, internal/locks, once, reserve     internal/cli/kind → internal/locks, layout
//	internal/cli/root → internal/cli/hold/elect, internal/cli/hold/shard → internal/cli/hold → internal/cli/act, internal/cli/job, internal/cli/outer, internal/cli/see, internal/watchdog
//	cmd/holdfast-tf → internal/cli/tf → terraform, internal/cli/act, internal/cli/certs, internal/cli/job, internal/cli/passwd     terraform → holdfast, zk
//	ui, terraform, internal/cli/passwd, internal/cli/tf → internal/htpasswd → internal/guess     zkserver → internal/guess
//	ui, terraform, internal/daemon → internal/fair
//	chaos → holdfast
//	zk, zkserver, internal/locks, internal/cli/hold → internal/proc
//	zktest → zkserver, zk     zklocal → zkserver, zk       zk → zkproto          zkserver → zkproto
//
// A package below a listed one counts as part of it. Tests are exempt: a test of the client
// needs a server.
var arrows = map[string]part{
	"": {
		mayImport: []string{"internal/budget", "internal/lend", "internal/queue", "internal/queue/names", "internal/tenure", "zk"},
		external:  []string{"golang.org/x/sync", "golang.org/x/sys"},
		reason:    "who imports the lock gets the client and the standard library: no server, no store, no metrics library, no command line",
	},
	"shards": {
		mayImport: []string{"", "internal/balance", "internal/lend", "internal/queue", "internal/queue/names", "zk"},
		reason:    "shards are locks of package holdfast and a plan of who has which: what they need besides its exported functions, it lends",
	},
	"internal/queue": {
		mayImport: []string{"internal/queue/names", "zk"},
		reason:    "a place in a queue knows the client and the names: Holds, options and re-entry are above it",
	},
	"internal/lend": {
		mayImport: []string{"internal/queue", "zk"},
		reason:    "what holdfast lends are functions that it sets itself: this package must not import it",
	},
	"internal/tenure": {
		mayImport: []string{"internal/queue", "internal/queue/names", "zk"},
		reason:    "what several Holds share knows no Hold, no option and no kind of lock",
	},
	"internal/locks": {
		mayImport: []string{"", "internal/budget", "internal/lend", "internal/proc", "internal/queue", "internal/queue/names", "internal/waitgraph", "reserve", "zk"},
		reason:    "the answer to who holds what reads the queues of many locks as they are on the server: it acquires none",
	},
	"internal/waitgraph": {
		reason: "who waits for whom follows from the queues: this package knows no client and no names",
	},
	"internal/cyclewatch": {
		mayImport: []string{"internal/budget", "internal/locks", "internal/waitgraph", "zk"},
		reason:    "whether a wait is in a cycle follows from the queues as they are on the server: this package ends no wait, and says nothing in words",
	},
	"deadlock": {
		mayImport: []string{"", "internal/cyclewatch", "internal/lend", "internal/locks", "internal/queue", "internal/waitgraph"},
		reason:    "package holdfast must not read the locks of others, so what ends a deadlock is a package above it: it brings no command and no server",
	},
	"internal/lockwatch": {
		mayImport: []string{"", "internal/budget", "internal/queue", "internal/queue/names", "zk"},
		external:  []string{"golang.org/x/sync"},
		reason:    "what happens to locks follows from the nodes of their queues: this package takes no lock and prints nothing",
	},
	"internal/txlog": {
		mayImport: []string{"internal/budget", "internal/locks", "zk", "zkproto", "zkserver"},
		reason:    "what the logs of servers tell follows from their files: this package asks no server and prints nothing",
	},
	"internal/balance": {
		reason: "who should own a shard follows from the workers and the present owners: this package knows no client and no lock",
	},
	"internal/duration": {
		reason: "how a duration is written depends on nothing but its length",
	},
	"internal/budget": {
		reason: "how much is kept of what a server answers is a number: this package knows no client and no lock",
	},
	"internal/repotest/runtests": {
		reason: "it runs go test, and nothing of the product: it must work while the product does not",
	},
	"internal/queue/names": {
		reason: "whom a contender waits for follows from names alone: this package knows no client and no lock",
	},
	"internal/proc": {
		external: []string{"golang.org/x/sys"},
		reason:   "which process is dead is asked of the kernel: this package knows no session",
	},
	"zk": {
		mayImport: []string{"internal/proc", "zkproto"},
		external:  []string{"golang.org/x/sync", "golang.org/x/sys"},
		reason:    "the client stands on the messages and the standard library alone, and is of use without everything above it",
	},
	"zkproto": {
		reason: "the messages are the bottom, where client and server meet: they need nothing but the standard library",
	},
	"zkserver": {
		mayImport: []string{"internal/guess", "internal/proc", "zkproto", "zkserver/internal/login", "zkserver/internal/sched"},
		external:  []string{"*"},
		reason:    "the server knows the messages, its own internal packages and the delays of guessers: it must not need a client, nor know what the nodes are used for",
	},
	"zkserver/internal/login": {
		// zkserver for internal/tree's identities.
		mayImport: []string{"zkproto", "zkserver"},
		reason:    "a login is decided by names, hashes and bounds: it knows no connection, no request and no store",
	},
	"zkserver/internal/sched": {
		reason: "whose turn it is follows from sizes and order: it knows no clock, no connection and no request",
	},
	"zklocal": {
		mayImport: []string{"zkserver", "zk"},
		external:  []string{"golang.org/x/sys"},
		reason:    "zklocal brings a server and the client's configuration together: locks and commands are above it",
	},
	"reserve": {
		mayImport: []string{"", "internal/lend", "internal/queue", "zk"},
		reason:    "a reservation is for a Hold and kept in a node of its own: what it needs of holdfast is exported or lent, and it brings no server and no command",
	},
	"layout": {
		mayImport: []string{""},
		reason:    "the layouts of other libraries are values of holdfast's type: this package knows no client and no lock",
	},
	"once": {
		mayImport: []string{"", "internal/lend", "internal/queue", "internal/queue/names", "zk"},
		reason:    "a job that is done once is built on the locks that programs use: it needs a place's time and path, and never a tenure",
	},
	"fence": {
		mayImport: []string{""},
		reason:    "a fence needs a Hold's token and what guards the resource; programs without a database must not get one with the lock, so it is a package of its own",
	},
	"terraform": {
		mayImport: []string{"", "internal/fair", "internal/htpasswd", "zk"},
		reason:    "the backend for Terraform is a user of locks and nodes, on whatever server: programs serve it themselves, so it brings no server, no flags and no command",
	},
	"examples": {
		mayImport: []string{"", "fence", "once", "zk"},
		reason:    "an example is a program of a user: it has the exported packages alone",
	},
	"chaos": {
		mayImport: []string{""},
		external:  []string{"github.com/anishathalye/porcupine"},
		reason:    "chaos records Holds and checks histories, whatever they were taken from: the servers that are made to fail belong to its tests and to interop",
	},
	"zktest": {
		// zkproto too, because faults are named by operation codes.
		mayImport: []string{"zkserver", "zk", "zkproto"},
		reason:    "zktest is imported by tests of all sorts, so it brings the server, the client and nothing else",
	},
	"internal/deed": {
		mayImport: []string{"", "reserve", "zk", "internal/locks", "internal/queue", "internal/queue/names"},
		reason:    "a deed to a lock of others is one for the commands and for the page: this package asks nobody, prints nothing and knows no request",
	},
	"ui": {
		// The packages below internal/ follow the locks and find the waits, for the commands, too.
		mayImport: []string{"", "layout", "zk", "internal/deed", "internal/duration", "internal/fair", "internal/htpasswd", "internal/lockwatch", "internal/locks", "internal/waitgraph"},
		reason:    "the dashboard shows what the lock and the client tell, whatever server they talk to",
	},
	"internal/htpasswd": {
		mayImport: []string{"internal/guess"},
		external:  []string{"golang.org/x/crypto"},
		reason:    "who may log in follows from a file and a password: this package knows no page and no state",
	},
	"internal/guess": {
		reason: "how long a guesser waits follows from names, addresses and a clock: this package knows no password and no connection",
	},
	"internal/fair": {
		reason: "who gives way follows from who has how much: this package knows neither connections nor users",
	},
	"internal/supervise": {
		mayImport: []string{"internal/duration"},
		external:  []string{"golang.org/x/sys"},
		reason:    "supervising a job takes a deadline and a channel: it knows neither locks nor servers",
	},
	"internal/watchdog": {
		mayImport: []string{"internal/supervise"},
		external:  []string{"golang.org/x/sys"},
		reason:    "a watchdog process begins its work when this package is initialised: whatever it imports, each run of a command initialises twice",
	},
	"internal/daemon": {
		mayImport: []string{"internal/fair", "zkserver"},
		external:  []string{"github.com/coreos/go-systemd/v22/daemon", "golang.org/x/sys"},
		reason:    "a daemon reports on a server: it knows no flags, no locks and no clients",
	},
	"internal/cli/term": {
		mayImport: []string{"", "internal/budget", "internal/duration", "internal/supervise", "zk"},
		external:  []string{"github.com/spf13", "golang.org/x/sys"},
		reason:    "tables, messages and exit codes are for every command: this package knows no server, and no command",
	},
	"internal/cli/host": {
		mayImport: []string{"internal/supervise", "internal/watchdog"},
		external:  []string{"golang.org/x/sys"},
		reason:    "to start a host is to start a process: this package knows no flags, no locks and no clients",
	},
	"internal/cli/conn": {
		mayImport: []string{"", "internal/cli/host", "internal/cli/term", "internal/duration", "internal/supervise", "internal/watchdog", "zk", "zklocal"},
		external:  []string{"github.com/spf13", "go.yaml.in/yaml/v3", "golang.org/x/sys"},
		reason:    "every program that needs a server links this package: it must bring no command, and no library of one",
	},
	"internal/cli/version": {
		mayImport: []string{"internal/cli/term"},
		reason:    "every program has a version: this package knows no command",
	},
	"internal/cli/man": {
		mayImport: []string{"internal/cli/term", "internal/cli/usage", "internal/cli/version"},
		external:  []string{"github.com/spf13"},
		reason:    "a manual page is made of the help of a command, whichever it is",
	},
	"internal/cli/deadlock": {
		mayImport: []string{"internal/cli/conn", "internal/cli/term", "internal/cyclewatch", "internal/locks", "internal/waitgraph", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a client that waits is told of a cycle by whatever command it runs in: this package knows none, and acquires no lock",
	},
	"internal/cli/usage": {
		external: []string{"github.com/spf13"},
		reason:   "a help is printed from tables and from the flags of a command: this package knows no command",
	},
	"internal/cli/program": {
		mayImport: []string{"internal/cli/complete", "internal/cli/conn", "internal/cli/man", "internal/cli/term", "internal/cli/usage", "internal/duration", "internal/supervise"},
		external:  []string{"github.com/spf13"},
		reason:    "what the programs have in common knows none of them",
	},
	"internal/cli/outer": {
		reason: "what the holdfast run around a process holds is in the environment: this package knows no server and no lock",
	},
	"internal/cli/who": {
		mayImport: []string{"internal/cli/conn", "internal/cli/term"},
		external:  []string{"github.com/spf13"},
		reason:    "the name of a holder is two flags: this package knows no lock",
	},
	"internal/cli/show": {
		mayImport: []string{"", "internal/cli/term", "internal/locks", "reserve"},
		reason:    "words and documents about a lock are made of what was read: this package reads nothing",
	},
	"internal/cli/kind": {
		mayImport: []string{"", "internal/locks", "layout"},
		external:  []string{"github.com/spf13"},
		reason:    "the kind of a lock is what flags say: this package reads no lock and acquires none",
	},
	"internal/cli/see": {
		mayImport: []string{"", "internal/cli/conn", "internal/cli/show", "internal/cli/term", "internal/locks", "internal/waitgraph", "layout", "once", "reserve", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a list of locks is internal/locks and columns: this package acquires no lock, and knows no command",
	},
	"internal/cli/complete": {
		mayImport: []string{"internal/cli/conn", "internal/cli/kind", "internal/cli/see", "internal/cli/show", "internal/cli/term", "internal/locks", "zk", "zklocal"},
		external:  []string{"github.com/spf13"},
		reason:    "every program completes its flags and the names of locks: this package knows no command",
	},
	"internal/cli/top": {
		mayImport: []string{
			"", "internal/cli/act", "internal/cli/conn", "internal/cli/deadlock", "internal/cli/kind", "internal/cli/program", "internal/cli/see", "internal/cli/term",
			"internal/deed", "internal/duration", "internal/locks", "internal/waitgraph", "zk",
		},
		external: []string{"charm.land/bubbletea/v2", "github.com/charmbracelet/colorprofile", "github.com/charmbracelet/x/ansi", "github.com/spf13"},
		reason:   "the program of the screen is a reading, a model and the library of the terminal: it knows no other command",
	},
	"cmd/holdfast-top": {
		mayImport: []string{"internal/cli/program", "internal/cli/top"},
		reason:    "the program is its package and a main",
	},
	"internal/cli/mcp": {
		mayImport: []string{
			"", "internal/budget", "internal/cli/conn", "internal/cli/deadlock", "internal/cli/outer", "internal/cli/program", "internal/cli/show", "internal/cli/term", "internal/cli/version",
			"internal/cli/who", "internal/lend", "internal/locks", "internal/supervise", "internal/waitgraph", "layout", "reserve", "zk",
		},
		external: []string{"github.com/google/jsonschema-go", "github.com/modelcontextprotocol/go-sdk", "github.com/spf13"},
		reason:   "an agent's program needs locks and the library of its protocol: it knows no other command",
	},
	"internal/cli/dashboard": {
		mayImport: []string{"internal/cli/certs", "internal/cli/conn", "internal/cli/passwd", "internal/cli/program", "internal/cli/term", "internal/daemon", "internal/htpasswd", "ui", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "the program of the page is flags, a listener and package ui: it knows no other command",
	},
	"cmd/holdfast-ui": {
		mayImport: []string{"internal/cli/dashboard", "internal/cli/program"},
		reason:    "the program is its package and a main",
	},
	"internal/cli/doctor": {
		mayImport: []string{"internal/cli/conn", "internal/cli/host", "internal/cli/job", "internal/cli/see", "internal/cli/term", "internal/duration", "internal/locks", "internal/supervise", "internal/watchdog", "zk", "zklocal"},
		external:  []string{"github.com/spf13", "golang.org/x/sys"},
		reason:    "an examination reads, and acquires no lock: it knows no other command",
	},
	"internal/cli/serve": {
		mayImport: []string{"internal/cli/certs", "internal/cli/conn", "internal/cli/host", "internal/cli/term", "internal/cli/version", "internal/daemon", "internal/supervise", "internal/watchdog", "zklocal", "zkserver"},
		external:  []string{"github.com/spf13", "go.yaml.in/yaml/v3"},
		reason:    "the server knows no lock and no client: it knows no other command",
	},
	"internal/cli/graph": {
		mayImport: []string{"internal/cli/conn", "internal/cli/deadlock", "internal/cli/kind", "internal/cli/show", "internal/cli/term", "internal/locks", "internal/waitgraph", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a graph is read and printed: it knows no other command",
	},
	"internal/cli/history": {
		mayImport: []string{"internal/cli/conn", "internal/cli/kind", "internal/cli/see", "internal/cli/term", "internal/deed", "internal/duration", "internal/locks", "internal/txlog", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a past is read and printed: it knows no other command",
	},
	"internal/cli/ls": {
		mayImport: []string{"internal/cli/conn", "internal/cli/kind", "internal/cli/see", "internal/cli/term", "internal/lockwatch", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a list is read and printed, once or again: it knows no other command",
	},
	"internal/cli/sessions": {
		mayImport: []string{"internal/cli/act", "internal/cli/conn", "internal/cli/kind", "internal/cli/show", "internal/cli/term", "internal/deed", "internal/locks", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "sessions are places of locks: it knows no other command but the question before an act",
	},
	"internal/cli/status": {
		mayImport: []string{"", "internal/cli/conn", "internal/cli/deadlock", "internal/cli/kind", "internal/cli/see", "internal/cli/term", "internal/locks", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a lock is read and printed: it knows no other command",
	},
	"internal/cli/watch": {
		mayImport: []string{"internal/cli/conn", "internal/cli/job", "internal/cli/kind", "internal/cli/term", "internal/duration", "internal/locks", "internal/lockwatch"},
		external:  []string{"github.com/spf13", "golang.org/x/sync"},
		reason:    "events are those of internal/lockwatch: it prints them, and knows no other command",
	},
	"internal/cli/bench": {
		mayImport: []string{"", "internal/cli/conn", "internal/cli/term", "internal/duration", "internal/supervise", "zk"},
		external:  []string{"github.com/HdrHistogram/hdrhistogram-go", "github.com/spf13", "golang.org/x/sync"},
		reason:    "a benchmark acquires locks as programs do and checks them: it knows no other command",
	},
	"internal/cli/job": {
		mayImport: []string{"internal/cli/conn", "internal/cli/term", "internal/duration", "internal/supervise"},
		external:  []string{"github.com/spf13"},
		reason:    "the end of a job is flags and an exit code: this package knows no lock, so tf links no other command",
	},
	"internal/cli/act": {
		mayImport: []string{"", "internal/cli/conn", "internal/cli/kind", "internal/cli/see", "internal/cli/show", "internal/cli/term", "internal/deed", "internal/locks", "once", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a question and an audit line are the same whatever is done: this package knows no command but break and revoke",
	},
	"internal/cli/hold": {
		mayImport: []string{
			"", "internal/budget", "internal/cli/act", "internal/cli/conn", "internal/cli/deadlock", "internal/cli/job", "internal/cli/kind", "internal/cli/outer", "internal/cli/see", "internal/cli/show",
			"internal/cli/term", "internal/cli/who", "internal/daemon", "internal/deed", "internal/duration", "internal/lend", "internal/locks", "internal/proc", "internal/supervise",
			"internal/watchdog", "once", "reserve", "zk",
		},
		external: []string{"github.com/spf13"},
		reason:   "to hold a lock for a command is a wait and a run: this package knows no election, no shards and no command that only looks",
	},
	"internal/cli/hold/elect": {
		mayImport: []string{"", "internal/cli/conn", "internal/cli/hold", "internal/cli/job", "internal/cli/term", "internal/cli/who", "internal/daemon", "internal/supervise", "zk"},
		external:  []string{"github.com/spf13"},
		reason:    "a candidate is a run with another locker, and a page: it knows no other command",
	},
	"internal/cli/hold/shard": {
		mayImport: []string{
			"", "internal/cli/conn", "internal/cli/hold", "internal/cli/host", "internal/cli/job", "internal/cli/term", "internal/cli/who", "internal/duration", "internal/supervise",
			"internal/watchdog", "shards",
		},
		external: []string{"github.com/spf13"},
		reason:   "a shard is a lock with a command of its own: this package knows no other command",
	},
	"internal/cli/certs": {
		mayImport: []string{"internal/cli/conn", "internal/cli/term"},
		external:  []string{"github.com/spf13"},
		reason:    "certificates are files: this package knows no listener",
	},
	"internal/cli/passwd": {
		mayImport: []string{"internal/cli/term", "internal/htpasswd"},
		external:  []string{"github.com/charmbracelet/x/term", "github.com/spf13"},
		reason:    "a line for a file of users is made of a name and a password: this package knows no page and no backend",
	},
	"internal/cli/tf": {
		mayImport: []string{
			"", "internal/cli/act", "internal/cli/certs", "internal/cli/conn", "internal/cli/host", "internal/cli/job", "internal/cli/passwd", "internal/cli/program", "internal/cli/term",
			"internal/daemon", "internal/deed", "internal/duration", "internal/htpasswd", "internal/supervise", "internal/watchdog", "terraform", "zk",
		},
		external: []string{"github.com/spf13"},
		reason:   "the backend for Terraform is a client of any server: it knows no other command, and hosts no store",
	},
	"cmd/holdfast-tf": {
		mayImport: []string{"internal/cli/program", "internal/cli/tf"},
		reason:    "the program is its package and a main",
	},
	"cmd/holdfast-mcp": {
		mayImport: []string{"internal/cli/mcp", "internal/cli/program"},
		reason:    "the program is its package and a main",
	},
	"internal/cli/root": {
		mayImport: []string{
			"internal/cli/act", "internal/cli/bench", "internal/cli/complete", "internal/cli/conn", "internal/cli/doctor", "internal/cli/graph", "internal/cli/history",
			"internal/cli/hold", "internal/cli/hold/elect", "internal/cli/hold/shard", "internal/cli/ls", "internal/cli/man", "internal/cli/program", "internal/cli/serve",
			"internal/cli/sessions", "internal/cli/status", "internal/cli/term", "internal/cli/usage", "internal/cli/version", "internal/cli/watch",
		},
		external: []string{"github.com/spf13"},
		reason:   "the command is a list of its commands: what they do, they offer, and the programs beside it are no part of it",
	},
	"cmd/holdfast": {
		mayImport: []string{"internal/cli/program", "internal/cli/root"},
		reason:    "the program is its package and a main",
	},
}

// part is a package of the module, or several under one path.
type part struct {
	mayImport []string // parts, by their path in the module
	external  []string // modules; "*" is any
	reason    string
}

// never lists imports that no arrow can allow, with the reason. They are checked first because
// their reasons say more. A prefix stands for everything below it.
var never = []struct{ from, to, reason string }{
	{"zk", "holdfast/zkserver", "client and server never import each other: they meet in zkproto, so that neither is written to fit the other's mistakes"},
	{"zkserver", "holdfast/zk", "client and server never import each other: they meet in zkproto, so that neither is written to fit the other's mistakes"},
	{"zkserver/internal/sched", "time", "a turn is counted in work and batches, so that the same requests make the same batches on every machine"},
	{"zkserver/internal/login", "holdfast/zkserver/internal/store", "a login is decided by names, hashes and bounds, which nobody stores"},
	{"zk", "reflect", "messages are encoded by hand: reflection would cost every request time and memory"},
	{"zkproto", "reflect", "messages are encoded by hand: reflection would cost every request time and memory"},
	{"*", "holdfast/cmd", "nothing is above the command: code that others need belongs in a package"},
	{"*", "testing", "non-test code does not import testing: it would bring its flags and machinery into every program"},
	{"*", "net/http/httptest", "non-test code does not import httptest: it registers a flag in every program"},
	{"library", "flag", "a library does not parse flags: they belong to the program"},
	{"library", "github.com/spf13", "a library does not parse flags: they belong to the program"},
	{"library", "log", "a library does not write to the program's log: it takes a *slog.Logger and is silent without one"},
}

const module = "holdfast"

// imported is one import declaration of non-test code.
type imported struct {
	pkg  string // path of the importing package in the module, "" for the root
	file string
	path string
}

// violations returns a line for every import that breaks a rule.
func violations(all []imported) []string {
	var bad []string
	for _, i := range all {
		if reason := forbidden(i.pkg, i.path); reason != "" {
			bad = append(bad, fmt.Sprintf("%s imports %q: %s", i.file, i.path, reason))
		}
	}
	return bad
}

func forbidden(pkg, imp string) (reason string) {
	name, ok := partOf(pkg)
	if !ok {
		return fmt.Sprintf("package %q has no place in the design: give it one there and in the arrows of internal/repotest/arch_test.go", pkg)
	}
	library := !within(pkg, "cmd") && !within(pkg, "internal/cli") && !within(pkg, "examples")
	for _, n := range never {
		applies := n.from == "*" || n.from == "library" && library || n.from == name
		// "log" matches exactly, since a library uses log/slog.
		if applies && (imp == n.to || n.to != "log" && within(imp, n.to)) {
			return n.reason
		}
	}
	p := arrows[name]
	if imp != module && !within(imp, module) {
		if standard(imp) || slices.ContainsFunc(p.external, func(m string) bool { return m == "*" || within(imp, m) }) {
			return ""
		}
		return p.reason
	}
	target, ok := partOf(strings.TrimPrefix(strings.TrimPrefix(imp, module), "/"))
	if ok && (target == name || slices.Contains(p.mayImport, target)) {
		return ""
	}
	return p.reason
}

// partOf returns the part that a package belongs to. Only the root package belongs to "".
func partOf(pkg string) (string, bool) {
	for p := pkg; p != "."; p = path.Dir(p) {
		if _, ok := arrows[p]; ok {
			return p, true
		}
		if p == "" {
			break
		}
	}
	return "", false
}

// within reports whether path is prefix or below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// standard reports whether imp is in the standard library: the first element of every other module's
// path contains a dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

func TestImportsFollowTheDesign(t *testing.T) {
	var all []imported
	seen := map[string]bool{}
	for _, file := range sourceFiles(t) {
		// Imports are read from every file, whatever its build tags: an arrow that is broken
		// only on Windows is broken.
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), ".")
		seen[pkg] = true
		for _, spec := range parsed.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, imported{pkg: pkg, file: file, path: imp})
		}
	}
	if !seen["zkproto"] {
		t.Fatalf("the imports of %d packages were read, but zkproto is not among them: this test looks in the wrong place", len(seen))
	}
	for _, v := range violations(all) {
		t.Error(v)
	}
}

func TestABrokenArrowIsReportedWithItsReason(t *testing.T) {
	tests := []struct {
		pkg, path string
		want      string // part of the reason; "" means allowed
	}{
		{"", "holdfast/zk", ""},
		{"", "context", ""},
		{"", "golang.org/x/sync/errgroup", ""},
		{"", "holdfast/zkserver", "no server"},
		{"", "holdfast/zkproto", "no server"},
		{"", "github.com/prometheus/client_golang/prometheus", "no metrics library"},
		{"", "golang.org/x/synctest", "no server"},
		{"", "log", "*slog.Logger"},
		{"", "log/slog", ""},
		{"", "flag", "flags"},
		{"zk", "holdfast/zkproto", ""},
		{"zk", "holdfast/zkserver", "never import each other"},
		{"zk", "holdfast/zkserver/internal/tree", "never import each other"},
		{"zk", "holdfast", "without everything above it"},
		{"zk", "testing/synctest", "machinery"},
		{"zkserver", "holdfast/zk", "never import each other"},
		{"zkserver", "github.com/prometheus/client_golang/prometheus", ""},
		{"zkserver", "holdfast/zkserver/internal/store", ""},
		{"zkserver", "github.com/spf13/cobra", "flags"},
		{"zkserver/internal/tree", "holdfast/zk", "never import each other"},
		{"zkserver/internal/tree", "holdfast/zkproto", ""},
		{"zkserver", "holdfast/zkserver/internal/login", ""},
		{"zkserver/internal/login", "holdfast/zkserver/internal/tree", ""},
		{"zkserver", "holdfast/zkserver/internal/sched", ""},
		{"zkserver/internal/sched", "time", "every machine"},
		{"zkserver/internal/sched", "holdfast/zkserver/internal/tree", "no request"},
		{"zkserver/internal/login", "holdfast/zkserver/internal/store", "nobody stores"},
		{"zkserver/internal/login", "holdfast/zk", "no connection"},
		{"zkserver/internal/login", "golang.org/x/sys/unix", "no connection"},
		{"zkproto", "holdfast/zk", "the bottom"},
		{"zkproto", "golang.org/x/sys/unix", "the bottom"},
		{"zklocal", "holdfast/zkserver", ""},
		{"zklocal", "golang.org/x/sys/windows", ""},
		{"zklocal", "holdfast", "above it"},
		{"zktest", "testing", "machinery"},
		{"once", "holdfast", ""},
		{"once", "holdfast/internal/lend", ""},
		{"once", "holdfast/internal/tenure", "never a tenure"},
		{"", "holdfast/once", "no server"},
		{"internal/cli/act", "holdfast/once", ""},
		{"chaos", "holdfast", ""},
		{"chaos", "github.com/anishathalye/porcupine", ""},
		{"chaos", "holdfast/zkserver", "made to fail"},
		{"zk", "holdfast/chaos", "of use without"},
		{"layout", "holdfast", ""},
		{"layout", "holdfast/zk", "no client"},
		{"reserve", "holdfast", ""},
		{"reserve", "holdfast/internal/lend", ""},
		{"reserve", "holdfast/internal/queue", ""},
		{"reserve", "holdfast/zkserver", "no server"},
		{"", "holdfast/reserve", "no command line"},
		{"internal/deed", "holdfast/reserve", ""},
		{"ui", "holdfast", ""},
		{"ui", "holdfast/zkserver", "whatever server"},
		{"ui", "holdfast/internal/deed", ""},
		{"internal/cli/sessions", "holdfast/internal/deed", ""},
		{"internal/cli/root", "holdfast/internal/cli/conn", ""},
		{"cmd/holdfast", "holdfast/internal/cli/root", ""},
		{"cmd/holdfast", "holdfast/internal/cli/hold", "a main"},
		{"internal/cli/conn", "holdfast/internal/cli/term", ""},
		{"internal/cli/conn", "github.com/spf13/cobra", ""},
		{"internal/cli/conn", "charm.land/bubbletea/v2", "no library of one"},
		{"internal/cli/conn", "holdfast/ui", "no command"},
		{"internal/cli/term", "holdfast/internal/cli/conn", "no server"},
		{"internal/cli/host", "holdfast/zk", "no clients"},
		{"zklocal", "holdfast/internal/cli/host", "above it"},
		{"internal/cli/root", "holdfast/internal/cli/mcp", "no part of it"},
		{"internal/cli/root", "github.com/modelcontextprotocol/go-sdk/mcp", "no part of it"},
		{"cmd/holdfast-mcp", "holdfast/internal/cli/mcp", ""},
		{"cmd/holdfast-mcp", "holdfast/zk", "a main"},
		{"internal/cli/root", "holdfast/ui", "no part of it"},
		{"internal/cli/root", "holdfast/internal/cli/dashboard", "no part of it"},
		{"cmd/holdfast-ui", "holdfast/internal/cli/dashboard", ""},
		{"cmd/holdfast-ui", "holdfast/ui", "a main"},
		{"internal/cli/dashboard", "holdfast/ui", ""},
		{"internal/cli/dashboard", "holdfast/terraform", "no other command"},
		{"internal/cli/mcp", "holdfast/internal/locks", ""},
		{"internal/cli/mcp", "charm.land/bubbletea/v2", "no other command"},
		{"internal/cli/mcp", "holdfast/ui", "no other command"},
		{"internal/cli/root", "holdfast/internal/cli/top", "no part of it"},
		{"cmd/holdfast-top", "holdfast/internal/cli/top", ""},
		{"internal/cli/top", "charm.land/bubbletea/v2", ""},
		{"internal/cli/see", "charm.land/bubbletea/v2", "no command"},
		{"internal/cli/see", "holdfast/internal/cli/act", "no command"},
		{"internal/cli/hold", "holdfast/internal/cli/hold/elect", "no election"},
		{"internal/cli/hold", "holdfast/once", ""},
		{"internal/cli/hold/elect", "holdfast/internal/cli/hold", ""},
		{"internal/cli/hold/shard", "holdfast/internal/cli/hold/elect", "no other command"},
		{"internal/cli/see", "holdfast/internal/cli/hold", "no command"},
		{"cmd/holdfast-tf", "holdfast/terraform", "a main"},
		{"internal/cli/tf", "holdfast/terraform", ""},
		{"internal/cli/tf", "holdfast/zkserver", "hosts no store"},
		{"internal/cli/root", "holdfast/terraform", "no part of it"},
		{"internal/deed", "holdfast", ""},
		{"internal/deed", "holdfast/ui", "knows no request"},
		{"internal/deed", "github.com/spf13/cobra", "flags"},
		{"internal/daemon", "holdfast/zkserver", ""},
		{"internal/daemon", "holdfast/zk", "no clients"},
		{"internal/daemon", "github.com/spf13/pflag", "flags"},
		{"internal/daemon", "github.com/coreos/go-systemd/v22/dbus", "no clients"},
		{"zkserver", "holdfast/internal/daemon", "must not need a client"},
		{"internal/cli/serve", "holdfast/internal/daemon", ""},
		{"internal/cli/serve", "holdfast/zklocal", ""},
		{"internal/cli/root", "github.com/spf13/cobra", ""},
		{"cmd/holdfast", "log", ""},
		{"cmd/holdfast", "testing", "machinery"},
		{"internal/cli/root", "holdfast/zkproto", "no part of it"},
		{"zkserver", "holdfast/cmd/holdfast", "above the command"},
		{"helpers", "fmt", "no place in the design"},
	}
	for _, test := range tests {
		got := violations([]imported{{pkg: test.pkg, file: "planted.go", path: test.path}})
		switch {
		case test.want == "" && len(got) > 0:
			t.Errorf("%q may import %q; got %q", test.pkg, test.path, got)
		case test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want) || !strings.Contains(got[0], "planted.go")):
			t.Errorf("%q imports %q: got %q; want one line with the file and %q", test.pkg, test.path, got, test.want)
		}
	}
}

// sourceFiles returns the module's Go files that are not tests. Nested modules, with their own
// go.mod, are excluded.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() && name != "." {
			if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go") {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Go initialises every linked package in every command, so a package that only serve needs would
// slow down each run. bubbletea and what it needs are for holdfast top; they take 0.1 to 0.2 ms of each start.
func TestTheCommandLinksLittle(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/holdfast").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	want := []string{
		"github.com/HdrHistogram/hdrhistogram-go", "github.com/coreos/go-systemd/v22", "github.com/spf13/cobra", "github.com/spf13/pflag", "go.yaml.in/yaml/v3",
		"golang.org/x/sync", "golang.org/x/sys", module,
	}
	if runtime.GOOS == "windows" {
		want = append(want, "github.com/inconshreveable/mousetrap")
		slices.Sort(want)
	}
	if got := slices.Compact(modules); !slices.Equal(got, want) {
		t.Errorf("holdfast links\n%q; want\n%q", got, want)
	}
}

// A program that has its own user interface needs a server all the same. It gets no more than this with it.
func TestAConnectionLinksLittle(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./internal/cli/conn").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	want := []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "go.yaml.in/yaml/v3", "golang.org/x/sys", module}
	if runtime.GOOS == "windows" {
		want = slices.Insert(want, 0, "github.com/inconshreveable/mousetrap")
	}
	if got := slices.Compact(modules); !slices.Equal(got, want) {
		t.Errorf("internal/cli/conn links\n%q; want\n%q", got, want)
	}
}
