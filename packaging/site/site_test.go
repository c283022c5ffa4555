package main

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"
)

// repository returns a small repository. Each change replaces a file, adds one, or removes it if the text is "".
func repository(changes map[string]string) fstest.MapFS {
	files := map[string]string{
		"README.md":           "# holdfast\n\nLocks. See [the documents](docs/README.md).\n",
		"LICENSE":             "Apache-2.0",
		"ui/assets/icon.svg":  "<svg/>",
		"chaos/run.go":        "package chaos",
		"docs/README.md":      "# Documents\n\n[Tutorial](tutorial.md): begin here.\n\n## How to\n- [Stop `it`](howto/stop.md) early.\n- [Go on](howto/go.md#more).\n",
		"docs/tutorial.md":    "# Tutorial\n\nA first lock.\n\n## Next\n\nMore.\n",
		"docs/howto/stop.md":  "# Stop\n\nEnds a job, as the [tutorial](../tutorial.md#next) says.\n\n![a plot](plot.svg)\n",
		"docs/howto/plot.svg": "<svg/>",
		"docs/howto/go.md":    "# Go\n\nGoes on.\n\n## More\n\nText.\n",
	}
	maps.Copy(files, changes)
	repo := fstest.MapFS{}
	for name, text := range files {
		if text != "" {
			repo[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return repo
}

func mustBuild(t *testing.T, repo fs.FS, cfg config) map[string][]byte {
	t.Helper()
	files, err := build(repo, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The documents of this repository make a site. Each link leads somewhere, no page loads anything from another host, and a second
// run writes the same bytes.
func TestTheDocuments(t *testing.T) {
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "new", "site")
	for _, dir := range []string{first, second, second} {
		if err := run([]string{"-out", dir, "-version", "v0.1.0"}, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	files := tree(t, first)
	if other := tree(t, second); !maps.EqualFunc(files, other, bytes.Equal) {
		t.Errorf("two runs differ: %q and %q", slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(other)))
	}
	for _, want := range []string{"index.html", "architecture.html", "docs/index.html", "docs/tutorial.html", "docs/reference/cli.html", "contrib/kubernetes/index.html", "docs/explanation/herd.svg"} {
		if files[want] == nil {
			t.Errorf("the site has no %s", want)
		}
	}
	checkPages(t, files)
	if css := string(files["assets/site.css"]); strings.Contains(css, "url(") || strings.Contains(css, "@import") {
		t.Error("the stylesheet loads other files")
	}
	if size := len(files["assets/search.json"]); size > 450<<10 {
		t.Errorf("the index of the search has %d bytes, which a phone loads slowly", size)
	}
	if text := string(files["docs/howto/cron.html"]); !strings.Contains(text, "<span>v0.1.0</span>") || !strings.Contains(text, `<li><a href="cron.html" aria-current="page">`) {
		t.Errorf("the page does not show its version or its place in the navigation")
	}
}

func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkPages checks the HTML of a site.
func checkPages(t *testing.T, files map[string][]byte) {
	t.Helper()
	ids := map[string]map[string]bool{}
	pages := map[string]*html.Node{}
	for name, content := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		checkTags(t, name, content)
		root, err := html.Parse(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		pages[name], ids[name] = root, map[string]bool{}
		for n := range root.Descendants() {
			if id := attribute(n, "id"); id != "" {
				if ids[name][id] {
					t.Errorf("%s: two elements have the id %q", name, id)
				}
				ids[name][id] = true
			}
		}
	}
	for name, root := range pages {
		count := map[string]int{}
		for n := range root.Descendants() {
			if n.Type == html.CommentNode {
				t.Errorf("%s: a comment: %s", name, n.Data)
			}
			if n.Type != html.ElementNode {
				continue
			}
			count[n.Data]++
			for _, a := range n.Attr {
				if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: <%s %s=%q>: the policy forbids it", name, n.Data, a.Key, a.Val)
				}
			}
			switch n.Data {
			case "html":
				if attribute(n, "lang") != "en" {
					t.Errorf("%s: the language is %q", name, attribute(n, "lang"))
				}
			case "title":
				if n.FirstChild == nil {
					t.Errorf("%s: no title", name)
				}
			case "style":
				t.Errorf("%s: <style>: the policy forbids it", name)
			case "meta":
				if attribute(n, "name") == "description" && attribute(n, "content") == "" {
					t.Errorf("%s: no description", name)
				}
				if attribute(n, "http-equiv") == "Content-Security-Policy" {
					count["policy"]++
					if !strings.HasPrefix(attribute(n, "content"), "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';") {
						t.Errorf("%s: policy %s", name, attribute(n, "content"))
					}
				}
			case "img":
				if attribute(n, "alt") == "" {
					t.Errorf("%s: %s has no text", name, attribute(n, "src"))
				}
				leads(t, files, ids, name, attribute(n, "src"), false)
			case "source":
				leads(t, files, ids, name, attribute(n, "srcset"), false)
			case "script":
				leads(t, files, ids, name, attribute(n, "src"), false)
			case "link":
				leads(t, files, ids, name, attribute(n, "href"), false)
			case "a":
				leads(t, files, ids, name, attribute(n, "href"), true)
			}
		}
		if count["h1"] != 1 || count["title"] != 1 || count["policy"] != 1 || count["main"] != 1 {
			t.Errorf("%s: elements %v", name, count)
		}
	}
}

// leads fails unless a link of a page leads to a file of the site, or to another host if that is allowed.
func leads(t *testing.T, files map[string][]byte, ids map[string]map[string]bool, page, link string, external bool) {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || link == "" {
		t.Errorf("%s: link %q: %v", page, link, err)
		return
	}
	if u.Scheme != "" {
		if !external || u.Scheme != "https" && u.Scheme != "http" {
			t.Errorf("%s: link %q", page, link)
		}
		return
	}
	to := page
	if u.Path != "" {
		to = path.Join(path.Dir(page), u.Path)
	}
	if files[to] == nil {
		t.Errorf("%s: %q leads to no file", page, link)
	} else if u.Fragment != "" && !ids[to][u.Fragment] {
		t.Errorf("%s: %q: %s has no element with this id", page, link, to)
	}
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// checkTags checks that each element ends where it should. Browsers and html.Parse repair a page that is wrong, each in its way.
func checkTags(t *testing.T, name string, content []byte) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(bytes.NewReader(content))
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) > 0 {
				t.Errorf("%s ends within %q: %v", name, open, z.Err())
			}
			return
		case html.StartTagToken:
			tag, _ := z.TagName()
			if !slices.Contains([]string{"meta", "link", "img", "input", "source", "br", "hr"}, string(tag)) {
				open = append(open, string(tag))
			}
		case html.EndTagToken:
			tag, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(tag) {
				t.Errorf("%s: </%s> within %q", name, tag, open)
				return
			}
			open = open[:len(open)-1]
		}
	}
}

func TestRendering(t *testing.T) {
	tests := []struct{ name, markdown, want string }{
		{"a link to a page", "[t](../tutorial.md)", `<p><a href="../tutorial.html">t</a></p>`},
		{"a link to a heading", "[t](../tutorial.md#next)", `<a href="../tutorial.html#next">t</a>`},
		{"a link to the front page", "[t](../../README.md)", `<a href="../../index.html">t</a>`},
		{"a link to a directory with a page", "[t](../)", `<a href="../index.html">t</a>`},
		{"a link within the page", "## A *new* `x` thing: (1)\n\n[t](#a-new-x-thing-1)", `<a href="#a-new-x-thing-1">t</a>`},
		{"headings of one name", "## A\n\n## A\n\n[t](#a-1)", `<h2 id="a-1">A<a class="anchor" href="#a-1" aria-hidden="true" tabindex="-1">#</a></h2>`},
		{"a heading in other letters", "## Über uns\n\n[t](#über-uns)", `<a href="#%C3%BCber-uns">t</a>`},
		{"a link to another host", "[t](https://example.com/a?b=c&d)", `<a href="https://example.com/a?b=c&amp;d">t</a>`},
		{"an address", "<https://example.com>", `<a href="https://example.com">https://example.com</a>`},
		{"a file of the repository", "[all samples](../../chaos/run.go)", `<p>all samples (<code>chaos/run.go</code>)</p>`},
		{"a file by its name", "[run.go](../../chaos/run.go)", `<p><code>run.go</code></p>`},
		{"a file by its name, as code", "[`run.go`](../../chaos/run.go)", `<p><code>run.go</code></p>`},
		{"a directory", "[the simulation](../../chaos)", `<p>the simulation (<code>chaos</code>)</p>`},
		{"a picture", `![rows & "bars"](plot.svg)`, `<img src="plot.svg" alt="rows &amp; &#34;bars&#34;">`},
		{"a link to a picture", "[plot](plot.svg)", `<a href="plot.svg">plot</a>`},
		{"a table", "| A | |\n|--:|---|\n| 1 | `a\\|b` |\n", "<div class=\"scroll\"><table>\n<thead>\n<tr>\n<th scope=\"col\" class=\"right\">A</th>\n<td></td>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td class=\"right\">1</td>\n<td><code>a|b</code></td>\n</tr>\n</tbody>\n</table></div>\n"},
		{"code", "```sh\na <b> && c\n```", `<pre><code class="language-sh">a &lt;b&gt; &amp;&amp; c` + "\n</code></pre>"},
		{"code in a line", "`-E  0` and `holdfast run --wait 30s nightly`", `<p><code>-E 0</code> and <code class="long">holdfast run --wait 30s nightly</code></p>`},
		{"a comment", "a\n\n<!-- note -->\n\nb <!-- c --> d", "<p>a</p>\n<p>b  d</p>"},
		{"markup in a heading", "## `<img src=x onerror=alert(1)>` and \\<b>", `<h2 id="img-srcx-onerroralert1-and-b"><code class="long">&lt;img src=x onerror=alert(1)&gt;</code> and &lt;b&gt;<a`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := mustBuild(t, repository(map[string]string{"docs/howto/go.md": "# Go\n\nFirst.\n\n" + test.markdown + "\n\n## More\n"}), config{})
			checkPages(t, files)
			if got := string(files["docs/howto/go.html"]); !strings.Contains(got, test.want) {
				_, got, _ = strings.Cut(got, "<main")
				t.Errorf("the page has\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestTheHeadOfAPage(t *testing.T) {
	files := mustBuild(t, repository(map[string]string{"docs/howto/go.md": "# Go `on`\n\nFirst *line*,\nsecond \"line\". " + strings.Repeat("More words. ", 20) + "\n\n## More\n"}), config{version: "v1 <2>"})
	for _, want := range []string{
		"<title>Go on · holdfast</title>", `content="First line, second &#34;line&#34;. More words. `, "More words …\">", "<span>v1 &lt;2&gt;</span>",
		`<link rel="stylesheet" href="../../assets/site.css">`, `<h1 id="go-on">Go <code>on</code></h1>`, "Made from <code>docs/howto/go.md</code>",
		`<li><span>How to</span>`, `<li><a href="stop.html">Stop it</a></li>`, `<li><a href="go.html" aria-current="page">Go on</a></li>`,
	} {
		if got := string(files["docs/howto/go.html"]); !strings.Contains(got, want) {
			t.Errorf("the page lacks %s:\n%s", want, got)
		}
	}
}

// Long pages have a table of contents, and short ones have none.
func TestContentsOfAPage(t *testing.T) {
	text := "# Go\n\nFirst.\n\n## More\n\n### Below\n\n## C\n\n## D\n\n" + strings.Repeat("word ", tocWords)
	files := mustBuild(t, repository(map[string]string{"docs/howto/go.md": text}), config{})
	checkPages(t, files)
	if got, want := string(files["docs/howto/go.html"]), `<li class="below"><a href="#below">Below</a></li>`; !strings.Contains(got, want) {
		t.Errorf("the long page lacks %s:\n%s", want, got)
	}
	if got := string(files["docs/howto/stop.html"]); strings.Contains(got, `class="toc"`) {
		t.Error("the short page has a table of contents")
	}
}

func TestLinksToFilesWithAnAddress(t *testing.T) {
	repo := repository(map[string]string{"docs/howto/go.md": "# Go\n\n[run](../../chaos/run.go#L3) and [all](../../chaos)\n\n## More\n"})
	files := mustBuild(t, repo, config{source: "https://example.com/holdfast/blob/main/"})
	checkPages(t, files)
	for _, want := range []string{
		`<a href="https://example.com/holdfast/blob/main/chaos/run.go#L3">run</a>`, `<a href="https://example.com/holdfast/blob/main/chaos">all</a>`,
		`Made from <a href="https://example.com/holdfast/blob/main/docs/howto/go.md"><code>docs/howto/go.md</code></a>`,
	} {
		if got := string(files["docs/howto/go.html"]); !strings.Contains(got, want) {
			t.Errorf("the page lacks %s:\n%s", want, got)
		}
	}
}

// Each fault of a document is refused, with the line of the fault.
func TestFaultsAreRefused(t *testing.T) {
	page := func(text string) map[string]string {
		return map[string]string{"docs/howto/go.md": "# Go\n\nFirst.\n\n## More\n\n" + text + "\n"}
	}
	tests := []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"a page that does not exist", page("a\n[t](gone.md)"), "docs/howto/go.md:8: there is no file docs/howto/gone.md"},
		{"a file that does not exist", page("[t](../../gone.go)"), "docs/howto/go.md:7: there is no file gone.go"},
		{"a link in a table", page("| a |\n|---|\n| [t](gone.md) |"), "docs/howto/go.md:9: there is no file docs/howto/gone.md"},
		{"a heading that does not exist", page("[t](../tutorial.md#gone)"), "docs/howto/go.md:7: docs/tutorial.md has no heading #gone"},
		{"a heading of the page that does not exist", page("[t](#gone)"), "docs/howto/go.md:7: docs/howto/go.md has no heading #gone"},
		{"a heading in other case", page("[t](#More)"), "docs/howto/go.md:7: docs/howto/go.md has no heading #More"},
		{"a picture that does not exist", page("![t](gone.svg)"), "docs/howto/go.md:7: picture: there is no file docs/howto/gone.svg"},
		{"a picture of another host", page("![t](https://example.com/a.svg)"), "docs/howto/go.md:7: picture: https://example.com/a.svg is no picture of the repository"},
		{"a picture without a text", page("![](plot.svg)"), "docs/howto/go.md:7: picture: plot.svg needs a text, which screen readers read: ![TEXT](plot.svg)"},
		{"a page as a picture", page("![t](stop.md)"), "docs/howto/go.md:7: picture: stop.md is no picture of the repository"},
		{"a file outside the repository", page("[t](../../../x)"), `docs/howto/go.md:7: "../../../x" is outside the repository`},
		{"an absolute path", page("[t](/docs/tutorial.md)"), `docs/howto/go.md:7: "/docs/tutorial.md": begin the link at the directory of the document`},
		{"a program as a link", page("[t](javascript:alert)"), `docs/howto/go.md:7: a link with the scheme "javascript" is not allowed`},
		{"an empty link", page("[t]()"), "docs/howto/go.md:7: an empty link"},
		{"HTML", page("a\n\n<div>b</div>"), "docs/howto/go.md:9: HTML is not allowed, except comments: write Markdown, or put the text in backquotes"},
		{"HTML after a comment", page("<!-- a --> <b>b</b>"), "docs/howto/go.md:7: HTML is not allowed, except comments: write Markdown, or put the text in backquotes"},
		{"HTML in a line", page("a <b>b"), "docs/howto/go.md:7: HTML is not allowed, except comments: write Markdown, or put <b> in backquotes"},
		{"two titles", page("# Second"), `docs/howto/go.md:7: "Second" is a second heading of level 1: write ## Second`},
		{"no title", map[string]string{"docs/howto/go.md": "Text.\n\n## More\n"}, "docs/howto/go.md:1: a document begins with its title: # TITLE"},
		{"an empty document", map[string]string{"docs/howto/go.md": "\n"}, "docs/howto/go.md:1: a document begins with its title: # TITLE"},
		{"no paragraph", map[string]string{"docs/howto/go.md": "# Go\n\n## More\n"}, "docs/howto/go.md:1: a document needs a paragraph that says what it is about"},
		{"a page that is not listed", map[string]string{"docs/howto/new.md": "# New\n\nText.\n"}, "docs/howto/new.md:1: docs/README.md does not list this page"},
		{"a page that is listed twice", map[string]string{"docs/README.md": "# D\n\n[t](tutorial.md)\n\n## A\n- [a](howto/stop.md)\n- [b](howto/go.md)\n- [c](howto/stop.md)\n"}, "docs/README.md:8: docs/howto/stop.md is listed twice"},
		{"two pages of one name", map[string]string{"docs/howto/index.md": "# I\n\nText.\n", "docs/howto/README.md": "# R\n\nText.\n"}, "docs/howto/index.md:1: its file docs/howto/index.html is also the file of docs/howto/README.md"},
		{"two names that differ in case only", map[string]string{"docs/howto/Go.md": "# G\n\nText.\n"}, "docs/howto/go.md:1: its file docs/howto/go.html is also the file of docs/howto/Go.md"},
		{"no front page", map[string]string{"README.md": ""}, "open README.md: file does not exist"},
		{"no navigation", map[string]string{"docs/README.md": ""}, "open docs/README.md: file does not exist"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := build(repository(test.changes), config{})
			if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), test.want) {
				t.Errorf("the error is\n%v\nwant\n%s", err, test.want)
			}
		})
	}
	_, err := build(repository(page("[t](#gone)\n![](plot.svg)")), config{})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults are reported as\n%v", err)
	}
}

