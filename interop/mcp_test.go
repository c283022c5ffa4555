//go:build unix

package interop

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A sdkAgent is a session of the reference SDK with a process of holdfast mcp.
type sdkAgent struct {
	*mcp.ClientSession
	t    *testing.T
	cmd  *exec.Cmd
	told chan string // progress
}

func startSDKAgent(t *testing.T, store, version string) *sdkAgent {
	t.Helper()
	a := &sdkAgent{t: t, cmd: exec.Command(holdfastBin(t), "mcp"), told: make(chan string, 100)}
	a.cmd.Env = append(os.Environ(), "HOLDFAST_SERVER=file://"+store, "HOLDFAST_SESSION_TIMEOUT=4s")
	a.cmd.Dir = t.TempDir()
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1.8.0"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { a.told <- r.Params.Message },
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: a.cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(t, err)
	a.ClientSession = session
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_ = session.Close()
	})
	return a
}

// call calls a tool and returns its text.
func (a *sdkAgent) call(tool string, arguments map[string]any) string {
	a.t.Helper()
	p := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	p.SetProgressToken("p")
	r, err := a.CallTool(a.t.Context(), p)
	must(a.t, err)
	if len(r.Content) != 1 {
		a.t.Fatalf("%s: %d contents", tool, len(r.Content))
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func (a *sdkAgent) want(begin, tool string, arguments map[string]any) {
	a.t.Helper()
	if got := a.call(tool, arguments); !strings.HasPrefix(got, begin) {
		a.t.Errorf("%s %v: %q; want %q…", tool, arguments, got, begin)
	}
}

// The client of the reference SDK, in each version of the protocol: two agents on one tree, a wait that is told of, and
// a cancelled call.
func TestMCPReferenceClient(t *testing.T) {
	for asked, want := range map[string]string{
		"": "2026-07-28", "2026-07-28": "2026-07-28", "2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2024-11-05",
	} {
		t.Run("version "+asked, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			t.Cleanup(func() { _, _ = killHost(holdfastBin(t), store) })
			first, second := startSDKAgent(t, store, asked), startSDKAgent(t, store, asked)
			if got := first.InitializeResult(); got.ProtocolVersion != want || got.ServerInfo.Name != "holdfast" || !strings.Contains(got.Instructions, "LOST") {
				t.Errorf("the server says %+v", got)
			}
			tools, err := first.ListTools(t.Context(), nil)
			must(t, err)
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
				if schema, err := json.Marshal(tool.InputSchema); err != nil || !strings.Contains(string(schema), `"type":"object"`) || tool.Description == "" {
					t.Errorf("%s: %s, %v", tool.Name, schema, err)
				}
			}
			if got := strings.Join(names, " "); got != "acquire blockers lease list release" {
				t.Errorf("tools %s", got)
			}
			must(t, first.Ping(t.Context(), nil))
			first.want("HELD: lease files", "lease", map[string]any{"path": "/repo/src", "why": "parser"})
			second.want("NOT HELD: files/repo", "lease", map[string]any{"path": "/repo", "wait_seconds": 0})
			second.want("HELD: lease files/repo/doc", "lease", map[string]any{"path": "/repo/doc"})
			if got := second.call("list", nil); !strings.Contains(got, `files/repo/src: held by`) || !strings.Contains(got, "(you, id 1)") {
				t.Error(got)
			}

			ctx, cancel := context.WithCancel(t.Context())
			p := &mcp.CallToolParams{Name: "lease", Arguments: map[string]any{"path": "/repo/src/a", "wait_seconds": 60}}
			p.SetProgressToken("p")
			failed := make(chan error, 1)
			go func() {
				_, err := second.CallTool(ctx, p)
				failed <- err
			}()
			if got := <-second.told; !strings.HasPrefix(got, "waiting for files/repo/src/a, held by ") {
				t.Error(got)
			}
			cancel()
			if err := <-failed; err == nil {
				t.Error("the cancelled call succeeded")
			}
			first.want("Released", "release", map[string]any{"id": "all"})
			first.want("HELD: lease files/repo/src", "lease", map[string]any{"path": "/repo/src", "wait_seconds": 30}) // the cancelled call holds nothing
			must(t, second.Close())
			first.want("HELD: lease files/repo/doc", "lease", map[string]any{"path": "/repo/doc", "wait_seconds": 30})
		})
	}
}

// kill -9 of an agent's server frees its locks when the session has ended, and the other agent, which waits, gets
// them in the order of the queue.
func TestMCPKilledAgentFreesItsLocks(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	t.Cleanup(func() { _, _ = killHost(holdfastBin(t), store) })
	first, second := startSDKAgent(t, store, ""), startSDKAgent(t, store, "")
	first.want("HELD: lease files/repo", "lease", map[string]any{"path": "/repo"})
	first.want("HELD: lock db", "acquire", map[string]any{"lock": "db"})
	done := make(chan string, 1)
	go func() { done <- second.call("lease", map[string]any{"path": "/repo/src", "wait_seconds": 60}) }()
	<-second.told
	must(t, first.cmd.Process.Kill())
	killed := time.Now()
	if got := <-done; !strings.HasPrefix(got, "HELD: lease files/repo/src") {
		t.Error(got)
	}
	second.want("HELD: lock db", "acquire", map[string]any{"lock": "db", "wait_seconds": 60})
	t.Logf("figure: the locks of an agent that was killed were free after %v, with a session timeout of 4s", time.Since(killed).Round(10*time.Millisecond))
}
