package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// An owner of another library can be longer than an environment variable may be. The command of watch --exec runs all
// the same.
func TestLongOwnersAreCutForTheCommand(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\x00", 1<<20), strings.Repeat("é", 1<<20)} {
		if got := forVariable(s); len(got) > 65<<10 || strings.Contains(got, "\x00") {
			t.Errorf("%d bytes for a variable", len(got))
		}
	}
	if got := forVariable("ann@host:7"); got != "ann@host:7" {
		t.Errorf("got %q", got)
	}
}

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
	h, err := sem.Acquire(ctx)
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
	if err := status(); err != exitCode(exitNo) {
		t.Errorf("a client at the turnstile alone: %v; want exit code 1", err)
	}
}

// A chain of waits that is too deep to be drawn says that it goes on.
func TestDeepChainsAreCut(t *testing.T) {
	t.Parallel()
	const depth = 200
	var locks []waitgraph.Lock
	for i := range depth {
		place := func(session int) waitgraph.Place {
			return waitgraph.Place{Node: fmt.Sprintf("/locks/l%d/n%d", i, session), Session: int64(session + 1), Zxid: int64(i + 1), Since: time.Now()}
		}
		locks = append(locks, waitgraph.Lock{Path: fmt.Sprintf("/locks/l%d", i), Queue: []waitgraph.Place{place(i), place(i + 1)}})
	}
	w := &waits{g: &globals{}, Graph: waitgraph.Analyze(locks), now: time.Now()}
	w.edges = w.Edges()
	first := slices.IndexFunc(w.Owners, func(o waitgraph.Owner) bool { return slices.Contains(o.Sessions, 1) })
	var b strings.Builder
	w.printBelow(&b, first, "", w.children(), make(map[waitgraph.Ref]bool))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	last := lines[len(lines)-1]
	hidden := depth - (len(lines) - 1)
	if want := fmt.Sprintf("└─ … %s more; -o json has them", count(hidden, "owner")); hidden <= 0 || !strings.HasSuffix(last, want) {
		t.Errorf("%d lines, the last is %q; want %q", len(lines), last, want)
	}
}

// Warnings and audit lines are in the format of --log-format.
func TestWarningsRespectTheFormat(t *testing.T) {
	t.Parallel()
	g := &globals{}
	g.log.format = "json"
	root := newRoot()
	var out bytes.Buffer
	root.SetErr(&out)
	g.warn(root, "%d of %s", 1, "these")
	g.info(root, "audit: %s", "this")
	for i, want := range []string{`"level":"WARN","msg":"1 of these"}`, `"level":"INFO","msg":"audit: this"}`} {
		if lines := strings.Split(out.String(), "\n"); !strings.HasSuffix(lines[i], want) {
			t.Errorf("got %q; want %s", lines[i], want)
		}
	}
}
