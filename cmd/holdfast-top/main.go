// Command holdfast-top shows locks and their queues on a screen that is kept up to date. holdfast top runs it.
package main

import (
	"os"

	"holdfast/internal/cli/program"
	"holdfast/internal/cli/top"
)

func main() { os.Exit(program.Main(top.New())) }
