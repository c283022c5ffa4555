package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var writeLicenses = flag.Bool("write-licenses", false, "write licenses.txt")

const licensesFile = "licenses.txt"

// TestLicensesAreOfWhatIsLinked compares licenses.txt with the licences of all modules that are linked on any system
// of the release, also of those in the programs beside.
func TestLicensesAreOfWhatIsLinked(t *testing.T) {
	t.Parallel()
	want := licensesOf(t, linkedModules(t))
	if *writeLicenses {
		if err := os.WriteFile(licensesFile, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if licenses != want {
		t.Errorf("%s differs from the licences of the linked modules. Run: go test ./cmd/holdfast -run TestLicensesAreOfWhatIsLinked -write-licenses", licensesFile)
	}
}

// A linked module is a module whose code is in a program.
type linkedModule struct{ Path, Dir string }

// linkedModules returns the modules, first holdfast, then Go, and then the others by their paths.
func linkedModules(t *testing.T) []linkedModule {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[linkedModule]bool)
	for _, system := range []string{"linux", "darwin", "windows", "freebsd"} {
		list := exec.Command("go", "list", "-deps", "-json=Module", "../...")
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		for packages := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ Module *linkedModule }
			if err := packages.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if p.Module != nil && p.Module.Dir != root {
				found[*p.Module] = true
			}
		}
	}
	all := []linkedModule{{"holdfast", root}, {"Go", runtimeRoot(t)}}
	var others []linkedModule
	for m := range found {
		others = append(others, m)
	}
	slices.SortFunc(others, func(a, b linkedModule) int { return cmp.Compare(a.Path, b.Path) })
	return append(all, others...)
}

func runtimeRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// licensesOf returns the text of licenses.txt: a list of the modules with the SPDX identifiers of their licences,
// and each licence once. Texts that differ only in their title or their copyright lines are printed once. The copyright
// lines are then below each module.
func licensesOf(t *testing.T, modules []linkedModule) string {
	t.Helper()
	var list, texts strings.Builder
	var order []string // the texts
	type user struct{ module, text string }
	users := make(map[string][]user)
	for _, m := range modules {
		files, err := filepath.Glob(filepath.Join(m.Dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, path := range files {
			name := strings.ToUpper(filepath.Base(path))
			if !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "NOTICE") {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := tidyText(string(data))
			if !strings.HasPrefix(name, "NOTICE") {
				ids = append(ids, spdxOf(t, m.Path, text)...)
			}
			for _, part := range parts(text) {
				key := flat(terms(part))
				if users[key] == nil {
					order = append(order, key)
				}
				users[key] = append(users[key], user{m.Path, part})
			}
		}
		if len(ids) == 0 {
			t.Errorf("%s has no file of a licence", m.Path)
		}
		fmt.Fprintf(&list, "%-45s %s\n", m.Path, strings.Join(ids, " AND "))
	}
	line := strings.Repeat("=", 80)
	for _, key := range order {
		by := users[key]
		text := by[0].text
		same := !slices.ContainsFunc(by, func(u user) bool { return flat(u.text) != flat(text) })
		if !same {
			text = terms(text)
		}
		fmt.Fprintf(&texts, "\n%s\n", line)
		for _, u := range by {
			fmt.Fprintln(&texts, u.module)
			if !same {
				fmt.Fprintf(&texts, "    %s\n", strings.Join(copyrights.FindAllString(u.text, -1), "\n    "))
			}
		}
		fmt.Fprintf(&texts, "%s\n\n%s", line, text)
	}
	return "Licences of holdfast and of what is linked into it on any system, by SPDX identifier:\n\n" + list.String() + texts.String()
}

// flat returns a text in one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

var (
	copyrights = regexp.MustCompile(`(?m)^Copyright .*$`)
	mitTitle   = regexp.MustCompile(`^(The )?MIT License( \(MIT\))?\n`)
)

// terms returns a licence without its title and its copyright lines.
func terms(text string) string {
	return strings.TrimLeft(copyrights.ReplaceAllString(mitTitle.ReplaceAllString(text, ""), ""), "\n")
}

// parts splits the Apache License from the notice in its appendix, so that the licence is there once. An appendix that
// names nobody is left out.
func parts(text string) []string {
	body, appendix, ok := strings.Cut(text, "END OF TERMS AND CONDITIONS")
	if !strings.Contains(text, "Apache License") || !ok {
		return []string{text}
	}
	body = strings.TrimRight(body, " \n") + "\n"
	_, notice, ok := strings.Cut(appendix, "   Copyright ")
	if !ok || strings.HasPrefix(notice, "[yyyy]") || strings.HasPrefix(notice, "{yyyy}") {
		return []string{body}
	}
	return []string{body, "   Copyright " + notice}
}

// tidyText removes what differs between copies of one licence: empty lines at both ends, and spaces at line ends.
func tidyText(text string) string {
	var lines []string
	for line := range strings.Lines(strings.Trim(text, "\r\n \t")) {
		lines = append(lines, strings.TrimRight(line, "\r\n \t"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// spdxOf returns the identifiers of the licences in a text. A licence that it does not know fails the test: somebody
// must read it first.
func spdxOf(t *testing.T, module, text string) (ids []string) {
	t.Helper()
	words := flat(text)
	for _, known := range []struct{ id, words string }{
		{"MIT", `Permission is hereby granted, free of charge, to any person obtaining a copy of this software`},
		{"BSD-3-Clause", `Redistributions of source code must retain .* Neither the name`},
		{"Apache-2.0", `Apache License,? Version 2\.0`},
	} {
		if regexp.MustCompile(known.words).MatchString(words) {
			ids = append(ids, known.id)
		}
	}
	if ids == nil {
		t.Errorf("%s has a licence that this test does not know: read it, and decide", module)
	}
	return ids
}
