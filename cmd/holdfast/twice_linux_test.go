package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// timeout sends its signal to the command, and then to the process group. That is one request to stop.
func TestSignalOfTimeoutIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { killHosts(dir) })
	env := append(os.Environ(), "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"))
	trap := filepath.Join(dir, "trap")
	if err := os.WriteFile(trap, []byte("trap 'echo told; told=1' TERM\necho held\nn=0\nuntil test $n = 15; do sleep 0.02; n=$((n+told)); done\nexit 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("holdfast", "lock", "busy")
	holder.Env = env
	held, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	for _, tt := range []struct {
		args  string
		ready string // then timeout signals it
		code  int
		want  string // afterwards on stdout
		never string // on stderr
	}{
		{"lock alone", "held alone", 0, "", "cannot release"},
		{"run job -- sh " + trap, "held", 3, "told\n", "second"},
		{"elect leader -- sh " + trap, "held", 3, "told\n", "second"},
		{"shard --kill-after 1h --count 1 jobs -- sh " + trap, "held", 0, "told\n", "killing"},
		{"lock busy", "waiting for busy", 128 + 15, "", "cannot"},
	} {
		t.Run(tt.args[:8], func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("timeout", append([]string{"1000", "holdfast"}, strings.Fields(tt.args)...)...)
			cmd.Env = env
			var out, said lockedBuffer
			cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, patience
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); !strings.Contains(out.String()+said.String(), tt.ready); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					_ = cmd.Process.Kill()
					t.Errorf("no %q", tt.ready)
					break
				}
			}
			before := len(out.String())
			_ = cmd.Process.Signal(syscall.SIGTERM) // which it sends as it would after the time
			if err := cmd.Wait(); exitStatus(err) != tt.code {
				t.Errorf("exit code %d (%v); want %d", exitStatus(err), err, tt.code)
			}
			if text := out.String()[before:]; !strings.HasSuffix(text, tt.want) || strings.Count(text, "told") > 1 || strings.Contains(said.String(), tt.never) {
				t.Errorf("stdout %q; want %q; stderr %q", text, tt.want, said.String())
			}
		})
	}
}
