package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// A target is where a link leads. A link to a file that is no page has no href if the repository has no public address.
type target struct {
	href   string
	source string // the path in the repository of a file that is no page
	page   *page
}

var pictureTypes = []string{".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp"}

// resolve finds the target of a link.
func (s *site) resolve(p *page, destination string) (target, error) {
	u, err := url.Parse(destination)
	switch {
	case err != nil:
		return target{}, err
	case slices.Contains([]string{"http", "https", "mailto"}, u.Scheme):
		return target{href: destination}, nil
	case u.Scheme != "":
		return target{}, fmt.Errorf("a link with the scheme %q is not allowed", u.Scheme)
	case u.Host != "" || strings.HasPrefix(u.Path, "/"):
		return target{}, fmt.Errorf("%q: begin the link at the directory of the document", destination)
	case u.Path == "" && u.Fragment == "":
		return target{}, errors.New("an empty link")
	}
	name := p.source
	if u.Path != "" {
		name = path.Join(path.Dir(p.source), u.Path)
	}
	if name == ".." || strings.HasPrefix(name, "../") {
		return target{}, fmt.Errorf("%q is outside the repository", destination)
	}
	info, err := fs.Stat(s.repo, name)
	if err != nil {
		return target{}, fmt.Errorf("there is no file %s", name)
	}
	other := s.bySource[name]
	if info.IsDir() {
		other = s.bySource[path.Join(name, "README.md")]
	}
	if other == nil {
		t := target{source: name}
		if s.source != "" {
			t.href = s.sourceURL(name)
			if u.Fragment != "" {
				t.href += "#" + u.EscapedFragment()
			}
		}
		return t, nil
	}
	t := target{page: other}
	if u.Path != "" {
		t.href = relative(p.path, other.path)
	}
	if u.Fragment != "" {
		if !other.anchors[u.Fragment] {
			return target{}, fmt.Errorf("%s has no heading #%s", other.source, u.Fragment)
		}
		t.href += "#" + u.EscapedFragment()
	}
	return t, nil
}

// link resolves the links and pictures of a page, and reports those that lead nowhere.
func (s *site) link(p *page) {
	p.targets = map[ast.Node]target{}
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			t, err := s.resolve(p, string(n.Destination))
			if err != nil {
				s.problem(p, n.Pos(), "%v", err)
			} else if t.page == nil && t.source != "" && slices.Contains(pictureTypes, path.Ext(t.source)) {
				t.href = s.copyPicture(p, t.source)
			}
			p.targets[n] = t
		case *ast.Image:
			t, err := s.resolve(p, string(n.Destination))
			switch {
			case err != nil:
				s.problem(p, n.Pos(), "picture: %v", err)
			case !slices.Contains(pictureTypes, path.Ext(t.source)):
				s.problem(p, n.Pos(), "picture: %s is no picture of the repository", n.Destination)
			case plain(n, p.text) == "":
				s.problem(p, n.Pos(), "picture: %s needs a text, which screen readers read: ![TEXT](%[1]s)", n.Destination)
			default:
				t.href = s.copyPicture(p, t.source)
			}
			p.targets[n] = t
		}
		return ast.WalkContinue, nil
	})
}

// copyPicture adds a picture to the site, and returns the link to it.
func (s *site) copyPicture(p *page, name string) string {
	content, err := fs.ReadFile(s.repo, name)
	if err != nil {
		s.problems = append(s.problems, err)
	}
	s.add(name, name, content)
	return relative(p.path, name)
}

func (s *site) sourceURL(name string) string {
	return strings.TrimRight(s.source, "/") + "/" + escapePath(name)
}

// escapePath returns a path as a part of a URL.
func escapePath(name string) string { return (&url.URL{Path: name}).EscapedPath() }
