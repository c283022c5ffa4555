package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	tab "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// axeVersion is the version of the checker of accessibility. It is under the MPL, and is installed for the test only.
const axeVersion = "axe-core@4.14.1"

// axeSource returns the program of axe-core.
func axeSource(t *testing.T) string {
	npm := need(t, "npm")
	dir := t.TempDir()
	if out, err := exec.Command(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, axeVersion).CombinedOutput(); err != nil {
		missing(t, axeVersion+" from npm's registry: "+string(out))
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A browser is a tab of Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(need(t, "chromium")), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t, ctx}
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, tab.AddScriptToEvaluateOnNewDocument, tab.AddScriptToEvaluateOnNewDocumentParams{
			Source: `window.faults = []
				document.addEventListener("securitypolicyviolation", (e) => faults.push(e.violatedDirective + " " + e.blockedURI))
				addEventListener("error", (e) => faults.push(e.message || e.target.outerHTML), true)
				addEventListener("unhandledrejection", (e) => faults.push(String(e.reason)))`,
		})
		return err
	}))
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true. It can fail while the tab goes to another page.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return
		}
	}
	b.t.Fatalf("did not happen: %s\n%s", what, eval[string](b, `location.href + " " + document.activeElement.outerHTML.slice(0, 200) + document.querySelector(".search").outerHTML`))
}

func (b *browser) colors(scheme string) {
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// serveSite serves a site below a path, as hosts of static pages do.
func serveSite(t *testing.T, files map[string][]byte) (base string) {
	site := fstest.MapFS{}
	for name, content := range files {
		site[name] = &fstest.MapFile{Data: content}
	}
	server := httptest.NewServer(http.StripPrefix("/site/", http.FileServerFS(site)))
	t.Cleanup(server.Close)
	return server.URL + "/site/"
}

// Pages are accessible in light and dark, on a large and on a small screen, and break no policy. The search works by keyboard.
func TestInABrowser(t *testing.T) {
	axe := axeSource(t)
	b := newBrowser(t)
	base := serveSite(t, mustBuild(t, os.DirFS("../.."), config{version: "v0.1.0"}))
	for _, name := range []string{"", "docs/reference/cli.html", "docs/explanation/benchmarks.html"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 360} {
				b.colors(scheme)
				b.do(chromedp.EmulateViewport(width, 800), chromedp.Navigate(base+name))
				b.until("the page has its script", `!document.querySelector(".search").hidden`)
				eval[bool](b, axe+"\n;true")
				if found := eval[string](b, `axe.run().then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary)])))`); found != "[]" {
					t.Errorf("%q, %s, %d wide: axe finds %s", name, scheme, width, found)
				}
				if got := eval[int](b, `document.documentElement.scrollWidth`); int64(got) > width {
					t.Errorf("%q is %d wide on a screen of %d", name, got, width)
				}
				if got := eval[string](b, "JSON.stringify(faults)"); got != "[]" {
					t.Errorf("%q: faults: %s", name, got)
				}
			}
		}
	}
	// On a small screen, the navigation opens by its link.
	if eval[bool](b, `document.querySelector(".documents").checkVisibility()`) {
		t.Error("the navigation is open on a small screen")
	}
	eval[bool](b, `document.querySelector(".menu").click(); true`)
	b.until("the navigation opens", `document.querySelector(".documents").checkVisibility()`)

	b.do(chromedp.EmulateViewport(1440, 800), chromedp.Navigate(base+"docs/howto/cron.html"))
	b.until("the script", `!document.querySelector(".search").hidden`)
	// chromedp sends the character of a key also if the page has prevented it, so this key is one of the page's own.
	eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true}))`)
	b.until("/ reaches the search", `document.activeElement.id === "page.query"`)
	b.do(chromedp.KeyEvent("fencing token"))
	b.until("there are results", `/^\d+ results$/.test(document.querySelector(".search [role=status]").textContent) && document.querySelectorAll(".search li").length > 1`)
	if found := eval[string](b, axe+`;axe.run(".search").then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)])))`); found != "[]" {
		t.Errorf("axe finds in the results %s", found)
	}
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	b.until("the arrows reach the second result", `document.activeElement === document.querySelectorAll(".search li a")[1]`)
	b.do(chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.ArrowUp))
	b.until("the arrows reach the field", `document.activeElement.id === "page.query"`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until("Escape closes the results", `document.querySelector(".search ol").hidden && document.querySelector(".search input").value === ""`)
	b.do(chromedp.KeyEvent("holdfast run"))
	b.until("there are results", `document.querySelector(".search li a")?.href.endsWith("docs/reference/cli.html#holdfast-run")`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("Enter opens the first result", `location.href.endsWith("docs/reference/cli.html#holdfast-run") && document.querySelector("#holdfast-run") !== null`)
	if got := eval[string](b, "JSON.stringify(faults)"); got != "[]" {
		t.Errorf("faults: %s", got)
	}
}

// Markup in a heading stays text, on its page and in the results of the search.
func TestMarkupInABrowser(t *testing.T) {
	const text = "# Go\n\nGoes.\n\n## More\n\n## `<img src=x onerror=alert(1)>`\n\n`<script>alert(1)</script>`\n"
	b := newBrowser(t)
	base := serveSite(t, mustBuild(t, repository(map[string]string{"docs/howto/go.md": text}), config{}))
	b.do(chromedp.Navigate(base + "docs/howto/go.html"))
	b.until("the script", `!document.querySelector(".search").hidden`)
	eval[bool](b, `document.querySelector(".search input").focus(); true`)
	b.do(chromedp.KeyEvent("onerror"))
	b.until("there is a result", `document.querySelector(".search li .heading")?.textContent === "<img src=x onerror=alert(1)>"`)
	if got := eval[string](b, `JSON.stringify([document.images.length, document.scripts.length, faults])`); got != "[0,1,[]]" {
		t.Errorf("pictures, scripts and faults: %s", got)
	}
}
