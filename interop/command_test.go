//go:build unix

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This test binary also plays the commands that run under a lock, and zkServer.sh (see pretenders). Its
// environment selects the role, so nothing else must be built or installed.
const commandVar = "HOLDFAST_INTEROP_COMMAND"

// runCommand runs the command that the environment names. It returns false if there is none, so
// that the tests run.
func runCommand() (is bool, err error) {
	switch name, path, _ := strings.Cut(os.Getenv(commandVar), " "); name {
	case "":
		return false, nil
	case "zkserver":
		return true, pretendZooKeeper(path)
	case "increment":
		return true, addOne(path)
	case "turns":
		return true, turnsProgram(os.Args[1:])
	case "hold":
		fmt.Println("held")
		select {} // until killed
	default:
		if run := moreCommands[name]; run != nil {
			return true, run(path)
		}
		return true, fmt.Errorf("%s: no command %q", commandVar, name)
	}
}

// moreCommands has the commands of some systems only; each has an argument.
var moreCommands = map[string]func(arg string) error{}

func increment(path string) string { return commandVar + "=increment " + path }

const hold = commandVar + "=hold"

// addOne reads the number, waits long enough for a second holder to come in between, and writes
// it back plus one. It ignores locks, so two at once lose an update.
func addOne(path string) error {
	n, err := readNumber(path)
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	return os.WriteFile(path, strconv.AppendInt(nil, int64(n)+1, 10), 0o600)
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// newNumber makes a file with the number 0.
func newNumber(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "number")
	if err := os.WriteFile(path, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
