package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// The same on a busy machine, with some time in between. The server does not answer until both signals have arrived, so
// the second one finds the release under way.
func TestSecondSignalOfTimeoutFindsTheReleaseUnderWay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		told int // how often the trap runs
	}{
		{"lock job", 0, 0},
		{"run job -- sh trap", 3, 1},
	} {
		t.Run(tt.args[:4], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			t.Cleanup(func() { killHosts(dir) })
			script := "trap 'echo told; told=1' TERM\necho held\nn=0\nuntil test $n = 15; do sleep 0.02; n=$((n+told)); done\nexit 3\n"
			if err := os.WriteFile(filepath.Join(dir, "trap"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("holdfast", strings.Fields(tt.args)...)
			cmd.Dir, cmd.WaitDelay = dir, patience
			cmd.Env = append(os.Environ(), "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"), "HOLDFAST_SESSION_TIMEOUT=60s")
			var out, said lockedBuffer
			cmd.Stdout, cmd.Stderr = &out, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); !strings.Contains(out.String(), "held"); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					_ = cmd.Process.Kill()
					t.Fatalf("not held: %s", said.String())
				}
			}
			text, err := os.ReadFile(filepath.Join(dir, "store", "host.pid"))
			if err != nil {
				t.Fatal(err)
			}
			host, err := strconv.Atoi(string(text))
			if err != nil {
				t.Fatal(err)
			}
			_ = syscall.Kill(host, syscall.SIGSTOP)
			began := time.Now()
			_ = cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(50 * time.Millisecond)
			_ = cmd.Process.Signal(syscall.SIGTERM)
			late := time.Since(began) > 400*time.Millisecond
			time.Sleep(100 * time.Millisecond) // for a command that gives the release up
			_ = syscall.Kill(host, syscall.SIGCONT)
			err = cmd.Wait()
			if late {
				t.Log("the machine is too busy: these were two requests to stop")
				return
			}
			if exitStatus(err) != tt.code || strings.Count(out.String(), "told") != tt.told || strings.Contains(said.String(), "cannot release") {
				t.Errorf("exit code %d (%v); want %d; stdout %q; stderr %q", exitStatus(err), err, tt.code, out.String(), said.String())
			}
		})
	}
}
