package main

import (
	"os"

	"holdfast/internal/cli/program"
)

func main() { os.Exit(program.Main(newRoot())) }
