//go:build unix

package conn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
)

// settled returns the settings with the files and the command line, as config view would.
func settled(t *testing.T, user, system string, args ...string) (*Flags, error) {
	t.Helper()
	for _, name := range []string{"HOLDFAST_SERVER", "HOLDFAST_SESSION_TIMEOUT", "HOLDFAST_PROFILE", "CREDENTIALS_DIRECTORY"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	g := NewFlags()
	g.SystemFile = filepath.Join(dir, "system.yaml")
	t.Setenv("HOLDFAST_CONFIG", filepath.Join(dir, "user.yaml"))
	for path, text := range map[string]string{os.Getenv("HOLDFAST_CONFIG"): user, g.SystemFile: system} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddFlagSet(g.FlagSet)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return g, g.Settle(flags)
}

func TestLayersOfSettings(t *testing.T) {
	const system = "namespace: /system\nserver: zk://system\nprofiles:\n  p: {namespace: /system-p}\n  q: {server: zk://q}\n"
	for _, test := range []struct {
		name, user, env string
		args            []string
		want            string // of the namespace
		layer           Layer
		server          string
	}{
		{"the system's file", "", "", nil, "/system", LayerSystem, "zk://system"},
		{"the user's file", "namespace: /user", "", nil, "/user", LayerUser, "zk://system"},
		{"the system's profile before the user's file", "namespace: /user", "", []string{"--profile=p"}, "/system-p", LayerProfile, "zk://system"},
		{"the user's profile before the system's", "profiles: {p: {namespace: /user-p}}", "", []string{"--profile=p"}, "/user-p", LayerProfile, "zk://system"},
		{"another profile", "namespace: /user", "", []string{"--profile=q"}, "/user", LayerUser, "zk://q"},
		{"the environment before the profile", "namespace: /user", "/env", []string{"--profile=p"}, "/env", LayerEnvironment, "zk://system"},
		{"the command line first", "namespace: /user", "/env", []string{"--profile=p", "--namespace=/flag"}, "/flag", LayerFlag, "zk://system"},
		{"an empty value overrides", `server: ""`, "", nil, "/system", LayerSystem, ""},
		{"an empty flag overrides", "", "", []string{"--server="}, "/system", LayerSystem, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("HOLDFAST_NAMESPACE", test.env)
			g, err := settled(t, test.user, system, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if g.Namespace != test.want || g.from["namespace"].layer != test.layer || g.Server != test.server {
				t.Errorf("namespace %s of layer %s, server %q; want %s, %s, %q", g.Namespace, g.from["namespace"].layer, g.Server, test.want, test.layer, test.server)
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
		if _, err := g.Target(); err != nil {
			t.Fatal(err)
		}
		if got := g.Timeout.String(); got != test.want || !g.TimeoutGiven {
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
	if err := c.read(NewFlags().FlagSet, false); err != nil || c.found {
		t.Errorf("no file: %v, found %t", err, c.found)
	}
	if err := os.Symlink(filepath.Join(dir, "gone"), c.path); err != nil {
		t.Fatal(err)
	}
	if err := c.read(NewFlags().FlagSet, false); err == nil {
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
		f := term.Explain(err)
		if size := len(f.Error()) + len(f.Hint) - 2*len(filepath.Dir(os.Getenv("HOLDFAST_CONFIG"))); size > 500 {
			t.Errorf("%.50s: %d bytes: %.300s", user, size, f.Error()+f.Hint)
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
	_, text, _ := strings.Cut(NewConfig(NewFlags()).Long, "\n\n  server: ")
	text, _, _ = strings.Cut("  server: "+text, "\n\n")
	for profile, want := range map[string]string{
		"": "zk://zk1:2181,zk2:2181,zk3:2181", "laptop": "file:///home/me/locks", "production": "zks://zk1:2281,zk2:2281,zk3:2281/team",
	} {
		g, err := settled(t, text, "", "--profile="+profile)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if g.Server != want || g.Timeout != 30*time.Second || profile == "production" && !filepath.IsAbs(g.Secure.passwordFile) {
			t.Errorf("profile %q: server %s, timeout %v, password file %s", profile, g.Server, g.Timeout, g.Secure.passwordFile)
		}
	}
}
