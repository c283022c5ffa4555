//go:build unix

package zklocal

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"holdfast/zkserver"
)

func TestADirectoryThatIsNotForItsOwnerOnlyIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, 0o750, 0o770, 0o701, 0o777, 0o500, 0o300, 0o600, 0} {
		dir := newDir(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		_, openErr := Open(Config{Dir: dir})
		_, hostErr := OpenHost(zkserver.Config{Dir: dir})
		os.Chmod(dir, 0o700) // so that it can be removed
		for _, err := range []error{openErr, hostErr} {
			for _, want := range []string{fmt.Sprintf("%04o", mode), "chmod 700 " + dir} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("mode %04o: got %v; want it to say %q", mode, err, want)
				}
			}
		}
	}
}

func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	dir := "/" // / belongs to root
	if os.Geteuid() == 0 {
		dir = t.TempDir()
		if err := os.Chown(dir, 65534, -1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "belongs to user id") {
		t.Errorf("got %v; want an error that names another owner", err)
	}
}
