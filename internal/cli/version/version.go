// Package version knows which version of holdfast this program is of.
package version

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"holdfast/internal/cli/term"
)

// A release build sets them, with -ldflags='-X holdfast/internal/cli/version.release=…'. Otherwise they are those that
// the go command has found in the repository.
var (
	release string // such as v0.1.0
	commit  string
	date    string // of the commit, in RFC 3339
)

// A Document is a version in JSON.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Date       string `json:"date,omitempty"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
}

// Info returns the version of this program.
func Info() Document {
	v := Document{
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
	if release != "" {
		v.Version, v.Commit, v.Date = release, commit, date
	}
	return v
}

// Print prints the version in one line, which ends with the commit and its date if it is wide.
func Print(w io.Writer, wide bool) error {
	v := Info()
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
