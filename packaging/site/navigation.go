package main

import (
	"github.com/yuin/goldmark/ast"
)

// A group is a part of the navigation: a heading of docs/README.md and the pages below it. The first group has no title.
type group struct {
	title string
	items []item
}

type item struct {
	text string
	page *page
}

// navigate makes the navigation from docs/README.md, so that the list of documents has one source. Each entry of its lists
// begins with the link to a page. A page that it does not list is an error, since readers would not find it.
func (s *site) navigate() {
	p := s.bySource[contents]
	listed := map[*page]bool{s.bySource[front]: true, p: true}
	groups := []group{{items: []item{{s.bySource[front].title, s.bySource[front]}}}}
	entry := func(n ast.Node) {
		link := firstLink(n)
		if link == nil {
			return
		}
		t, err := s.resolve(p, string(link.Destination))
		if err != nil || t.page == nil {
			return // link reports it, or it is no page
		}
		if listed[t.page] {
			s.problem(p, link.Pos(), "%s is listed twice", t.page.source)
			return
		}
		listed[t.page] = true
		g := &groups[len(groups)-1]
		g.items = append(g.items, item{plain(link, p.text), t.page})
	}
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				groups = append(groups, group{title: plain(n, p.text)})
			}
		case *ast.Paragraph:
			if len(groups) == 1 {
				entry(n)
			}
		case *ast.List:
			for i := n.FirstChild(); i != nil; i = i.NextSibling() {
				entry(i)
			}
		}
	}
	s.groups = groups
	for _, other := range s.pages {
		if !listed[other] {
			s.problem(other, 0, "%s does not list this page", contents)
		}
	}
}

func firstLink(n ast.Node) *ast.Link {
	var first *ast.Link
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && first == nil {
			first = link
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return first
}
