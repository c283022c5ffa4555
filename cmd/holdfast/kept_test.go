package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"holdfast"
)

// ls and status show that a lock is only kept. For status -q it is held: other programs would have to wait for
// it, if only for a moment.
func TestCommandsShowAKeptLock(t *testing.T) {
	url := startMemory(t)
	c := dialServer(t, url)
	h, err := holdfast.NewMutex(c, "/holdfast/locks/job", holdfast.WithOwner("ada"), holdfast.WithKeep(time.Hour)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"status job", "job is kept by ada for its next use\n"},
		{"status -o json job", `"state":"kept"`},
		{"status -q job", ""},
		{"ls", "kept"},
	} {
		cmd := exec.Command("holdfast", strings.Fields(tt.args)...)
		cmd.Env = append(cmd.Environ(), "HOLDFAST_SERVER="+url)
		out, err := cmd.CombinedOutput()
		if got := strings.ReplaceAll(string(out), `": "`, `":"`); err != nil || !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %v\n%s", tt.args, err, out)
		}
	}
}
