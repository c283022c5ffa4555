//go:build unix

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/interop/peers"
)

// Foreign clients run against `holdfast serve`. They also run against Apache ZooKeeper, which
// proves that the programs themselves are right.

func TestForeignClientsWorkOnApacheZooKeeper(t *testing.T) {
	foreignClients(t, func(t testing.TB) string { return oneZooKeeper.get(t).Addrs()[0] })
}

func TestForeignClientsWorkOnHoldfastServe(t *testing.T) {
	foreignClients(t, func(t testing.TB) string { return oneHoldfast.get(t).Addr() })
}

func foreignClients(t *testing.T, server func(testing.TB) string) {
	t.Run("zkCli.sh", func(t *testing.T) {
		need(t, peers.NeedZkCli())
		zkCli(t, server(t))
	})
	t.Run("zkCli.sh watch", func(t *testing.T) {
		need(t, peers.NeedZkCli())
		zkCliWatch(t, server(t))
	})
	t.Run("kazoo", func(t *testing.T) {
		need(t, peers.NeedKazoo())
		ctx, cancel := context.WithTimeout(t.Context(), stepTime)
		defer cancel()
		cmd := peers.Kazoo(ctx, filepath.Join("py", "kazoo_client.py"), server(t), "/kazoo")
		runProgram(t, cmd, "creates", "watches", "transactions", "lock", "deletes")
	})
	t.Run("Curator", func(t *testing.T) {
		classes := curatorClasses(t)
		ctx, cancel := context.WithTimeout(t.Context(), stepTime)
		defer cancel()
		cmd := peers.Curator(ctx, classes, "CuratorClient", server(t), "/curator")
		runProgram(t, cmd, "creates", "watches", "transactions", "mutex", "deletes")
	})
}

// runProgram runs one of our programs that prints "ok STEP" for every step. It expects exactly
// these steps: a program that stops early must not pass.
func runProgram(t *testing.T, cmd *exec.Cmd, steps ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := peers.Run(cmd); err != nil {
		t.Fatalf("%v\n%s%s", err, &stdout, &stderr)
	}
	if want := "ok " + strings.Join(steps, "\nok ") + "\n"; stdout.String() != want {
		t.Errorf("printed %q; want %q\n%s", &stdout, want, &stderr)
	}
}

func zkCli(t *testing.T, addr string) {
	script := `create /cli one
create /cli/p two
create -e /cli/e three
create -s /cli/s- four
create -e -s /cli/es- five
create -c /cli/c
ls /cli
ls -s /cli
get -s /cli/p
set -v 0 /cli/p 2
get /cli/p
set -v 0 /cli/p 3
stat /cli/c
delete /cli/p
get /cli/p
delete /cli
deleteall /cli
ls /
`
	want := []string{ // in this order
		`Created /cli\n`,
		`Created /cli/p\n`,
		`Created /cli/e\n`,
		`Created /cli/s-\d{10}\n`,
		`Created /cli/es-\d{10}\n`,
		`Created /cli/c\n`,
		`\[c, e, es-\d{10}, p, s-\d{10}\]\n`,
		`\[c, e, es-\d{10}, p, s-\d{10}\]\n?(.*\n)*?cversion = 5\n(.*\n)*?numChildren = 5\n`,
		`two\n(.*\n)*?dataVersion = 0\n(.*\n)*?ephemeralOwner = 0x0\ndataLength = 3\n`,
		`2\n`,
		`version No is not valid : /cli/p\n`,
		`ephemeralOwner = 0x0\n`, // a container's, too
		`Node does not exist: /cli/p\n`,
		`Node not empty: /cli\n`,
		`\[[^\]]*zookeeper\]\n`,
	}
	out := feedZkCli(t, addr, strings.NewReader(script))
	rest := out
	for _, w := range want {
		at := regexp.MustCompile(`(?m)^` + w).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q in what is left:\n%s\nof:\n%s", w, rest, out)
		}
		rest = rest[at[1]:]
	}
	if regexp.MustCompile(`\[[^\]]*\bcli\b[^\]]*\]`).MatchString(rest) {
		t.Errorf("deleteall left /cli:\n%s", rest)
	}
}

// feedZkCli runs zkCli.sh on a script and returns both outputs, as a user would see them.
func feedZkCli(t *testing.T, addr string, script *strings.Reader) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	cmd := peers.ZkCli(ctx, addr)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = script, &out, &out
	if err := peers.Run(cmd); err != nil {
		t.Fatalf("zkCli.sh: %v\n%s", err, &out)
	}
	return out.String()
}

func zkCliWatch(t *testing.T, addr string) {
	// The watch is set and fires in one session: the next commands of the same shell change the node.
	out := feedZkCli(t, addr, strings.NewReader(`create /cliwatch one
get -w /cliwatch
set /cliwatch two
stat -w /cliwatch
ls -w /cliwatch
create /cliwatch/child
delete /cliwatch/child
delete /cliwatch
`))
	for _, event := range []string{"NodeDataChanged", "NodeChildrenChanged", "NodeDeleted"} {
		want := fmt.Sprintf("WatchedEvent state:SyncConnected type:%s path:/cliwatch\n", event)
		if n := strings.Count(out, want); n != 1 {
			t.Errorf("%q was printed %d times; want once, in:\n%s", want, n, out)
		}
	}
}
