//go:build unix

package interop

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"holdfast"
	"holdfast/internal/deed"
	"holdfast/shards"
	"holdfast/ui"
	"holdfast/zk"
	"holdfast/zktest"
)

var uiPictures = flag.String("ui-pictures", "", "directory for pictures of all pages of holdfast ui, in two sizes, light and dark")

// overEdges returns what is wider than its window, and texts beyond the edge of a box around them.
const overEdges = `(() => {
	const bad = [], root = document.documentElement
	const hidden = (e) => { for (; e; e = e.parentElement) if (getComputedStyle(e).clipPath !== "none") return true }
	const name = (e) => e.tagName + (e.id ? "#" + e.id : "") + (typeof e.className === "string" && e.className ? "." + e.className : "")
	if (root.scrollWidth > root.clientWidth) bad.push("the document has a width of " + root.scrollWidth + " in a window of " + root.clientWidth)
	for (const e of document.body.querySelectorAll("*")) {
		if (!e.matches(".scroll") && e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" && e.checkVisibility() && !e.closest("svg") && !hidden(e)) {
			bad.push(name(e) + " has a width of " + e.scrollWidth + " in " + e.clientWidth)
		}
	}
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (texts.nextNode()) {
		const text = texts.currentNode, e = text.parentElement
		if (!text.data.trim() || !e.checkVisibility() || e.closest("option, title, noscript") || hidden(e)) continue
		const boxes = []
		for (let box = e; box !== document.body; box = box.parentElement) {
			const style = getComputedStyle(box)
			if (box.matches(".scroll")) { boxes.length = 0; break }
			if (!box.closest("svg") && style.display !== "inline" && style.display !== "contents") boxes.push(box)
		}
		const shape = e.closest("g.box")?.querySelector("rect")
		if (shape) boxes.push(shape)
		const range = document.createRange()
		range.selectNodeContents(text)
		for (const r of range.getClientRects()) {
			for (const box of boxes) {
				const b = box.getBoundingClientRect()
				if (r.left < b.left - 1 || r.right > b.right + 1) bad.push(JSON.stringify(text.data.trim().slice(0, 60)) + " is over the edge of " + name(box))
			}
		}
	}
	for (const time of document.querySelectorAll("time")) {
		if (time.checkVisibility() && time.getClientRects().length > 1) bad.push("a date wraps: " + time.textContent)
	}
	return JSON.stringify([...new Set(bad)].slice(0, 10))
})()`

// A uiSite is a page with users in front of a browser.
type uiSite struct {
	*browser
	w    *uiWorld
	base string
}

// newUISite serves a page for locks of all kinds, with a deadlock, and logs its operator in with the keyboard.
func newUISite(t *testing.T) *uiSite {
	srv := zktest.NewServer(zktest.TickTime(2 * time.Second))
	t.Cleanup(srv.Close)
	w := &uiWorld{t: t, client: srv.Client(), dial: srv.Client}
	w.populate(40)
	w.more()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	line, err := ui.HashPassword("ann", ui.Operator, "correct horse")
	must(t, err)
	users, err := ui.ParseUsers(line)
	must(t, err)
	access, err := ui.NewAccess(ui.AccessConfig{Addr: l.Addr(), Users: users})
	must(t, err)
	pages, err := ui.New(ui.Config{Client: srv.Client(), Prefix: uiSpace, Access: access})
	must(t, err)
	server := access.Server(pages)
	go server.Serve(l)
	t.Cleanup(func() { must(t, pages.Close()); must(t, server.Close()) })
	return &uiSite{newBrowser(t), w, "http://" + l.Addr().String()}
}

