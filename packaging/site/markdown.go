package main

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A document is a page in Markdown, as goldmark has read it.
type document struct {
	text    []byte
	root    ast.Node
	ids     map[ast.Node]string // of headings
	targets map[ast.Node]target // of links and pictures
}

// parse reads a document: its title, its headings and its first paragraph.
func (s *site) parse(p *page, source []byte) {
	p.text = source
	p.root = goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	p.ids, p.anchors = map[ast.Node]string{}, map[string]bool{}
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			h := heading{n.Level, p.anchor(plain(n, source)), plain(n, source)}
			p.ids[n] = h.id
			p.headings = append(p.headings, h)
			if h.level == 1 && ast.Node(n) != p.root.FirstChild() {
				s.problem(p, n.Pos(), "%q is a second heading of level 1: write ## %[1]s", h.text)
			}
		case *ast.HTMLBlock:
			if !isComment(n.Lines().Value(source), closure(n, source)) {
				s.problem(p, n.Lines().At(0).Start, "HTML is not allowed, except comments: write Markdown, or put the text in backquotes")
			}
		case *ast.RawHTML:
			if !isComment(n.Segments.Value(source), nil) {
				s.problem(p, n.Segments.At(0).Start, "HTML is not allowed, except comments: write Markdown, or put %s in backquotes", n.Segments.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	if h, ok := p.root.FirstChild().(*ast.Heading); !ok || h.Level != 1 {
		s.problem(p, 0, "a document begins with its title: # TITLE")
		return
	}
	p.title = p.headings[0].text
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() == ast.KindParagraph && plain(n, source) != "" {
			p.description = shorten(plain(n, source), 160)
			break
		}
	}
	if p.description == "" {
		s.problem(p, 0, "a document needs a paragraph that says what it is about")
	}
	p.split()
}

// anchor returns the id of a heading. It is the one that GitHub gives, so a fragment is the same in the repository and on
// the site. It has no character but letters, digits, "-" and "_". The ids of the layout have a dot, so they are different.
func (p *page) anchor(text string) string {
	slug := notInAnchor.ReplaceAllString(strings.ReplaceAll(strings.ToLower(text), " ", "-"), "")
	id := slug
	for n := 1; p.anchors[id]; n++ {
		id = fmt.Sprintf("%s-%d", slug, n)
	}
	p.anchors[id] = true
	return id
}

var notInAnchor = regexp.MustCompile(`[^\pL\pM\pN_-]`)

func closure(n *ast.HTMLBlock, source []byte) []byte {
	if !n.HasClosure() {
		return nil
	}
	return n.ClosureLine.Value(source)
}

// isComment reports whether HTML is one comment.
func isComment(parts ...[]byte) bool {
	all := bytes.TrimSpace(bytes.Join(parts, nil))
	return bytes.HasPrefix(all, []byte("<!--")) && bytes.Index(all, []byte("-->")) == len(all)-len("-->")
}

// plain returns the text of a node without markup, on one line.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Type() == ast.TypeBlock {
			b.WriteByte(' ') // between paragraphs and cells
		}
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(source)
			if n.Parent().Kind() != ast.KindCodeSpan {
				value = util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences(value)))
			}
			b.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.CodeBlock:
			b.Write(n.Lines().Value(source))
		case *ast.FencedCodeBlock:
			b.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// shorten cuts a text after a word, at most limit characters long.
func shorten(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	text = string([]rune(text)[:limit])
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		text = text[:i]
	}
	return strings.TrimRight(text, " .,:;") + " …"
}

// render makes the HTML of a page.
func (s *site) render(p *page) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(pageRenderer{p}, 100))))
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, p.text, p.root); err != nil {
		s.problem(p, 0, "%v", err)
	}
	head, body, _ := strings.Cut(b.String(), "</h1>\n")
	p.head, p.body = template.HTML(head+"</h1>"), template.HTML(body)
}

// A pageRenderer renders the nodes that goldmark would render otherwise: links and pictures to their targets, headings with
// ids, tables that scroll and have no style attributes, which the Content-Security-Policy forbids.
type pageRenderer struct{ p *page }

func (r pageRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindHeading, r.heading)
	reg.Register(ast.KindLink, r.link)
	reg.Register(ast.KindImage, r.image)
	reg.Register(ast.KindCodeSpan, codeSpan)
	reg.Register(ast.KindHTMLBlock, nothing)
	reg.Register(ast.KindRawHTML, nothing)
	reg.Register(east.KindTable, r.table)
	reg.Register(east.KindTableCell, r.cell)
}

// nothing leaves a comment out.
func nothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

func (r pageRenderer) heading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n, id := node.(*ast.Heading), html.EscapeString(r.p.ids[node])
	switch {
	case entering:
		fmt.Fprintf(w, `<h%d id="%s">`, n.Level, id)
	case n.Level > 1:
		// Readers with a mouse copy the address of the heading from this link. Other readers have the table of contents.
		fmt.Fprintf(w, `<a class="anchor" href="#%s" aria-hidden="true" tabindex="-1">#</a></h%d>`+"\n", id, n.Level)
	default:
		fmt.Fprintf(w, "</h%d>\n", n.Level)
	}
	return ast.WalkContinue, nil
}

// link renders a link. If it leads to a file without an address, it renders the path of the file.
func (r pageRenderer) link(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	t := r.p.targets[n]
	named := t.source != "" && strings.HasSuffix(t.source, plain(n, source)) // the text is the file's name
	code := n.ChildCount() == 1 && n.FirstChild().Kind() == ast.KindCodeSpan
	switch {
	case t.href != "" && entering:
		fmt.Fprintf(w, `<a href="%s">`, html.EscapeString(t.href))
	case t.href != "":
		w.WriteString("</a>")
	case named && !code && entering:
		w.WriteString("<code>")
	case named && !code:
		w.WriteString("</code>")
	case !named && !entering:
		fmt.Fprintf(w, " (<code>%s</code>)", html.EscapeString(t.source))
	}
	return ast.WalkContinue, nil
}

// longCode is the number of characters from which code may break into lines. A break in -E is hard to read.
const longCode = 25

func codeSpan(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		text, class := plain(n, source), ""
		if utf8.RuneCountInString(text) >= longCode {
			class = ` class="long"`
		}
		fmt.Fprintf(w, "<code%s>%s</code>", class, html.EscapeString(text))
	}
	return ast.WalkSkipChildren, nil
}

func (r pageRenderer) image(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		fmt.Fprintf(w, `<img src="%s" alt="%s">`, html.EscapeString(r.p.targets[n].href), html.EscapeString(plain(n, source)))
	}
	return ast.WalkSkipChildren, nil
}

// table renders a table in a box, which scrolls if the table is wider than the page.
func (r pageRenderer) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		w.WriteString("<div class=\"scroll\"><table>\n")
	} else {
		w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// cell renders a cell. An empty heading is an ordinary cell, since screen readers announce headings.
func (r pageRenderer) cell(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*east.TableCell)
	tag, attributes := "td", ""
	if n.Parent().Kind() == east.KindTableHeader && n.HasChildren() {
		tag, attributes = "th", ` scope="col"`
	}
	if n.Alignment == east.AlignRight || n.Alignment == east.AlignCenter {
		attributes += ` class="` + n.Alignment.String() + `"`
	}
	if entering {
		fmt.Fprintf(w, "<%s%s>", tag, attributes)
	} else {
		fmt.Fprintf(w, "</%s>\n", tag)
	}
	return ast.WalkContinue, nil
}
