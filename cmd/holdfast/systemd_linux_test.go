package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/dashboard"
	"holdfast/internal/cli/serve"
)

const (
	unitFile   = "../../contrib/systemd/holdfast.service"
	uiUnitFile = "../../contrib/systemd/holdfast-ui.service"
)

// unitSettings returns the settings of a unit.
func unitSettings(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
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
	return settings
}

func TestSystemdUnitOfThePageStartsAUI(t *testing.T) {
	t.Parallel()
	settings := unitSettings(t, uiUnitFile)
	words := strings.Fields(settings["ExecStart"])
	if len(words) == 0 || words[0] != "/usr/bin/holdfast-ui" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	ui := dashboard.New()
	if err := ui.ParseFlags(words[1:]); err != nil || ui.Flags().NArg() != 1 {
		t.Errorf("ExecStart: %v, %q", err, ui.Flags().Args())
	}
	socket, ok := strings.CutPrefix(settings["Environment"], "HOLDFAST_SERVER=unix://")
	serve, err := os.ReadFile("../../contrib/systemd/serve.yaml")
	if err != nil || !ok || !strings.Contains(string(serve), "unix: ["+socket+"]") {
		t.Errorf("Environment=%s: %v; want the socket of serve.yaml", settings["Environment"], err)
	}
}

// The settings that the packages install are ones that the commands accept.
func TestSettingsOfThePackages(t *testing.T) {
	t.Parallel()
	if _, err := serve.ReadConfig(serve.New().Flags(), "../../contrib/systemd/serve.yaml"); err != nil {
		t.Error(err)
	}
	config, err := os.ReadFile("../../contrib/systemd/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Each of its settings is a comment, to be taken by itself.
	for line := range strings.Lines(string(config)) {
		server, ok := strings.CutPrefix(strings.TrimSpace(line), "#server: ")
		if !ok {
			continue
		}
		g := conn.NewFlags()
		g.Server = server
		if _, err := g.Target(); err != nil {
			t.Error(err)
		}
	}
}

func TestSystemdUnitStartsAServeThatThereIs(t *testing.T) {
	t.Parallel()
	settings := unitSettings(t, unitFile)
	words := strings.Fields(settings["ExecStart"])
	if len(words) < 2 || words[0] != "/usr/bin/holdfast" || words[1] != "serve" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	serve := serve.New()
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

func TestSystemdUnitsAreValid(t *testing.T) {
	t.Parallel()
	for _, file := range []string{unitFile, uiUnitFile} {
		testUnitIsValid(t, file)
	}
}

func testUnitIsValid(t *testing.T, file string) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no systemd-analyze")
	}
	unit, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // verify checks that the program exists
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(path, regexp.MustCompile(`/usr/bin/holdfast(-[a-z]+)?`).ReplaceAllLiteral(unit, []byte(self)), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