// more adds what the pages show in ways of their own: shards, long names, and a lock that the page may not read.
func (w *uiWorld) more() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 2)
	for range 2 {
		c := w.dial()
		go func() {
			done <- shards.New(c, uiSpace+"mail/out", 5).Run(ctx, func(ctx context.Context, _ shards.Shard) error { <-ctx.Done(); return nil })
		}()
	}
	w.t.Cleanup(func() { cancel(); <-done; <-done })
	w.hold(w.dial(), "reports/"+strings.Repeat("quarterly-figures-of-all-regions-", 3)+"2026", strings.Repeat("long.host.name.", 6)+"example.com:123456", strings.Repeat("averylongwordwithoutanyspace", 6))
	c := w.dial()
	h, err := holdfast.NewMutex(c, uiSpace+"secret/plans", holdfast.WithOwner("nobody@knows:1")).Lock(w.t.Context())
	must(w.t, err)
	w.secret = h.Path()
	_, err = c.SetACL(w.t.Context(), w.secret, []zk.ACL{{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}}, zk.AnyVersion)
	must(w.t, err)
	w.hold(w.dial(), "web/frontend", "deploy@web3:77", "release 2026.11.4")
	for _, action := range []deed.Action{deed.Revoking, deed.Breaking} {
		plan, err := deed.Look(w.t.Context(), w.client, action, uiSpace+"web/frontend", nil, w.list("web/frontend")[0].Token)
		must(w.t, err)
		_, err = plan.Do(w.t.Context(), w.client, deed.By{Name: "ann@laptop:71", Remote: "192.0.2.7:51234", Reason: "the release hangs since its machine has lost its disk"})
		must(w.t, err)
	}
	_, err = holdfast.NewDetached(w.client, uiSpace+"build/artifacts", time.Hour, holdfast.WithOwner("ci@runner7:5512"), holdfast.WithReason("pipeline 4711")).Lock(w.t.Context())
	must(w.t, err)
}

// press presses Tab until an element has the focus.
func (s *uiSite) press(selector string) {
	s.t.Helper()
	for range 400 {
		if eval[bool](s.browser, fmt.Sprintf("document.activeElement?.matches(%q) ?? false", selector)) {
			return
		}
		s.do(chromedp.KeyEvent("\t"))
	}
	s.t.Fatalf("Tab does not come to %s", selector)
}

// write writes into an element with the focus. A page that is read again meanwhile keeps what was written.
func (s *uiSite) write(selector, text string) {
	s.t.Helper()
	s.press(selector)
	s.do(chromedp.KeyEvent(text))
}

// enter presses Enter at an element, and waits for what follows.
func (s *uiSite) enter(selector, what, then string) {
	s.t.Helper()
	s.press(selector)
	s.do(chromedp.KeyEvent("\r"))
	s.until(what, then)
}

// reached checks that Tab comes to everything that can be used, and that it is seen then.
func (s *uiSite) reached(page string) {
	s.t.Helper()
	s.do(chromedp.Evaluate[chromedp.Void](`document.activeElement?.blur(); scrollTo(0, 0); window.visited = new Set(); window.obscured = []; window.bodies = 0; window.all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]`))
	for range 400 {
		s.do(chromedp.KeyEvent("\t"))
		if !eval[bool](s.browser, `(() => {
			const e = document.activeElement
			if (!e || e === document.body) return ++bodies < 2
			if (visited.has(e)) return false
			visited.add(e)
			const r = [...e.getClientRects()][0], at = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2), style = getComputedStyle(e)
			if (!at || !(e.contains(at) || at.contains(e) || e.labels?.length && [...e.labels].some((l) => l.contains(at)))) obscured.push("hidden: " + e.outerHTML.slice(0, 120))
			if (style.outlineStyle === "none") obscured.push("no outline: " + e.outerHTML.slice(0, 120))
			return true
		})()`) {
			break
		}
	}
	if left := eval[string](s.browser, `JSON.stringify([...obscured, ...all.filter((e) => e.isConnected && e.checkVisibility() && !e.closest("dialog:not([open])") && !visited.has(e)).map((e) => "not reached: " + e.outerHTML.slice(0, 120))].slice(0, 5))`); left != "[]" {
		s.t.Errorf("%s: with Tab: %s", page, left)
	}
}

