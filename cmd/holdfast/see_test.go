package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// A semaphore whose only client is at the turnstile is free.
func TestStatusOfATurnstileIsFree(t *testing.T) {
	url := startMemory(t)
	c := dialServer(t, url)
	ctx := t.Context()
	sem := holdfast.NewSemaphore(c, "/holdfast/locks/pool", 2)
	status := func() error {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs([]string{"status", "--server", url, "-q", "pool"})
		return root.Execute()
	}
	h, err := sem.Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := status(); err != nil {
		t.Errorf("held: %v", err)
	}
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	const place = "/holdfast/locks/pool/locks/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-"
	if _, _, err := c.Create(ctx, place, nil, zk.EphemeralSequential); err != nil {
		t.Fatal(err)
	}
	if err := status(); err != term.ExitCode(term.ExitNo) {
		t.Errorf("a client at the turnstile alone: %v; want exit code 1", err)
	}
}

// Warnings and audit lines are in the format of --log-format.
func TestWarningsRespectTheFormat(t *testing.T) {
	t.Parallel()
	g := &conn.Flags{}
	g.Log.Format = "json"
	root := newRoot()
	var out bytes.Buffer
	root.SetErr(&out)
	g.Log.Warn(root, "%d of %s", 1, "these")
	g.Log.Info(root, "audit: %s", "this")
	for i, want := range []string{`"level":"WARN","msg":"1 of these"}`, `"level":"INFO","msg":"audit: this"}`} {
		if lines := strings.Split(out.String(), "\n"); !strings.HasSuffix(lines[i], want) {
			t.Errorf("got %q; want %s", lines[i], want)
		}
	}
}

// A client can write any time into its node. The commands show the lock, and those of others.
func TestTimesThatNoDocumentCanHave(t *testing.T) {
	url := startMemory(t)
	c := dialServer(t, url)
	ctx := t.Context()
	make := func(path, data string, mode zk.Mode) {
		t.Helper()
		if _, _, err := c.Create(ctx, path, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	const uuid = "6266cbe9-453b-4a50-8718-b39f57879b6e"
	for _, dir := range []string{"/holdfast", "/holdfast/locks", "/holdfast/locks/a", "/holdfast/locks/b", "/holdfast/locks/c"} {
		make(dir, "", zk.Persistent)
	}
	make("/holdfast/locks/a/_c_"+uuid+"-lock-", `{"owner":"x","since":9223372036854775807}`, zk.EphemeralSequential)
	make("/holdfast/locks/b/detached-"+uuid+"-lock-", `{"id":"i","expires":9223372036854775807}`, zk.PersistentSequential)
	make("/holdfast/locks/c/detached-"+uuid+"-lock-", `{"id":"i","expires":-9223372036854775808}`, zk.PersistentSequential)
	make("/holdfast/audit", `{"kind":"AuditLog","items":[{"at":"9999-12-31T23:59:59-23:59","action":"break","places":[{"path":"/holdfast/locks/a"}]}]}`, zk.Persistent)
	for _, command := range [][]string{{"ls"}, {"status", "a"}, {"status", "b"}, {"status", "c"}, {"history", "a"}} {
		for _, format := range []string{"json", "jsonl", "table"} {
			root := newRoot()
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetErr(io.Discard)
			root.SetArgs(append(command, "--server", url, "-o", format))
			if err := root.Execute(); err != nil || out.Len() == 0 {
				t.Errorf("%v -o %s: %v", command, format, err)
			}
		}
	}
	queue, err := holdfast.List(ctx, c, "/holdfast/locks/a")
	if err != nil || len(queue) != 1 || !queue[0].HeldSince.IsZero() {
		t.Errorf("got %+v, %v; want no HeldSince in the future", queue, err)
	}
}

// A node that may not be read does not hide the other locks.
func TestOneUnreadableLock(t *testing.T) {
	url := startMemory(t)
	c := dialServer(t, url)
	ctx := t.Context()
	for _, name := range []string{"a", "b", "c"} {
		h, err := holdfast.NewMutex(c, "/holdfast/locks/"+name, holdfast.WithOwner("ann")).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Unlock()
	}
	secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
	if _, err := c.SetACL(ctx, "/holdfast/locks/b", []zk.ACL{secret}, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Create(ctx, "/holdfast/locks/c/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", nil, zk.EphemeralSequential, secret); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Create(ctx, "/holdfast/locks/a/6266cbe9453b4a508718b39f57879b6e__lock__", nil, zk.EphemeralSequential); err != nil {
		t.Fatal(err) // a place in another layout is of another lock
	}
	run := func(args ...string) (string, error) {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append(args, "--server", url))
		err := root.Execute()
		return out.String(), err
	}
	out, err := run("ls", "--no-headers")
	var got []string
	for row := range strings.Lines(out) {
		cells := strings.Fields(row)
		got = append(got, cells[0]+" "+cells[1])
	}
	if want := []string{"a held", "a held", "b unreadable", "c unreadable"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("ls: %q, %v; want %q", got, err, want)
	}
	if out, err := run("ls", "-o", "json"); err != nil || strings.Count(out, `"state": "unreadable"`) != 2 {
		t.Errorf("ls -o json: %s, %v", out, err)
	}
	if _, err := run("sessions"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("sessions: %v; want no permission, since some are missing", err)
	}
}
