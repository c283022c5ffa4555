//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// settled returns the settings with the files and the command line, as config view would.
func settled(t *testing.T, user, system string, args ...string) (*globals, error) {
	t.Helper()
	for _, name := range []string{"HOLDFAST_SERVER", "HOLDFAST_SESSION_TIMEOUT", "HOLDFAST_PROFILE", "CREDENTIALS_DIRECTORY"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	g := newGlobals()
	g.systemFile = filepath.Join(dir, "system.yaml")
	t.Setenv("HOLDFAST_CONFIG", filepath.Join(dir, "user.yaml"))
	for path, text := range map[string]string{os.Getenv("HOLDFAST_CONFIG"): user, g.systemFile: system} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddFlagSet(g.flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return g, g.settle(flags)
}

func TestLayersOfSettings(t *testing.T) {
	const system = "namespace: /system\nserver: zk://system\nprofiles:\n  p: {namespace: /system-p}\n  q: {server: zk://q}\n"
	for _, test := range []struct {
		name, user, env string
		args            []string
		want            string // of the namespace
		layer           layer
		server          string
	}{
		{"the system's file", "", "", nil, "/system", layerSystem, "zk://system"},
		{"the user's file", "namespace: /user", "", nil, "/user", layerUser, "zk://system"},
		{"the system's profile before the user's file", "namespace: /user", "", []string{"--profile=p"}, "/system-p", layerProfile, "zk://system"},
		{"the user's profile before the system's", "profiles: {p: {namespace: /user-p}}", "", []string{"--profile=p"}, "/user-p", layerProfile, "zk://system"},
		{"another profile", "namespace: /user", "", []string{"--profile=q"}, "/user", layerUser, "zk://q"},
		{"the environment before the profile", "namespace: /user", "/env", []string{"--profile=p"}, "/env", layerEnvironment, "zk://system"},
		{"the command line first", "namespace: /user", "/env", []string{"--profile=p", "--namespace=/flag"}, "/flag", layerFlag, "zk://system"},
		{"an empty value overrides", `server: ""`, "", nil, "/system", layerSystem, ""},
		{"an empty flag overrides", "", "", []string{"--server="}, "/system", layerSystem, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("HOLDFAST_NAMESPACE", test.env)
			g, err := settled(t, test.user, system, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if g.namespace != test.want || g.from["namespace"].layer != test.layer || g.server != test.server {
				t.Errorf("namespace %s of layer %s, server %q; want %s, %s, %q", g.namespace, g.from["namespace"].layer, g.server, test.want, test.layer, test.server)
			}
		})
	}
}

func TestTimeoutOfACloserURLWins(t *testing.T) {
	for _, test := range []struct {
		user string
		args []string
		want string
	}{
		{"session-timeout: 30s", []string{"--server=zk://h?timeout=10s"}, "10s"},
		{"session-timeout: 30s", []string{"--server=zk://h"}, "30s"},
		{"session-timeout: 30s\nserver: zk://h?timeout=10s", nil, "30s"},
		{"server: zk://h?timeout=10s", nil, "10s"},
		{"server: zk://h?timeout=10s", []string{"--session-timeout=20s"}, "20s"},
	} {
		g, err := settled(t, test.user, "", test.args...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.target(); err != nil {
			t.Fatal(err)
		}
		if got := g.timeout.String(); got != test.want || !g.timeoutGiven {
			t.Errorf("%q, %q: session timeout %s; want %s", test.user, test.args, got, test.want)
		}
	}
}

func TestFileThatOthersCanChangeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o620: true, 0o602: true, 0o666: true} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readTrusted(path); (err != nil) != refused {
			t.Errorf("mode %#o: error %v", mode, err)
		}
	}
}

// To ignore a file that should be there would be to use another server.
func TestLinkThatLeadsNowhereIsAnError(t *testing.T) {
	dir := t.TempDir()
	c := configFile{path: filepath.Join(dir, "config.yaml")}
	if err := c.read(newGlobals().flags, false); err != nil || c.found {
		t.Errorf("no file: %v, found %t", err, c.found)
	}
	if err := os.Symlink(filepath.Join(dir, "gone"), c.path); err != nil {
		t.Fatal(err)
	}
	if err := c.read(newGlobals().flags, false); err == nil {
		t.Error("the link was ignored")
	}
}

// The owner of a file can change it.
func TestFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("server: zk://h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTrusted(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := readTrusted(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("error %v", err)
	}
}

// No message has more than a little of what a file has.
func TestLongNamesInFilesAreCut(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, user := range []string{
		long + ": 1", "session-timeout: " + long, "server: zk://h\n" + long + ": 1\n" + long + ": 2", "profiles: {" + long + ": 1}",
		"profiles: {" + long + ": {}, " + long + ": {}}", "profiles: {" + long + ": {}}\nprofile: " + long, "a: *" + long, long + ":", long,
	} {
		_, err := settled(t, user, "", "--profile="+long)
		if err == nil {
			t.Errorf("%.50s: no error", user)
			continue
		}
		f := explain(err)
		if size := len(f.Error()) + len(f.hint) - 2*len(filepath.Dir(os.Getenv("HOLDFAST_CONFIG"))); size > 500 {
			t.Errorf("%.50s: %d bytes: %.300s", user, size, f.Error()+f.hint)
		}
	}
}

func TestHugeFileIsRefused(t *testing.T) {
	_, err := settled(t, "server: zk://h #"+strings.Repeat("x", maxConfig), "")
	if err == nil || !strings.Contains(err.Error(), "is longer than") {
		t.Errorf("error %v", err)
	}
}

// The file in the help is one that works.
func TestDocumentedFileIsUnderstood(t *testing.T) {
	_, text, _ := strings.Cut(newConfig(newGlobals()).Long, "\n\n  server: ")
	text, _, _ = strings.Cut("  server: "+text, "\n\n")
	for profile, want := range map[string]string{
		"": "zk://zk1:2181,zk2:2181,zk3:2181", "laptop": "file:///home/me/locks", "production": "zks://zk1:2281,zk2:2281,zk3:2281/team",
	} {
		g, err := settled(t, text, "", "--profile="+profile)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if g.server != want || g.timeout != 30*time.Second || profile == "production" && !filepath.IsAbs(g.secure.passwordFile) {
			t.Errorf("profile %q: server %s, timeout %v, password file %s", profile, g.server, g.timeout, g.secure.passwordFile)
		}
	}
}