// Every page fits a desk and a phone: nothing is wider than the window, no text is over an edge, axe-core finds nothing
// in light and dark, and the keyboard alone does all actions.
func TestUIFitsItsWindow(t *testing.T) {
	axe := axeSource(t)
	s := newUISite(t)
	logIn := func() {
		s.goTo(s.base)
		s.write("input[name=name]", "ann")
		s.write("input[name=password]", "correct horse")
		s.enter("main button", "the overview", `document.querySelector("h1")?.textContent === "Overview"`)
		s.until("the locks", `document.querySelector(".card .note") !== null`)
	}
	logOut := func() {
		s.goTo(s.base)
		s.enter(".tools form[action=logout] button", "logged out", `document.querySelector("h1").textContent === "Logged out"`)
	}
	sizes := []struct {
		name          string
		width, height int64
	}{{"desk", 1440, 900}, {"phone", 390, 844}}
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) {
			s.browser.t = t
			s.do(chromedp.EmulateViewport(size.width, size.height))
			stop := s.w.move()
			s.look(axe, size.name, "login", "/")
			logIn()
			token := s.w.list("db/migrate")[0].Token
			session := s.w.list("app/step0")[0].Session
			db := url.Values{"path": {uiSpace + "db/migrate"}}.Encode()
			all := []struct{ name, path string }{
				{"overview", "/"}, {"locks", "/locks"}, {"group", "/locks?in=tenants%2F&sort=wait"}, {"none", "/locks?q=nothing+at+all"}, {"lock", "/lock?" + db},
				{"unreadable", "/lock?path=" + url.QueryEscape(uiSpace+"secret/plans")}, {"detached", "/lock?path=" + url.QueryEscape(uiSpace+"build/artifacts")},
				{"jobs", "/lock?path=" + url.QueryEscape(uiSpace+"jobs/a")}, {"waits", "/graph"}, {"sessions", "/sessions"}, {"elections", "/elections"}, {"audit", "/audit"}, {"health", "/health"},
				{"break", fmt.Sprintf("/act/break?lock=%s&layout=curator&token=%d", url.QueryEscape(uiSpace+"db/migrate"), token)},
				{"end", fmt.Sprintf("/act/end?session=0x%x", uint64(session))}, {"refused", "/act/break?lock=/nothing&token=1"}, {"missing", "/nothing/here"},
			}
			for _, p := range all {
				s.look(axe, size.name, p.name, p.path)
			}
			stop() // rows that move would be skipped
			for _, p := range all {
				s.goTo(s.base + p.path)
				s.reached(p.name)
			}
			logOut()
		})
	}
	_, err := s.w.client.SetACL(t.Context(), s.w.secret, []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}, zk.AnyVersion) // else no session can be ended
	must(t, err)
	for _, size := range sizes {
		t.Run(size.name+" by keyboard", func(t *testing.T) {
			s.browser.t = t
			s.do(chromedp.EmulateViewport(size.width, size.height))
			logIn()
			s.actsByKeyboard()
			s.w.deadlock(size.name + "/") // another one for the next size
			logOut()
		})
	}
}

// look opens a page in light and dark, and checks it.
func (s *uiSite) look(axe, size, name, path string) {
	s.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		page := fmt.Sprintf("%s-%s-%s", name, size, scheme)
		s.colors(scheme)
		s.goTo(s.base + path)
		if *uiPictures != "" {
			must(s.t, os.MkdirAll(*uiPictures, 0o755))
			picture, err := chromedp.Run(s.ctx, chromedp.FullScreenshot(100))
			must(s.t, err)
			must(s.t, os.WriteFile(filepath.Join(*uiPictures, page+".png"), picture, 0o644))
		}
		if bad := eval[string](s.browser, overEdges); bad != "[]" {
			s.t.Errorf("%s: %s", page, bad)
		}
		eval[bool](s.browser, axe+"\n;true")
		if found := eval[string](s.browser, `axe.run().then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary)])))`); found != "[]" {
			s.t.Errorf("%s: axe finds %s", page, found)
		}
		if v := eval[string](s.browser, "JSON.stringify([violations, faults])"); v != "[[],[]]" {
			s.t.Errorf("%s: violations of the policy, and faults: %s", page, v)
		}
	}
}

