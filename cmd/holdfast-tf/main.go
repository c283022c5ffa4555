// Command holdfast-tf runs Terraform or OpenTofu with its state and its lock, and serves a backend for them. holdfast tf
// runs it.
package main

import (
	"os"

	"holdfast/internal/cli/program"
	"holdfast/internal/cli/tf"
)

func main() { os.Exit(program.Main(tf.New())) }
