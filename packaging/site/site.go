package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// config has the settings of the command line.
type config struct {
	version  string
	source   string // URL of the repository's files, or ""
	pictures fs.FS  // or nil
}

// A site is made from documents. Its files are collected in memory, so that nothing is written if a document is wrong.
type site struct {
	config
	repo     fs.FS
	pages    []*page          // in the order of their sources, the page of pictures last
	bySource map[string]*page // by the path of the document in the repository
	groups   []group          // the navigation
	files    map[string][]byte
	owners   map[string]string // the origin of each file, by its path in lower case
	problems []error
}

// A page is one document.
type page struct {
	source      string // the document's path in the repository, or "" if the page has none
	path        string // in the site
	title       string
	description string // from the first paragraph
	headings    []heading
	anchors     map[string]bool // the ids of the headings
	head, body  template.HTML   // the heading of level 1, and the rest
	sections    []section       // for the search
	words       int             // decides whether the page gets a table of contents

	document // as goldmark has read it
}

type heading struct {
	level    int
	id, text string
}

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/*.html"))

// The documents that become pages. README.md and docs/README.md must exist: the first is the front page, the
// second the navigation.
const (
	front    = "README.md"
	contents = "docs/README.md"
)

// documents returns the paths of all documents that become pages.
func documents(repo fs.FS) ([]string, error) {
	names := []string{front, contents}
	for _, pattern := range []string{"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "chaos/README.md", "interop/README.md", "contrib/*/README.md"} {
		found, err := fs.Glob(repo, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	err := fs.WalkDir(repo, "docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".md") && name != contents {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// build makes the site. Its error has a line for each fault of the documents.
func build(repo fs.FS, cfg config) (map[string][]byte, error) {
	s := &site{config: cfg, repo: repo, bySource: map[string]*page{}, files: map[string][]byte{}, owners: map[string]string{}}
	names, err := documents(repo)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			return nil, err
		}
		p := &page{source: name, path: outputPath(name)}
		s.parse(p, text)
		s.pages = append(s.pages, p)
		s.bySource[name] = p
		s.add(p.path, name, nil) // its content follows when all headings are known
	}
	s.navigate()
	for _, p := range s.pages {
		s.link(p)
	}
	if cfg.pictures != nil {
		s.addPictures()
	}
	if len(s.problems) == 0 {
		s.finish()
	}
	if len(s.problems) > 0 {
		return nil, errors.Join(s.problems...)
	}
	return s.files, nil
}

// finish renders the pages, and adds the files that all of them use.
func (s *site) finish() {
	for _, p := range s.pages {
		if p.source != "" {
			s.render(p)
		}
		var b bytes.Buffer
		if err := layout.ExecuteTemplate(&b, "page.html", s.view(p)); err != nil {
			s.problems = append(s.problems, err)
			return
		}
		s.files[p.path] = b.Bytes()
	}
	for _, name := range []string{"site.css", "site.js"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			s.problems = append(s.problems, err)
		}
		s.add("assets/"+name, "the site", content)
	}
	// The icon is the one of holdfast ui.
	icon, err := fs.ReadFile(s.repo, "ui/assets/icon.svg")
	if err != nil {
		s.problems = append(s.problems, err)
	}
	s.add("assets/icon.svg", "the site", icon)
	s.add("assets/search.json", "the site", s.searchIndex())
}

// outputPath returns the path of a document's page. Web servers show index.html for a directory.
func outputPath(source string) string {
	dir, base := path.Split(strings.ToLower(source))
	name := strings.TrimSuffix(base, ".md")
	if name == "readme" {
		name = "index"
	}
	return dir + name + ".html"
}

// add adds a file. Two files whose names differ in case only are one file on some systems, so they are refused.
func (s *site) add(name, origin string, content []byte) {
	key := strings.ToLower(name)
	if other, ok := s.owners[key]; ok && other != origin {
		s.problems = append(s.problems, fmt.Errorf("%s:1: its file %s is also the file of %s", origin, name, other))
		return
	}
	s.owners[key] = origin
	s.files[name] = content
}

// problem reports a fault of a document at an offset in its text.
func (s *site) problem(p *page, offset int, format string, args ...any) {
	line := 1 + bytes.Count(p.text[:max(0, min(offset, len(p.text)))], []byte("\n"))
	s.problems = append(s.problems, fmt.Errorf("%s:%d: %s", p.source, line, fmt.Sprintf(format, args...)))
}

// A view is what the template of a page needs.
type view struct {
	Title, Description, Version string
	Top                         string // from the page to the directory of the site: "" or "../…"
	Groups                      []viewGroup
	Headings                    []viewHeading
	Head, Body                  template.HTML
	Source, SourceURL           string
}

type viewGroup struct {
	Title string
	Items []viewItem
}

type viewItem struct {
	Text, Href string
	Current    bool
}

type viewHeading struct {
	ID, Text string
	Below    bool // under the heading before it
}

// A page gets a table of contents from this many headings and words on.
const (
	tocHeadings = 4
	tocWords    = 500
)

func (s *site) view(p *page) view {
	v := view{
		Title: p.title + " · holdfast", Description: p.description, Version: s.version,
		Top: strings.Repeat("../", strings.Count(p.path, "/")), Head: p.head, Body: p.body, Source: p.source,
	}
	if p.title == "holdfast" {
		v.Title = p.title
	}
	if s.source != "" && p.source != "" {
		v.SourceURL = s.sourceURL(p.source)
	}
	for _, g := range s.groups {
		vg := viewGroup{Title: g.title}
		for _, i := range g.items {
			vg.Items = append(vg.Items, viewItem{Text: i.text, Href: relative(p.path, i.page.path), Current: i.page == p})
		}
		v.Groups = append(v.Groups, vg)
	}
	for _, h := range p.headings {
		if h.level == 2 || h.level == 3 {
			v.Headings = append(v.Headings, viewHeading{h.id, h.text, h.level == 3})
		}
	}
	if len(v.Headings) < tocHeadings || p.words < tocWords {
		v.Headings = nil
	}
	return v
}

// relative returns the link from one page to another file of the site.
func relative(from, to string) string {
	rel, err := filepath.Rel(path.Dir("/"+from), "/"+to)
	if err != nil {
		panic(err) // both are absolute
	}
	return escapePath(filepath.ToSlash(rel))
}
