// Package repotest tests the repository itself: the arrows between packages, the documents and the
// commands in them, the examples, the decoders and their fuzz targets. The tests run in the module's
// root, so their paths are relative to it.
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
