package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const hourPage = "../docs/howto/install.md"

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// A step is a block of the page: a script that must succeed, or a command with the output that it must have.
type step struct {
	script string
	output *regexp.Regexp // nil: any
}

// stepsOf returns the blocks sh and console of a page. In the output of a console, … stands for any text.
func stepsOf(t *testing.T, page string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		switch m[1] {
		case "sh":
			steps = append(steps, step{script: m[2]})
		case "console":
			for _, part := range regexp.MustCompile(`(?m)^\$ `).Split(m[2], -1)[1:] {
				command, want, _ := strings.Cut(part, "\n")
				pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", "(?s:.*)")
				steps = append(steps, step{command, regexp.MustCompile("^" + pattern + "$")})
			}
		}
	}
	return steps
}

// The page types itself on a machine with nothing but the package, the source, Go and cron. Its ensemble is of three
// Apache ZooKeepers. Its systemd is that of Debian.
func TestTheFirstHour(t *testing.T) {
	m := getRelease(t)
	need(t, "java")
	const jars = "/usr/share/java"
	if _, err := os.Stat(jars + "/zookeeper.jar"); err != nil {
		t.Fatal("install zookeeper: ", err)
	}
	root := copyOfCleanRoot(t)
	for _, name := range []string{"*_" + host.arch + ".deb", "*_source.tar.gz", "SHA256SUMS"} {
		from := m.one(t, name)
		copyFile(t, filepath.Join(root, "root", filepath.Base(from)), from)
	}
	steps := stepsOf(t, hourPage)
	if len(steps) < 8 {
		t.Fatalf("%d steps", len(steps))
	}
	page := len(steps) - 1 // the last step removes the package
	steps = slices.Concat(steps[:page], goProgram(t), pageOfLocks, steps[page:])
	const mark = "@@ step "
	var script strings.Builder
	script.WriteString("set -e\ncd /root\nuseradd --create-home ann\nfor i in 1 2 3; do echo 127.0.0.1$i zk$i >>/etc/hosts; done\n")
	for i, s := range steps {
		if strings.Contains(s.script, "purge") { // what cron and the page have done by then
			script.WriteString("n=0; until [ -s /var/log/nightly.log ]; do n=$((n+1)); [ $n -lt 900 ] || { echo cron has not run; exit 1; }; sleep 0.1; done\n" +
				"bash -c 'exec 3<>/dev/tcp/127.0.0.1/7480; printf \"GET / HTTP/1.0\\r\\nHost: 127.0.0.1:7480\\r\\n\\r\\n\" >&3; head -n 1 <&3 | grep -q HTTP/'\n")
		}
		if strings.HasPrefix(s.script, "journalctl ") { // what a service has printed can be on its way to the journal
			script.WriteString("journalctl --sync\n")
		}
		fmt.Fprintf(&script, "echo '%s%d'\n", mark, i)
		if s.output == nil {
			script.WriteString(s.script)
		} else {
			script.WriteString("{ " + s.script + "; } 2>&1\n")
		}
	}
	fmt.Fprintf(&script, "echo '%s%d'\necho '== ok'\n", mark, len(steps))
	if err := os.WriteFile(filepath.Join(root, "packages", "hour.sh"), []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	binds, env := goOfThisMachine(t)
	out := bootRoot(t, root, "hour.sh", zookeepers(t, jars), binds, env...)
	parts := regexp.MustCompile("(?m)^"+mark+`\d+\n`).Split(out, -1)
	if len(parts) != len(steps)+2 || !strings.HasSuffix(out, "== ok\n") {
		t.Fatalf("the page ended early:\n%s", out)
	}
	for i, s := range steps {
		if got := strings.TrimSpace(parts[i+1]); s.output != nil && !s.output.MatchString(got) {
			t.Errorf("%s\nprints\n%s\nwant %s", s.script, got, s.output)
		}
	}
}

// pageOfLocks starts the page, as the how-to about it says. The journal has its address.
var pageOfLocks = []step{
	{script: "systemctl enable --now holdfast-ui\n"},
	{"journalctl -u holdfast-ui -o cat | grep 127.0.0.1:7480", regexp.MustCompile(`http://127\.0\.0\.1:7480/`)},
}

// goProgram returns the steps that run the program of the tutorial with the source of the release, on the ensemble.
func goProgram(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "go" {
			continue
		}
		program := strings.ReplaceAll(m[2], "127.0.0.1:2181", "zk1:2181")
		return []step{
			{script: "tar -xzf holdfast_*_source.tar.gz && mkdir job && cat >job/main.go <<'END'\n" + program + "END\n" +
				"(cd job && go mod init job && go mod edit -require holdfast@v0.0.0 -replace holdfast=$(echo ../holdfast_*/) && go mod tidy)\n"},
			{"(cd job && go run .)", regexp.MustCompile("^backing up$")},
		}
	}
	t.Fatal("the tutorial has no program")
	return nil
}

// zookeepers returns a script that starts three servers on 127.0.0.11 to 127.0.0.13.
func zookeepers(t *testing.T, jars string) string {
	t.Helper()
	var script strings.Builder
	for i := 1; i <= 3; i++ {
		dir := filepath.Join(t.TempDir(), fmt.Sprintf("zk%d", i))
		var cfg strings.Builder
		fmt.Fprintf(&cfg, "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=2181\nclientPortAddress=127.0.0.1%d\nadmin.enableServer=false\n", dir, i)
		for j := 1; j <= 3; j++ {
			fmt.Fprintf(&cfg, "server.%d=127.0.0.1%d:2888:3888\n", j, j)
		}
		for name, text := range map[string]string{"zoo.cfg": cfg.String(), "myid": fmt.Sprint(i)} {
			if err := write(filepath.Join(dir, name), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&script, "java -Xmx64m -cp '%s/*' org.apache.zookeeper.server.quorum.QuorumPeerMain %s/zoo.cfg >%[2]s/log 2>&1 &\n", jars, dir)
	}
	return script.String()
}

// goOfThisMachine returns the directories of Go and its modules, and the variables for them.
func goOfThisMachine(t *testing.T) (dirs, env []string) {
	t.Helper()
	env = []string{"GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local"}
	for _, name := range []string{"GOROOT", "GOMODCACHE", "GOCACHE"} {
		dir, err := output(exec.Command("go", "env", name))
		if err != nil {
			t.Fatal(err)
		}
		dir = strings.TrimSpace(dir)
		dirs, env = append(dirs, dir), append(env, name+"="+dir)
		if name == "GOROOT" {
			env = append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:"+dir+"/bin")
		}
	}
	return dirs, env
}