// actsByKeyboard does everything that a user can do, without a pointer.
func (s *uiSite) actsByKeyboard() {
	s.t.Helper()
	w := s.w
	act := func(from, button, lands string) {
		s.t.Helper()
		s.goTo(s.base + from)
		s.enter(button, "the question", `document.querySelector("input[name=reason]") !== null`)
		s.write("input[name=reason]", "it hangs")
		s.enter("main form button", "what was done", fmt.Sprintf(`location.pathname === %q && document.querySelector(".banner.done") !== null`, lands))
	}
	// The filter applies while it is typed. j chooses a row, and Enter opens it.
	s.goTo(s.base + "/locks")
	s.enter(`.groups a[href*="in=app"]`, "the group", `document.querySelector(".crumbs strong")?.textContent === "app/"`)
	s.goTo(s.base + "/locks")
	s.write("#q", "db/mig")
	s.until("the filter applies", `document.querySelectorAll("#locks tbody tr").length === 1`)
	s.do(chromedp.KeyEvent("\x1b"), chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"))
	s.until("the lock", `document.querySelector("h1").textContent === "db/migrate"`)
	// Revoke, break a holder, break a waiter, end a session.
	db := "/lock?" + url.Values{"path": {uiSpace + "db/migrate"}}.Encode()
	before := w.list("db/migrate")
	act(db, `a.act[href^="act/revoke"]`, "/lock")
	act(db, `a.act.bad[href^="act/break"]`, "/lock")
	if now := w.list("db/migrate"); len(now) >= len(before) || now[0].Token == before[0].Token {
		s.t.Errorf("after the break: %+v", now)
	}
	_, leave := w.waiter("db/migrate", "next@web7:1")
	defer leave()
	s.goTo(s.base + db)
	s.until("a waiter", `document.querySelector("tbody a.act") !== null`)
	act(db, `tbody a.act`, "/lock")
	victim := w.dial()
	w.hold(victim, "app/idle", "idle@app9:1", "has been idle")
	id := fmt.Sprintf("0x%x", uint64(w.list("app/idle")[0].Session))
	s.goTo(s.base + "/sessions")
	s.until("its session is listed", fmt.Sprintf(`document.querySelector('a.act[href="act/end?session=%s"]') !== null`, id))
	act("/sessions", fmt.Sprintf(`a.act[href="act/end?session=%s"]`, id), "/sessions")
	if now := w.list("app/idle"); len(now) > 0 {
		s.t.Errorf("after the end of its session: %+v", now)
	}
	// A deadlock ends with the button at its victim.
	s.goTo(s.base + "/graph")
	s.until("a deadlock", `document.querySelector(".victim a.act") !== null`)
	act("/graph", `.victim a.act[href^="act/break"]`, "/lock")
	// Colors, help, and the way out.
	s.goTo(s.base + "/")
	s.press("#theme")
	s.do(chromedp.KeyEvent("D"))
	s.until("dark", `document.documentElement.dataset.theme === "dark"`)
	s.press("#theme")
	s.do(chromedp.KeyEvent("A"))
	s.until("the colors of the machine", `document.documentElement.dataset.theme === undefined && document.documentElement.classList.contains("has-js")`)
	s.enter("[data-help]", "the keys", `document.getElementById("keys").open`)
	s.do(chromedp.KeyEvent("\x1b"))
	s.until("the keys are closed", `!document.getElementById("keys").open`)
}
