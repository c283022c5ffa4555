package zkserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inChild runs a test in a process of its own, for what Pebble leaves behind after an
// error: goroutines that stand still. It returns true in the process that is to do the
// test; that one must call the function it gets when it is done.
func inChild(t *testing.T) (child bool, done func()) {
	t.Helper()
	const name, content = "ZKSERVER_CHILD", "child is content"
	if os.Getenv(name) == "" {
		args := []string{"-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$", "-test.v"}
		for _, a := range os.Args[1:] { // the flags of the test, not those of go test
			if !strings.HasPrefix(a, "-test.") || strings.HasPrefix(a, "-test.timeout") {
				args = append(args, a)
			}
		}
		args = append(args, fmt.Sprint("-seed=", *seed))
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), name+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(content)) {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, figure, found := strings.Cut(line, "figure: "); found {
				t.Log(strings.TrimSpace(figure))
			}
		}
		return false, nil
	}
	return true, func() {
		if !t.Failed() {
			os.Stdout.WriteString(content + "\n")
			os.Exit(0)
		}
		os.Exit(1)
	}
}