func TestPictures(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	pictures := fstest.MapFS{
		"locks-light.png": {Data: b.Bytes()}, "locks-dark.png": {Data: b.Bytes()}, "the_lock.png": {Data: b.Bytes()}, "night-dark.png": {Data: b.Bytes()},
		"top.txt": {Data: []byte("db/migrate  <held>\n")}, "notes.md": {Data: []byte("no picture")},
	}
	files := mustBuild(t, repository(nil), config{pictures: pictures})
	checkPages(t, files)
	for _, want := range []string{
		`<h2 id="locks">Locks</h2>`,
		`<picture><source srcset="pictures/locks-dark.png" media="(prefers-color-scheme: dark)"><img src="pictures/locks-light.png" alt="Picture: Locks" width="3" height="2"></picture>`,
		`<picture><img src="pictures/the_lock.png" alt="Picture: The lock"`, `<picture><img src="pictures/night-dark.png" alt="Picture: Night dark"`,
		"<pre><code>db/migrate  &lt;held&gt;\n</code></pre>", `<a href="pictures.html" aria-current="page">Pictures</a>`,
	} {
		if got := string(files["pictures.html"]); !strings.Contains(got, want) {
			t.Errorf("the page lacks %s:\n%s", want, got)
		}
	}
	if got, want := string(files["docs/howto/go.html"]), `<a href="../../pictures.html">Pictures</a>`; !strings.Contains(got, want) {
		t.Errorf("the navigation lacks %s", want)
	}
	for _, faulty := range []fstest.MapFS{{}, {"a.png": {Data: []byte("no PNG")}}} {
		if _, err := build(repository(nil), config{pictures: faulty}); err == nil {
			t.Errorf("the pictures %v are not refused", faulty)
		}
	}
}

