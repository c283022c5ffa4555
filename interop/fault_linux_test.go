package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/interop/peers"
)

func needStrace(t *testing.T) string {
	strace, err := exec.LookPath("strace")
	if err != nil {
		err = &peers.MissingError{What: "strace", Package: "strace"}
	}
	need(t, err)
	return strace
}

// holdfast serve syncs the names of the directories it makes before it serves clients. A start
// that finds the directory syncs the store's name again, in case a former process was killed
// before it did.
func TestHoldfastServeSyncsTheNamesOfItsDirectories(t *testing.T) {
	strace := needStrace(t)
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "a", "b")
	made := func(name string) string { return fmt.Sprintf("mkdirat(%q", filepath.Join(parent, name)) }
	synced := func(name string) string { return fmt.Sprintf("fsync(<%s>)", filepath.Join(parent, name)) }
	for i, want := range [][]string{
		{made("a"), synced(""), made("a/b"), synced("a"), made("a/b/store"), synced("a/b")},
		{synced("a/b")},
	} {
		trace := filepath.Join(parent, fmt.Sprint("trace", i))
		traced := filepath.Join(parent, "traced")
		script := fmt.Sprintf("#!/bin/sh\nexec %s -D -f -qq -y -z -e trace=mkdirat,fsync -o %s %s \"$@\"\n", strace, trace, holdfastBin(t))
		if err := os.WriteFile(traced, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		h, err := peers.StartHoldfast(t.Context(), traced, parent, "--data-dir", dir)
		closing(t, h, err)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		left := regexp.MustCompile(`\((AT_FDCWD<[^>]*>, |\d+)`).ReplaceAllString(string(b), "(")
		for _, call := range want {
			var found bool
			if _, left, found = strings.Cut(left, call); !found {
				t.Fatalf("start %d:\n%swant %q in this order", i+1, b, want)
			}
		}
	}
}

// The disk fails a sync of holdfast serve, or is full. The server stops and names the failure
// and the file. When it is started on a healthy disk, it has everything that it acknowledged.
func TestHoldfastServeStopsWhenTheDiskFails(t *testing.T) {
	strace := needStrace(t)
	for _, fault := range []struct{ name, inject, says string }{
		{"a sync fails", "fdatasync:error=EIO:when=20", "input/output error"},
		{"a write fails", "pwrite64:error=ENOSPC:when=60+", "no space left on device"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			dir := t.TempDir()
			broken := filepath.Join(dir, "broken")
			// Only the store's own files: the log on stderr must not fail.
			script := fmt.Sprintf("#!/bin/sh\nexec %s -f -qq -o %s -P %s -e inject=%s %s \"$@\"\n",
				strace, filepath.Join(dir, "trace"), filepath.Join(dir, "data/store/00000001.journal"), fault.inject, holdfastBin(t))
			if err := os.WriteFile(broken, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			h, err := peers.StartHoldfast(t.Context(), broken, dir)
			closing(t, h, err)
			acked := createUntilItStops(t, h)
			var log strings.Builder
			h.WriteLogs(&log)
			if !strings.Contains(log.String(), fault.says) || !strings.Contains(log.String(), filepath.Join(dir, "data")) {
				t.Errorf("the log does not say %q with a path:\n%s", fault.says, log.String())
			}
			if err := h.Kill(); err != nil {
				t.Error(err)
			}
			sound, err := peers.StartHoldfast(t.Context(), holdfastBin(t), dir)
			closing(t, sound, err)
			if err := checkNodes(t.Context(), sound.Addr(), acked); err != nil {
				t.Error(err)
			}
			measured(t, "%d nodes acknowledged before it stopped, none lost", len(acked))
		})
	}
}

// createUntilItStops returns the nodes acknowledged before the server closed the connection.
func createUntilItStops(t *testing.T, h *peers.Holdfast) []acked {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	c, err := dialRaw(ctx, h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var nodes []acked
	for n := 0; ; n++ {
		path := fmt.Sprintf("/n%d", n)
		if err := c.create(path); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("after %d creates the server neither answers nor stops", n)
			}
			return nodes
		}
		nodes = append(nodes, acked{path: path})
	}
}
