// Package mcp is the program holdfast-mcp, which gives a coding agent locks over the Model Context Protocol. The protocol is
// that of the official SDK. An agent acquires locks with package holdfast.
package mcp

import (
	"context"
	"os"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
	"holdfast/internal/supervise"
)

const long = `mcp is a server of the Model Context Protocol on stdin and stdout. A coding agent starts it, and stops it when
the agent ends. The agent gets these tools:

  acquire   acquire a lock, and wait for it if it is held
  lease     acquire a file or a directory with everything below it, and wait for it
  release   release a lock or a lease
  list      list who holds what, and who waits
  blockers  say who holds a lock, and whom these holders wait for

The locks are those of the other commands. So an agent, a holdfast run and a cron job exclude each other. With
nothing configured, all agents of the user on this machine share the locks.

Everything that an agent holds is released when mcp ends. If mcp was killed (kill -9) or the machine has failed, it is
released when the session ends, after --session-timeout at most. If a lock is lost, or somebody asks for it
(holdfast revoke), the next answer of any tool begins with that. The agent is not stopped: where a program must
be stopped in time, use holdfast run.

lease takes paths of files. Agents on one machine share them by the absolute path. Agents on several machines,
each with a copy of the files, need --tree with the same name: then a path counts from the nearest directory
above the working directory that has .git, else from the working directory.

One mcp is one owner. Agents that share one mcp, such as the sub-agents of some programs, exclude each other as
well: a lock that one of them holds is busy for the others.

An agent that waits in a circle with others is told within two seconds, with the progress of the call and with its answer:
who waits for whom, and what to release first. With --on-deadlock fail, the call can be the victim: see holdfast run.

Exit codes:
  0   standard input has ended, or a signal has arrived (also HUP); everything is released
  2   wrong command line
  69  standard input cannot be read
  78  wrong configuration`

// New returns the program holdfast-mcp.
func New() *cobra.Command {
	g := conn.NewFlags()
	var who who.Flags
	var tree string
	var onDeadlock deadlock.Flag
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Give a coding agent locks over the Model Context Protocol",
		Long:  long,
		Example: `  claude mcp add holdfast -- holdfast mcp
  holdfast mcp --server zk://h1:2181,h2:2181 --tree shop`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := newAgent(g, &who, tree)
			if err != nil {
				return err
			}
			a.settings.yields = onDeadlock.Fail()
			a.offerTools()
			supervise.SurviveBrokenPipe() // the client can end before it has read its answers
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			signals := make(chan os.Signal, 1)
			supervise.Notify(signals, supervise.StopSignals...)
			go func() { // until the process ends
				<-signals
				cancel()
			}()
			return a.serve(ctx)
		},
	}
	who.Register(cmd)
	onDeadlock.Register(cmd, "gives up, and the agent is told what to release first")
	cmd.Flags().StringVar(&tree, "tree", "", "name of the tree of leases, for agents on several machines")
	return program.New(cmd, g)
}

// instructions are for the model.
const instructions = `Locks that are shared with other agents, commands and machines. Use them so that two agents do not
do the same work or write the same files.
- Before you change files that others may change, lease the path: the directory if you change several files in it. Before
  a job that must run once at a time (a migration, a release, a test of a shared database), acquire a lock with its name.
- Say why: others see it.
- If the answer says that it is not held by you, do not start the work. Do something else, or call again to wait longer.
- Release as soon as the work is done. Hold as few as you can, and acquire several in alphabetical order.
- If an answer begins with LOST, another agent may hold that lock now. Stop the work that needs it, look at what has
  changed, and acquire it again.`

// offerTools gives the tools to the endpoint.
func (a *agent) offerTools() {
	text := func(description string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Description: description}
	}
	seconds := &jsonschema.Schema{Type: "number", Description: "how long to wait if it is held, from 0 to 3600; 20 if absent"}
	why := text("why you need it, in a few words; others see it")
	a.endpoint.offer(&sdk.Tool{
		Name: "acquire", Title: "Acquire a lock", Annotations: hints(false, false),
		Description: "Acquire the lock with this name. Others that use the name wait until you release it. The answer has an id, which release needs.",
		InputSchema: object(map[string]*jsonschema.Schema{
			"lock":         text("name of the lock, such as db/migrate"),
			"shared":       {Type: "boolean", Description: "acquire it as a reader: readers share it with each other"},
			"wait_seconds": seconds, "why": why,
		}, "lock"),
	}, a.acquire)
	a.endpoint.offer(&sdk.Tool{
		Name: "lease", Title: "Lease a path", Annotations: hints(false, false),
		Description: "Acquire a file or a directory with everything below it, so that no other agent has a lease there. It is an agreement among agents: it stops nobody from writing. The answer has an id, which release needs.",
		InputSchema: object(map[string]*jsonschema.Schema{
			"path":         text("the file or directory; it need not exist. A relative path counts from the working directory of the server, or with --tree from the root of the repository"),
			"wait_seconds": seconds, "why": why,
		}, "path"),
	}, a.lease)
	a.endpoint.offer(&sdk.Tool{
		Name: "release", Title: "Release a lock or a lease", Annotations: hints(false, true),
		Description: "Release a lock or a lease.",
		InputSchema: object(map[string]*jsonschema.Schema{"id": text("the id from the answer of acquire or lease, or all")}, "id"),
	}, a.release)
	a.endpoint.offer(&sdk.Tool{
		Name: "list", Title: "List locks and leases", Annotations: hints(true, true),
		Description: "List who holds which lock or lease, since when and why, and how many wait.",
		InputSchema: object(map[string]*jsonschema.Schema{"prefix": text("only names that begin with this; all if absent")}),
	}, a.list)
	a.endpoint.offer(&sdk.Tool{
		Name: "blockers", Title: "Say who blocks a lock or a path", Annotations: hints(true, true),
		Description: "Say who holds a lock or a path, what these holders wait for themselves, and whether that would be a deadlock with what you hold.",
		InputSchema: object(map[string]*jsonschema.Schema{
			"lock": text("name of a lock; give this or path"), "path": text("a file or directory, as for lease"),
		}),
	}, a.blockers)
}

// hints say what a tool does, for the client that asks its user. All are sent, since a client assumes the worst of those
// that are absent.
func hints(readOnly, idempotent bool) *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{ReadOnlyHint: readOnly, IdempotentHint: idempotent, DestructiveHint: new(bool), OpenWorldHint: new(bool)}
}

// object returns the schema of an object with these properties and no others.
func object(properties map[string]*jsonschema.Schema, required ...string) *jsonschema.Schema {
	none := &jsonschema.Schema{Not: new(jsonschema.Schema)}
	return &jsonschema.Schema{Type: "object", Properties: properties, Required: required, AdditionalProperties: none}
}