func TestCommandLine(t *testing.T) {
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "letter.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, want string
		args       []string
	}{
		{"no directory", "usage: go run . -out DIR", nil},
		{"an argument too many", "usage: go run . -out DIR", []string{"-out", "x", "y"}},
		{"a directory with other files", "letter.txt: remove them, or choose another directory", []string{"-out", foreign}},
		{"an address that is none", `-source "github" is not the URL of a directory`, []string{"-out", "x", "-source", "github"}},
		{"a root that does not exist", "no such file", []string{"-out", "x", "-root", filepath.Join(foreign, "gone")}},
		{"pictures that do not exist", "pictures: the directory has no file", []string{"-out", "x", "-pictures", filepath.Join(foreign, "gone")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := run(test.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %s", err, test.want)
			}
		})
	}
	if got := tree(t, foreign); len(got) != 1 {
		t.Errorf("the directory with other files has %q now", slices.Sorted(maps.Keys(got)))
	}
}

// The commands of the document about the site work.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/contributing/site.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^go run \. (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(commands) < 2 {
		t.Fatalf("only %d commands", len(commands))
	}
	pictures := t.TempDir()
	if err := os.WriteFile(filepath.Join(pictures, "top.txt"), []byte("screen"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, m := range commands {
		line, _, _ := strings.Cut(m[1], "#")
		args := strings.Fields(strings.NewReplacer("DIR", t.TempDir(), "PICTURES", pictures).Replace(line))
		if err := run(args, io.Discard, io.Discard); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
}
