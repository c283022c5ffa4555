package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unitFile = "../../contrib/systemd/holdfast.service"

func TestSystemdUnitStartsAServeThatThereIs(t *testing.T) {
	t.Parallel()
	f, err := os.Open(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	settings := make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = value
		}
	}
	words := strings.Fields(settings["ExecStart"])
	if len(words) < 2 || words[0] != "/usr/bin/holdfast" || words[1] != "serve" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	serve := newServe()
	if err := serve.ParseFlags(words[2:]); err != nil || serve.Flags().NArg() > 0 {
		t.Errorf("ExecStart: %v, %q", err, serve.Flags().Args())
	}
	// serve depends on these settings of the unit.
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "ExecReload": "/bin/kill -HUP $MAINPID", "StateDirectoryMode": "0700",
	} {
		if settings[key] != want {
			t.Errorf("%s=%s; want %s", key, settings[key], want)
		}
	}
	if !strings.HasPrefix(serve.Flag("data-dir").Value.String(), "${STATE_DIRECTORY}/") {
		t.Error("the data directory is not the unit's StateDirectory")
	}
}

func TestSystemdUnitIsValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no systemd-analyze")
	}
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // verify checks that the program exists
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "holdfast.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(unit), "/usr/bin/holdfast", self)), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
