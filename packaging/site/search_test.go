package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// need skips a test that lacks a program, with a line that names it. With CI=true the test fails.
func need(t *testing.T, program string) string {
	t.Helper()
	name, err := exec.LookPath(program)
	if err != nil {
		missing(t, "install "+program)
	}
	return name
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip("left out: " + what)
}

func TestSearchIndex(t *testing.T) {
	long := "Alpha beta. " + strings.Repeat("gamma delta ", 50) + "`--once-per` zk://host:1 omega. Omega"
	files := mustBuild(t, repository(map[string]string{"docs/howto/go.md": "# Go\n\nGoes on.\n\n## More\n\n" + long + "\n\n### Code\n\n```sh\nholdfast run <x>\n```\n\n| A | B |\n|---|---|\n| 1 | two |\n"}), config{})
	var index struct {
		Pages    [][2]string
		Sections [][]any
	}
	if err := json.Unmarshal(files["assets/search.json"], &index); err != nil {
		t.Fatal(err)
	}
	// The order of the navigation, and docs/README.md, which is not in it.
	var pages []string
	for _, p := range index.Pages {
		pages = append(pages, p[0])
	}
	if want := []string{"index.html", "docs/tutorial.html", "docs/howto/stop.html", "docs/howto/go.html", "docs/index.html"}; !slices.Equal(pages, want) {
		t.Errorf("pages %q; want %q", pages, want)
	}
	var got [][]any
	for _, s := range index.Sections {
		if s[0] == 3.0 {
			got = append(got, s[1:])
		}
	}
	if len(got) != 3 || !slices.Equal(got[0], []any{"go", "Go", "Goes on.", ""}) || !slices.Equal(got[2], []any{"code", "Code", "holdfast run <x> A B 1 two", ""}) {
		t.Fatalf("sections %q", got)
	}
	if text := got[1][2].(string); len(text) > excerptText+5 || !strings.HasPrefix(text, "Alpha beta. gamma") {
		t.Errorf("the long section's text is %q", text)
	}
	if more, want := got[1][3], "--once-per zk //host 1 omega"; more != want {
		t.Errorf("the long section has the words %q; want %q", more, want)
	}
}

// A found is a result of the search in site.js.
type found struct{ Href, Heading, Title, Excerpt string }

// nodeProgram searches, and renders the results into elements that only keep what is set.
const nodeProgram = `
const { search, render } = require(process.argv[1])
const { index, queries } = JSON.parse(require("fs").readFileSync(0))
const made = []
const document = { createElement: (tag) => { const e = { tag, append() {} }; made.push(e); return e } }
const results = queries.map((q) => search(index, q, 20))
render(document, { replaceChildren() {} }, results.flat(), "/base/")
console.log(JSON.stringify({ results, made }))`

func searchInNode(t *testing.T, index []byte, queries ...string) (results [][]found, made []map[string]string) {
	t.Helper()
	node := need(t, "node")
	in, err := json.Marshal(map[string]any{"index": json.RawMessage(index), "queries": queries})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "-e", nodeProgram, "./assets/site.js")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Results [][]found
		Made    []map[string]string
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return answer.Results, answer.Made
}

func TestSearch(t *testing.T) {
	const far = "Text of a lock, and a word at its end after very many other words, so that the excerpt begins later, since the results show only a part of each text, and more and more: needle."
	files := mustBuild(t, repository(map[string]string{
		"docs/howto/go.md":   "# Go\n\nA deadlock is reported. " + strings.Repeat("filler text ", 40) + " zebra `--once-per` zk://zk1:2181/app.\n\n## More\n\n" + far + "\n",
		"docs/howto/stop.md": "# Stop the lock\n\nEnds.\n\n## Éa thing\n\nText.\n",
	}), config{})
	tests := []struct {
		query string
		want  []string // hrefs, best first
	}{
		{"", nil},
		{" . ", nil},
		{"stop the lock", []string{"docs/howto/stop.html#stop-the-lock", "docs/howto/stop.html#%C3%A9a-thing"}}, // the title counts for all sections
		{"LOCK", []string{"docs/howto/stop.html#stop-the-lock", "docs/howto/stop.html#%C3%A9a-thing", "index.html#holdfast", "docs/tutorial.html#tutorial", "docs/howto/go.html#more", "docs/howto/go.html#go"}},
		{"zebra filler", []string{"docs/howto/go.html#go"}},
		{"zebra gone", nil},
		{"--once-per", []string{"docs/howto/go.html#go"}},
		{"zk://zk1:2181/app", []string{"docs/howto/go.html#go"}},
		{"éA", []string{"docs/howto/stop.html#%C3%A9a-thing"}},
		{"needle", []string{"docs/howto/go.html#more"}},
		{"next tutorial", []string{"docs/tutorial.html#next"}},
	}
	var queries []string
	for _, test := range tests {
		queries = append(queries, test.query)
	}
	results, _ := searchInNode(t, files["assets/search.json"], queries...)
	for i, test := range tests {
		var got []string
		for _, r := range results[i] {
			got = append(got, r.Href)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q finds %q; want %q", test.query, got, test.want)
		}
		if test.query == "needle" && len(results[i]) == 1 {
			if got := results[i][0].Excerpt; !strings.HasPrefix(got, "… ") || !strings.HasSuffix(got, "needle.") {
				t.Errorf("the excerpt is %q", got)
			}
		}
	}
}

// Markup in a heading and in a text stays text in the results.
func TestSearchShowsMarkupAsText(t *testing.T) {
	const hostile = "<img src=x onerror=alert(1)>"
	files := mustBuild(t, repository(map[string]string{"docs/howto/go.md": "# Go\n\nGoes.\n\n## More `" + hostile + "`\n\nText `" + hostile + "`.\n", "docs/README.md": strings.ReplaceAll(string(repository(nil)["docs/README.md"].Data), "#more", "")}), config{})
	results, made := searchInNode(t, files["assets/search.json"], "onerror")
	if len(results[0]) != 1 || results[0][0].Heading != "More "+hostile {
		t.Fatalf("results %q", results[0])
	}
	texts := 0
	for _, e := range made {
		for key, value := range e {
			switch key {
			case "tag", "className":
			case "href":
				if want := "/base/docs/howto/go.html#more-img-srcx-onerroralert1"; value != want {
					t.Errorf("the result leads to %s; want %s", value, want)
				}
			case "textContent":
				if strings.Contains(value, hostile) {
					texts++
				}
			default:
				t.Errorf("an element's %s is set to %q", key, value)
			}
		}
	}
	if texts != 2 {
		t.Errorf("%d texts with the markup, in %q; want the heading and the excerpt", texts, made)
	}
	script, err := assets.ReadFile("assets/site.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "setHTML"} {
		if strings.Contains(string(script), way) {
			t.Errorf("site.js has %s, which makes markup of text", way)
		}
	}
}
