package main

import (
	_ "embed"
	"os"

	"holdfast/internal/cli/program"
	"holdfast/internal/cli/root"
)

// The licences of all that is linked on any system, which they demand to be shown. TestLicensesAreOfWhatIsLinked
// writes the file.
//
//go:embed licenses.txt
var licenses string

func main() { os.Exit(program.Main(root.New(licenses, os.Args[1:]...))) }
