package main

import (
	_ "embed"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
)

// A release build sets them, with -ldflags='-X main.releaseVersion=…'. Otherwise they are those that the go command
// has found in the repository.
var (
	releaseVersion string // such as v0.1.0
	releaseCommit  string
	releaseDate    string // of the commit, in RFC 3339
)

// The licences of all that is linked on any system, which they demand to be shown. TestLicensesAreOfWhatIsLinked
// writes the file.
//
//go:embed licenses.txt
var licenses string

type versionDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Date       string `json:"date,omitempty"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
}

func newVersion() *cobra.Command {
	var format term.Format
	var showLicenses bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `version prints the version of holdfast. -o wide adds the commit and its date, and -o name prints the version
alone. -o json and -o jsonl print one Version: see docs/reference/json.md. --licenses prints the licences of
holdfast and of the libraries in it.

Exit codes:
  0  the version is printed
  2  wrong command line`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, w := buildInfo(), cmd.OutOrStdout()
			if showLicenses {
				if cmd.Flags().Changed("output") {
					return term.Usage("leave out one of them", "version: --licenses has no --output: the licences are text")
				}
				_, err := io.WriteString(w, licenses)
				return err
			}
			switch format {
			case "json":
				return term.JSON(w, v)
			case "jsonl":
				return term.JSONLine(w, v)
			case "name":
				_, err := fmt.Fprintln(w, v.Version)
				return err
			}
			return printVersion(w, format == "wide")
		},
	}
	cmd.Flags().BoolVar(&showLicenses, "licenses", false, "print the licences of holdfast and of the libraries in it")
	format.Register(cmd, term.AllFormats...)
	return cmd
}

// printVersion prints the version in one line, which ends with the commit and its date if it is wide.
func printVersion(w io.Writer, wide bool) error {
	v := buildInfo()
	text := fmt.Sprintf("holdfast %s %s %s/%s", v.Version, v.Go, v.OS, v.Arch)
	if wide && v.Commit != "" {
		text += " " + v.Commit
	}
	if wide && v.Date != "" {
		text += " " + v.Date
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// buildInfo returns the version of this program.
func buildInfo() versionDocument {
	v := versionDocument{
		APIVersion: term.APIVersion, Kind: "Version", Version: "unknown",
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		v.Version = build.Main.Version
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.time":
				v.Date = s.Value
			}
		}
	}
	if releaseVersion != "" {
		v.Version, v.Commit, v.Date = releaseVersion, releaseCommit, releaseDate
	}
	return v
}
