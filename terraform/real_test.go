package terraform_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/terraform"
)

// A tool is a real client.
type tool struct {
	t    *testing.T
	name string
	dir  string
	env  []string
}

// tool returns terraform, in a directory of its own, with a configuration that counts its applies.
func (b *backend) tool(t *testing.T) *tool {
	t.Helper()
	path, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("terraform is not installed; the scripted client sends the same")
	}
	dir := t.TempDir()
	const main = `terraform {
  backend "http" {}
}
variable "who" { default = "nobody" }
resource "terraform_data" "x" { input = var.who }
`
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	base := b.http.URL + "/tf/app/default"
	tl := &tool{t, path, dir, append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "HOME="+dir,
		"TF_HTTP_ADDRESS="+base, "TF_HTTP_LOCK_ADDRESS="+base+"/lock", "TF_HTTP_UNLOCK_ADDRESS="+base+"/lock", "TF_HTTP_RETRY_WAIT_MIN=1")}
	if out, err := tl.run("init", "-input=false"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tl
}

func (tl *tool) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tl.name, args...)
	cmd.Dir, cmd.Env = tl.dir, tl.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out.String())), " "), err
}

// Point 2 and must-show 1 with the real client: concurrent applies wait for each other, and none is lost.
func TestRealConcurrentApplies(t *testing.T) {
	b := newBackend(t)
	const n = 3 // each takes a second of a processor; the scripted client does eight
	var wg sync.WaitGroup
	for i := range n {
		tl := b.tool(t)
		wg.Go(func() {
			if out, err := tl.run("apply", "-auto-approve", "-no-color", "-input=false", "-lock-timeout=100s", "-var=who=w"+string(rune('0'+i))); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	versions, err := b.History(t.Context(), b.ws())
	if err != nil || len(versions) < n {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	for i, v := range versions[1:] {
		if v.Serial <= versions[i].Serial || v.Lineage != versions[i].Lineage {
			t.Errorf("version %d has the serial %d after %d", v.Number, v.Serial, versions[i].Serial)
		}
	}
}

// Points 4, 5 and 6 with the real client.
func TestRealHeldLockAndForceUnlock(t *testing.T) {
	var events []terraform.Event
	b := newBackend(t, func(c *terraform.Config) { c.Audit = auditor(&events) })
	tl := b.tool(t)
	want(t, "LOCK", b.client("a1").lock(), 200)
	out, err := tl.run("apply", "-auto-approve", "-no-color", "-input=false")
	if err == nil || !strings.Contains(out, "already locked: ID=a1") { // terraform 1.11 shows no more of the holder
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := tl.run("force-unlock", "-force", "a1"); err != nil || len(events) != 1 {
		t.Errorf("%v, %d events\n%s", err, len(events), out)
	}
	if out, err := tl.run("apply", "-auto-approve", "-no-color", "-input=false"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Point 7 with the real client: its state is refused, the next apply is kept out, and state push ends it.
func TestRealRefusedState(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.MaxState = 4000 })
	tl, next := b.tool(t), b.tool(t)
	if out, err := tl.run("apply", "-auto-approve", "-no-color", "-input=false", "-var=who="+strings.Repeat("x", 4000)); err == nil {
		t.Fatalf("a state that is too long was stored\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(tl.dir, "errored.tfstate")); err != nil {
		t.Fatal(err)
	}
	out, err := next.run("apply", "-auto-approve", "-no-color", "-input=false")
	if err == nil || !strings.Contains(out, "was not stored") || !strings.Contains(out, "holdfast tf forgive app/default") {
		t.Errorf("%v\n%s", err, out)
	}
	// A server that accepts it.
	wide := newBackendOn(t, b.zk)
	for i, e := range tl.env {
		tl.env[i] = strings.ReplaceAll(e, b.http.URL, wide.http.URL)
	}
	if out, err := tl.run("init", "-reconfigure", "-input=false"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := tl.run("state", "push", "errored.tfstate"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want(t, "LOCK", b.client("last").lock(), 200)
}
