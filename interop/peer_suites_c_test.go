//go:build unix

package interop

import (
	"context"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"testing"

	"holdfast/interop/peers"
)

// A conversation with a shell: each line is sent after the answer to the line before.
type conversation struct {
	t    *testing.T
	ctx  context.Context
	in   io.Writer
	come chan struct{} // more text has arrived

	mu   sync.Mutex
	text []byte // printed and not matched yet
}

func converse(ctx context.Context, t *testing.T, cmd *exec.Cmd) *conversation {
	t.Helper()
	c := &conversation{t: t, ctx: ctx, come: make(chan struct{}, 1)}
	in, err := cmd.StdinPipe()
	must(t, err)
	c.in = in
	cmd.Stdout, cmd.Stderr = c, c
	p, err := peers.Start(cmd)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *conversation) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	select {
	case c.come <- struct{}{}:
	default:
	}
	return len(p), nil
}

// say sends the shell a command.
func (c *conversation) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, line+"\n")
	must(c.t, err)
}

// expect waits until the shell has printed a match after the previous one, and returns the first
// group.
func (c *conversation) expect(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for {
		c.mu.Lock()
		at := re.FindSubmatchIndex(c.text)
		if at != nil {
			var group string
			if len(at) > 2 {
				group = string(c.text[at[2]:at[3]])
			}
			c.text = c.text[at[1]:]
			c.mu.Unlock()
			return group
		}
		text := string(c.text)
		c.mu.Unlock()
		select {
		case <-c.come:
		case <-c.ctx.Done():
			c.t.Fatalf("no %q in:\n%s", pattern, text)
		}
	}
}

// ask sends a command and expects its answer.
func (c *conversation) ask(line, pattern string) string {
	c.t.Helper()
	c.say(line)
	return c.expect(pattern)
}

// Apache's C client uses watches while its server is killed in between. The script runs on
// Apache's server, which proves the script, and on ours.
func TestCClientWorks(t *testing.T) {
	t.Run("Apache ZooKeeper", func(t *testing.T) {
		need(t, peers.NeedCClient())
		z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{})
		closing(t, z, err)
		cClient(t, z.Addrs()[0], func(ctx context.Context) error { return z.Restart(ctx, 0) })
	})
	t.Run("holdfast serve", func(t *testing.T) {
		need(t, peers.NeedCClient())
		h, err := peers.StartHoldfast(t.Context(), holdfastBin(t), t.TempDir())
		closing(t, h, err)
		cClient(t, h.Addr(), h.Restart)
	})
}

func cClient(t *testing.T, addr string, restart func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	c := converse(ctx, t, peers.CClient(ctx, addr))
	session := c.expect(`Got a new session id: (0x[0-9a-f]+)`)

	c.ask("create /c", `^\[/c\]: rc = 0\n\tname = /c$`)
	c.ask("create /c", `^\[/c\]: rc = -110$`)
	c.ask("create +e /c/e", `rc = 0\n\tname = /c/e$`)
	c.ask("create +s /c/s-", `rc = 0\n\tname = /c/s-0000000001$`)
	c.ask("create +es /c/s-", `rc = 0\n\tname = /c/s-0000000002$`)
	c.ask("create +c /c/container", `rc = 0\n\tname = /c/container$`)
	c.ask("create2 +t=100000 /c/ttl", `rc = 0\n\tname = /c/ttl\n\tctime = .*\n\tczxid=[0-9a-f]+\n`)
	c.ask("create /c/e/below", `rc = -108$`)

	c.ask("get /c/none", `rc = -101\n`)
	c.ask("set /c hello", `rc = 0 Stat:\n(.*\n){4}\tversion=1\t`)
	c.ask("get /c", `rc = 0\n value_len = 5\nhello\nStat:\n(?:.*\n){4}\tversion=1\taversion=0\n\tephemeralOwner = 0`)
	c.ask("ls /c", `rc = 0\n(\t[^\t\n]+\n){5}time`)
	c.ask("ls2 /c", `rc = 0\n(\t[^\t\n]+\n){5}time`)
	c.ask("delete /c", `^/c: rc = -111$`)
	c.ask("delete /c/none", `^/c/none: rc = -101$`)
	c.ask("sync /c", `rc = 0$`)
	c.ask("config", `rc = 0\n value_len = 0\n`) // a single server has none
	c.say("addauth digest bob:secret")          // a refusal would end the shell; success prints nothing

	// ls sets a watch.
	c.say("wexists /c/new")
	c.expect(`Error -101 for /c/new$`)
	c.say("create /c/new")
	c.expect(`^Watcher CREATED_EVENT state = CONNECTED_STATE for path /c/new$`)
	c.expect(`^Watcher CHILD_EVENT state = CONNECTED_STATE for path /c$`)
	c.expect(`rc = 0\n\tname = /c/new$`)
	c.say("get /c/new")
	c.expect(`rc = 0\n`)
	c.say("set /c/new x")
	c.expect(`^Watcher CHANGED_EVENT state = CONNECTED_STATE for path /c/new$`)
	c.expect(`rc = 0 Stat:`)
	c.say("get /c/new")
	c.expect(`^x\n`)

	must(t, restart(ctx))
	c.expect(`^Watcher SESSION_EVENT state = CONNECTED_STATE$`)
	c.say("get /c/e")
	if owner := c.expect(`rc = 0\n(?:.*\n)*\tephemeralOwner = (\S+)`); owner == "0" {
		t.Errorf("after the restart the node of session %s has no owner", session)
	}
	c.say("delete /c/new") // its watch was set before the restart
	c.expect(`^Watcher DELETED_EVENT state = CONNECTED_STATE for path /c/new$`)
	c.expect(`^/c/new: rc = 0$`)

	// Another session sees the leftovers of this one.
	c.say("quit")
	c.expect(`Quitting`)
	d := converse(ctx, t, peers.CClient(ctx, addr))
	if again := d.expect(`Got a new session id: (0x[0-9a-f]+)`); again == session {
		t.Errorf("both sessions are %s", session)
	}
	d.say("ls /c")
	d.expect(`rc = 0\n(?:\t(?:container|ttl|s-0000000001)\n){3}time`)
}
