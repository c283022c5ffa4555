// Package repotest has the tests about the repository itself: the arrows between packages, the
// documents and the commands in them, the examples, the decoders and their fuzz targets. They run
// in the module's root, so paths in them are relative to it.
package repotest

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
