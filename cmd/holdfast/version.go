package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
}

func newVersion() *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format == "json" {
				return document(cmd.OutOrStdout(), buildInfo())
			}
			return printVersion(cmd.OutOrStdout())
		},
	}
	format.register(cmd)
	return cmd
}

// printVersion prints the version in one line.
func printVersion(w io.Writer) error {
	v := buildInfo()
	_, err := fmt.Fprintf(w, "holdfast %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
	return err
}

// buildInfo returns the version of this program.
func buildInfo() versionDocument {
	v := versionDocument{
		APIVersion: apiVersion, Kind: "Version", Version: "unknown",
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		v.Version = build.Main.Version
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
