package tf

import (
	"os"
	"strings"
	"testing"

	"holdfast/internal/cli/conn"
)

// The unit of the packages runs a command line that there is, at the socket of holdfast.service.
func TestUnitStartsTheBackend(t *testing.T) {
	unit, err := os.ReadFile("../../../contrib/systemd/holdfast-tf.service")
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[string]string)
	for line := range strings.Lines(string(unit)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = value
		}
	}
	words := strings.Fields(settings["ExecStart"])
	if len(words) < 2 || words[0] != "/usr/bin/holdfast-tf" || words[1] != "serve" {
		t.Fatalf("ExecStart=%s", settings["ExecStart"])
	}
	serve := newServe(conn.NewFlags())
	if err := serve.ParseFlags(words[2:]); err != nil || serve.Flags().NArg() > 0 {
		t.Errorf("ExecStart: %v, %q", err, serve.Flags().Args())
	}
	socket, ok := strings.CutPrefix(settings["Environment"], "HOLDFAST_SERVER=unix://")
	config, err := os.ReadFile("../../../contrib/systemd/serve.yaml")
	if err != nil || !ok || !strings.Contains(string(config), "unix: ["+socket+"]") {
		t.Errorf("Environment=%s: %v; want the socket of serve.yaml", settings["Environment"], err)
	}
	for key, want := range map[string]string{"Type": "notify", "NotifyAccess": "main", "ExecReload": "/bin/kill -HUP $MAINPID"} {
		if settings[key] != want {
			t.Errorf("%s=%s; want %s", key, settings[key], want)
		}
	}
}
