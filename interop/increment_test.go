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

// incrementVar names the file with the number, in the environment of a run of
// this test binary that shall only add one to it.
const incrementVar = "HOLDFAST_INTEROP_INCREMENT"

// increment is the command under the lock: it reads the number, waits long
// enough for a second holder to get in between, and writes it back plus one. It
// knows nothing of locks, so two at once lose an update.
func increment(path string) {
	if err := addOne(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

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
