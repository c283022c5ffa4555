package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// A section is the text below a heading, for the search.
type section struct {
	heading
	content string
}

// split splits a page into its sections.
func (p *page) split() {
	var parts []string
	end := func() {
		if n := len(p.sections); n > 0 {
			p.sections[n-1].content = strings.Join(parts, " ")
		}
		parts = nil
	}
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			end()
			p.sections = append(p.sections, section{heading: heading{h.Level, p.ids[h], plain(h, p.text)}})
		} else if t := plain(n, p.text); t != "" {
			parts = append(parts, t)
			p.words += len(strings.Fields(t))
		}
	}
	end()
}

// A section that is longer than wholeText keeps its first excerptText characters, which the results show. Of the rest, the
// index has each word once.
const (
	wholeText   = 400
	excerptText = 200
)

// searchIndex returns the index, which site.js searches:
//
//	{"pages": [[path, title], …], "sections": [[page, id, heading, text, more words], …]}
//
// The pages are in the order of the navigation, which decides between results that are equally good.
func (s *site) searchIndex() []byte {
	index := struct {
		Pages    [][2]string `json:"pages"`
		Sections [][]any     `json:"sections"`
	}{}
	indexed := map[*page]bool{}
	add := func(p *page) {
		if indexed[p] {
			return
		}
		indexed[p] = true
		for _, part := range p.sections {
			text, more := part.content, ""
			if len(text) > wholeText {
				text = shorten(text, excerptText)
				more = moreWords(text, part.content)
			}
			index.Sections = append(index.Sections, []any{len(index.Pages), part.id, part.text, text, more})
		}
		index.Pages = append(index.Pages, [2]string{escapePath(p.path), p.title})
	}
	for _, g := range s.groups {
		for _, i := range g.items {
			add(i.page)
		}
	}
	for _, p := range s.pages {
		add(p)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the file is JSON, and no part of a page
	if err := e.Encode(index); err != nil {
		panic(err) // strings and numbers
	}
	return b.Bytes()
}

// betweenWords separates words in the index and in a query. site.js has the same characters.
const betweenWords = " \t\n\"'`()[]{}<>,;:!?|=…"

// moreWords returns the words of a section that its text in the index does not have, each once.
func moreWords(text, whole string) string {
	text = strings.ToLower(text)
	seen := map[string]bool{}
	var more []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(whole), func(r rune) bool { return strings.ContainsRune(betweenWords, r) }) {
		word = strings.TrimRight(word, ".")
		if word == "" || seen[word] || strings.Contains(text, word) {
			continue
		}
		seen[word] = true
		more = append(more, word)
	}
	return strings.Join(more, " ")
}
