//go:build unix

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
)

// Text of other users is cut before it is printed: a node can have 1 MiB of it.
func TestTextOfOthersIsCut(t *testing.T) {
	t.Parallel()
	const most = 5 * term.MaxCell // escaped, and with the words around it
	long := strings.Repeat("\xff", 1<<20)
	e := holdfast.Entry{Owner: long, Reason: long}
	id := holdfast.Entry{Detached: true, ID: long, Held: true}
	l := see.Lock{Queue: placed([]holdfast.Entry{id})}
	var shown strings.Builder
	act.ShowQueue(&shown, "x", &deed.Plan{Queue: l.Queue, Places: []holdfast.Entry{id}}, time.Now())
	for name, tt := range map[string]struct {
		text  string
		parts int
	}{
		"owner and reason": {show.Owner(e), 2},
		"id":               {show.Owner(id), 1},
		"reservation":      {term.Escape(show.Reservation(&reserve.Reservation{Owner: long})), 1},
		"run":              {term.Escape(see.LastRun(&once.Result{Owner: long})), 1},
		"status":           {l.Summary(time.Now()), 2},
		"break":            {shown.String(), 2},
	} {
		if len(tt.text) > tt.parts*most {
			t.Errorf("%s: %d bytes", name, len(tt.text))
		}
	}
}

// status shows the holder, also if it cannot read what is beside the queue. It does not say that a lock is free then.
func TestStatusDespiteUnreadableRecords(t *testing.T) {
	t.Parallel()
	url := startMemory(t)
	c := dialServer(t, url)
	status := func(args ...string) (string, int) {
		cmd := exec.Command("holdfast", append([]string{"status"}, args...)...)
		cmd.Env = append(cmd.Environ(), "HOLDFAST_SERVER="+url)
		out, err := cmd.CombinedOutput()
		return string(out), exitStatus(err)
	}
	junk := func(path string) {
		t.Helper()
		if _, _, err := c.Create(t.Context(), path, []byte("junk"), zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"reserved", "recorded"} {
		path := "/holdfast/locks/" + name
		h, err := holdfast.NewMutex(c, path, holdfast.WithOwner("ada")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		junk(path + "/" + conn.OwnDirectory)
		if name == "reserved" {
			junk(path + "/" + conn.OwnDirectory + "/reserved")
		} else {
			for digit := range 16 { // one of them has the runs of --once-per
				shard := fmt.Sprintf("%s/%s/once-%x", path, conn.OwnDirectory, digit)
				junk(shard)
				junk(shard + "/%")
				junk(shard + "/%/done")
			}
		}
		out, code := status(name)
		if code != 0 || !strings.Contains(out, "held by ada") || !strings.Contains(out, fmt.Sprint(h.Token())) || !strings.Contains(out, "not all is shown: ") {
			t.Errorf("%s: code %d\n%s", name, code, out)
		}
		if out, code := status("-q", name); code != 0 || out != "" {
			t.Errorf("-q %s: code %d\n%s", name, code, out)
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		if out, code := status(name); code <= term.ExitNo || strings.Contains(out, "is free") {
			t.Errorf("free %s: code %d\n%s", name, code, out)
		}
		if _, code := status("-q", name); name == "reserved" && code <= term.ExitNo {
			t.Errorf("free -q %s: code %d", name, code)
		}
	}
}
