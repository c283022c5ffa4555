//go:build unix

package peers

import (
	"fmt"
	"os"
	"os/exec"
)

// A MissingError says that a peer is not installed on this machine, and which
// Debian package has it.
type MissingError struct {
	What    string // a file, a command or a module
	Package string // what to give to apt-get install
}

// Error is one line that ends with the command that installs the peer.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install -y %s", e.What, e.Package)
}

// NeedCommand reports that a command is not in PATH, as a [MissingError] that names its package, or nil.
func NeedCommand(name, pkg string) error {
	_, err := needCommand(name, pkg)
	return err
}

// needCommand finds a command in PATH.
func needCommand(name, pkg string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &MissingError{What: name, Package: pkg}
	}
	return path, nil
}

// needFile checks that a file of a Debian package is there.
func needFile(path, pkg string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", &MissingError{What: path, Package: pkg}
	}
	return path, nil
}
