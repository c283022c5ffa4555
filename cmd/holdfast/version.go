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
		Long: `version prints the version of holdfast. -o wide adds the commit, and -o name prints the version alone.
-o json and -o jsonl print one Version: see docs/reference/json.md.

Exit codes:
  0  the version is printed
  2  wrong command line`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, w := buildInfo(), cmd.OutOrStdout()
			switch format {
			case "json":
				return document(w, v)
			case "jsonl":
				return line(w, v)
			case "name":
				_, err := fmt.Fprintln(w, v.Version)
				return err
			}
			return printVersion(w, format == "wide")
		},
	}
	format.register(cmd, allFormats...)
	return cmd
}

// printVersion prints the version in one line, which ends with the commit if it is wide.
func printVersion(w io.Writer, wide bool) error {
	v := buildInfo()
	text := fmt.Sprintf("holdfast %s %s %s/%s", v.Version, v.Go, v.OS, v.Arch)
	if wide && v.Commit != "" {
		text += " " + v.Commit
	}
	_, err := fmt.Fprintln(w, text)
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
