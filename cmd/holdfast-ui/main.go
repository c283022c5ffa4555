// Command holdfast-ui shows locks, queues and deadlocks in a browser. holdfast ui runs it.
package main

import (
	"os"

	"holdfast/internal/cli/dashboard"
	"holdfast/internal/cli/program"
)

func main() { os.Exit(program.Main(dashboard.New())) }
