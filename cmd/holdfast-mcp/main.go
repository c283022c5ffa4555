// Command holdfast-mcp gives a coding agent locks over the Model Context Protocol. holdfast mcp runs it.
package main

import (
	"os"

	"holdfast/internal/cli/mcp"
	"holdfast/internal/cli/program"
)

func main() { os.Exit(program.Main(mcp.New())) }
