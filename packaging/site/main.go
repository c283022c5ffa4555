// Site makes static pages from the documents of this repository.
//
//	go run . -out DIR [-root ../..] [-version v0.1.0] [-source URL] [-pictures DIR]
//
// The same documents give the same bytes. A link that leads nowhere is an error with its file and line.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("site", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var cfg config
	out := flags.String("out", "", "write the pages to this directory, which is made if it does not exist")
	root := flags.String("root", "../..", "the root of the repository")
	pictures := flags.String("pictures", "", "directory of pictures (NAME.png, or NAME-light.png and NAME-dark.png) and of screens as text (NAME.txt) for the page Pictures")
	flags.StringVar(&cfg.version, "version", "", "version that the pages show")
	flags.StringVar(&cfg.source, "source", "", "URL of the repository's files, for links to files that are not pages; without it, the pages show the path of such a file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() > 0 {
		return errors.New("usage: go run . -out DIR; -h lists all flags")
	}
	if u, err := url.Parse(cfg.source); cfg.source != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("-source %q is not the URL of a directory: write it as https://HOST/PATH", cfg.source)
	}
	if *pictures != "" {
		cfg.pictures = os.DirFS(*pictures)
	}
	files, err := build(os.DirFS(*root), cfg)
	if err != nil {
		return err
	}
	if err := write(*out, files); err != nil {
		return err
	}
	pages, bytes := 0, 0
	for name, content := range files {
		bytes += len(content)
		if strings.HasSuffix(name, ".html") {
			pages++
		}
	}
	fmt.Fprintf(stdout, "%d pages, %d files, %d KB in %s\n", pages, len(files), bytes>>10, *out)
	return nil
}

// write writes the site to a directory. It refuses a directory that has other files. They may be pages
// of an earlier run whose documents are gone, or not of a site at all, so write does not remove them.
func write(dir string, files map[string][]byte) error {
	var others []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if _, ok := files[filepath.ToSlash(rel)]; !ok {
			others = append(others, rel)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("%s has files that are not of this site, such as %s: remove them, or choose another directory", dir, others[0])
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
