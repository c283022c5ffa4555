//go:build unix

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/layout"
	"holdfast/ui"
	"holdfast/zk"
)

// axeVersion is that of the checker of accessibility. It is under the MPL, and is installed for the test only.
const axeVersion = "axe-core@4.14.1"

// axeSource returns the program of axe-core.
func axeSource(t *testing.T) string {
	npm, err := exec.LookPath("npm")
	if err != nil {
		err = &peers.MissingError{What: "npm", Package: "npm"}
	}
	need(t, err)
	dir := t.TempDir()
	cmd := exec.Command(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, axeVersion)
	if out, err := cmd.CombinedOutput(); err != nil {
		need(t, &peers.MissingError{What: axeVersion + " from npm's registry: " + string(out), Package: "npm"})
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	must(t, err)
	return string(text)
}

// A browser is a tab of Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		err = &peers.MissingError{What: "chromium", Package: "chromium"}
	}
	need(t, err)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t, ctx}
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `window.violations = []; document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI));
				window.faults = []; window.addEventListener("error", (e) => faults.push(e.message)); window.addEventListener("unhandledrejection", (e) => faults.push(String(e.reason)))`,
		})
		return err
	}))
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must(b.t, chromedp.Do(b.ctx, steps...))
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	must(b.t, err)
	return v
}

// until waits until an expression is true.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// While the tab goes to another page, the expression can fail.
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err == nil && ok {
			return
		}
		must(b.t, b.ctx.Err())
		if time.Now().After(end) {
			b.t.Log(err)
			b.t.Fatalf("did not happen: %s\n%s", what, eval[string](b, `location.href + "\\nfocus: " + document.activeElement.outerHTML.slice(0, 300) + "\\n" + JSON.stringify([...document.querySelectorAll("input")].map((i) => i.value)) + "\\n" + document.getElementById("main").innerText`))
		}
	}
}

// goTo opens a page, and waits for its program.
func (b *browser) goTo(target string) {
	b.t.Helper()
	b.do(chromedp.Navigate(target))
	b.until("the program of "+target, `document.documentElement.classList.contains("has-js") || document.body.classList.contains("act")`)
}

// colors chooses the colors of the machine.
func (b *browser) colors(scheme string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// A browser shows what List says while locks of all kinds and libraries move. It acts, and its pages break no policy.
func TestUIInABrowser(t *testing.T) {
	b := newBrowser(t)
	s := newStage(t)
	w := &uiWorld{t: t, client: dialURL(t, "zk://"+s.addr), dial: func() *zk.Client {
		return dialURL(t, "zk://"+s.addr, func(cfg *zk.Config) { cfg.SessionTimeout = 40 * time.Second }) // survives a slow machine
	}}
	w.populate(1000)
	theirs{s, s.java, s.java.actor(), [2]string{"mutex"}}.hold("/holdfast/locks/curators")
	theirs{s, s.python, s.python.actor(), [2]string{"lock"}}.hold("/holdfast/locks/kazoos")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	urls := make(chan string, 10)
	access, err := ui.NewAccess(ui.AccessConfig{Addr: l.Addr(), Owner: "test", Announce: func(path string) { urls <- path }})
	must(t, err)
	pages, err := ui.New(ui.Config{Client: dialURL(t, "zk://"+s.addr), Prefix: "/holdfast/locks/", Access: access})
	must(t, err)
	server := access.Server(pages)
	go server.Serve(l)
	t.Cleanup(func() { must(t, pages.Close()); must(t, server.Close()) })
	base := "http://" + l.Addr().String()
	b.goTo(base + <-urls)
	b.until("all locks are read", `Number(document.querySelector(".card .note").textContent.match(/\d+/)[0]) >= 1000`)
	if got := eval[string](b, "location.search"); got != "" {
		t.Errorf("the token is still in the address: %s", got)
	}

	lock := "/lock?path=" + url.QueryEscape("/holdfast/locks/db/migrate")
	all := []struct{ name, path string }{
		{"overview", "/"}, {"locks", "/locks"}, {"lock", lock}, {"graph", "/graph"}, {"sessions", "/sessions"}, {"elections", "/elections"},
		{"audit", "/audit"}, {"health", "/health"}, {"break", "/act/break?lock=" + url.QueryEscape("/holdfast/locks/db/migrate") + fmt.Sprintf("&layout=curator&token=%d", w.list("db/migrate")[0].Token)},
	}
	stop := w.move()
	for _, p := range all {
		b.goTo(base + p.path)
		if p.name != "break" {
			b.until("the page shows locks", `!document.querySelector("main").hasAttribute("data-stale")`)
		}
		if v := eval[string](b, "JSON.stringify([violations, faults])"); v != "[[],[]]" {
			t.Errorf("%s: violations of the policy, and faults: %s", p.name, v)
		}
	}
	stop()
	b.goTo(base + "/locks?q=jobs/")
	b.until("the jobs are over", `document.getElementById("found").textContent.startsWith("0 ")`)
	w.compare(b, base)

	// Keys: filter, choose, open, go to another page, help.
	b.goTo(base + "/")
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("l"))
	b.until("g l opens the locks", `location.pathname === "/locks"`)
	b.until("the program", `document.documentElement.classList.contains("has-js")`)
	// chromedp sends the character of a key also if the page has prevented it, so the key is one of the page's own.
	eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true})), true`)
	b.do(chromedp.KeyEvent("db/mig"))
	b.until("the filter applies", `location.search === "?q=db%2Fmig&sort=name" && document.querySelectorAll("#locks tbody tr").length === 1 && document.querySelector("#q") === document.activeElement && document.querySelector("#q").value === "db/mig"`)
	b.do(chromedp.KeyEvent("\x1b"), chromedp.KeyEvent("j"))
	b.until("j chooses a row", `document.querySelector("tr.chosen") !== null`)
	b.do(chromedp.KeyEvent("\r"))
	b.until("Enter opens it", `location.pathname === "/lock" && document.querySelector("h1").textContent === "db/migrate"`)
	b.until("its program", `document.documentElement.classList.contains("has-js")`)
	b.do(chromedp.KeyEvent("?"))
	b.until("? shows the keys", `document.getElementById("keys").open`)

	// The page is kept up to date, and keeps the focus.
	b.goTo(base + lock)
	eval[bool](b, `document.querySelector("a.act").focus(); window.same = document.activeElement; true`)
	_, leave := w.waiter("db/migrate", "newcomer@web9:1")
	b.until("the newcomer is shown", `document.body.innerText.includes("newcomer@web9:1")`)
	if !eval[bool](b, `document.activeElement === same`) {
		t.Error("the focus is lost")
	}
	leave()
	b.until("it has left", `!document.querySelector("tbody").innerText.includes("newcomer@web9:1")`)

	// Break: the next in line holds the lock, and the audit has a line.
	first, next := w.list("db/migrate")[0], w.list("db/migrate")[1]
	eval[bool](b, `document.querySelector("a.act.bad").click(); true`)
	b.until("the question", `location.pathname === "/act/break" && document.querySelector("input[name=reason]") !== null`)
	eval[bool](b, `document.querySelector("input[name=reason]").value = "it hangs"; document.querySelector("main form button").click(); true`)
	b.until("back at the lock", `location.pathname === "/lock" && document.querySelector(".banner.done") !== null`)
	if now := w.list("db/migrate")[0]; now.Token != next.Token || now.Token == first.Token {
		t.Errorf("after the break, %+v holds the lock", now)
	}
	b.goTo(base + "/audit")
	b.until("the audit", `document.body.innerText.includes("it hangs")`)

	// A tab without a stream, since all are in use, reads its page from time to time.
	b.do(chromedp.Navigate("about:blank"))
	release := fillStreams(t, base, <-urls)
	b.goTo(base + lock)
	_, leave = w.waiter("db/migrate", "late@web9:2")
	b.until("a tab without a stream shows the newcomer", `document.body.innerText.includes("late@web9:2")`)
	if !eval[bool](b, `document.getElementById("cut").hidden`) {
		t.Error("a tab without a stream says that it has no contact")
	}
	leave()
	release()

	// Without a server, the page says so. Without JavaScript's stream, too.
	must(t, server.Close())
	b.until("the tab says that it has no contact", `!document.getElementById("cut").hidden`)
}

// fillStreams opens streams until the page refuses one, and returns a function that closes them.
func fillStreams(t *testing.T, base, login string) (release func()) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	c := &http.Client{Jar: jar}
	resp, err := c.Get(base + login)
	must(t, err)
	resp.Body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	for n := 0; ; n++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/events", nil)
		must(t, err)
		resp, err := c.Do(req)
		must(t, err)
		if resp.StatusCode == http.StatusServiceUnavailable {
			resp.Body.Close()
			if n < 200 {
				t.Errorf("a stream is refused after %d", n)
			}
			return cancel
		}
		go func() {
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		}()
	}
}

// A uiWorld has locks of all kinds.
type uiWorld struct {
	t      *testing.T
	client *zk.Client
	dial   func() *zk.Client // another one
	secret string            // the node of a lock that nobody may read
}

const uiSpace = "/holdfast/locks/"

func (w *uiWorld) list(name string) []holdfast.Entry {
	w.t.Helper()
	entries, err := holdfast.List(w.t.Context(), w.client, uiSpace+name)
	must(w.t, err)
	return entries
}

// waiter joins a queue with a session of its own.
func (w *uiWorld) waiter(name, owner string) (*zk.Client, func()) {
	w.t.Helper()
	c := w.dial()
	before := len(w.list(name))
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if h, err := holdfast.NewMutex(c, uiSpace+name, holdfast.WithOwner(owner), holdfast.WithReason("waits for its turn")).Lock(ctx); err == nil {
			<-ctx.Done()
			_ = h.Unlock()
		}
	})
	w.t.Cleanup(func() { cancel(); group.Wait() })
	for len(w.list(name)) == before {
		pause(w.t.Context(), 5*time.Millisecond)
	}
	return c, func() { cancel(); group.Wait() }
}

func (w *uiWorld) hold(c *zk.Client, name, owner, why string) {
	w.t.Helper()
	_, err := holdfast.NewMutex(c, uiSpace+name, holdfast.WithOwner(owner), holdfast.WithReason(why)).Lock(w.t.Context())
	must(w.t, err)
}

// populate makes n locks of tenants, and a few others.
func (w *uiWorld) populate(n int) {
	owner := func(i int) holdfast.Option { return holdfast.WithOwner(fmt.Sprintf("worker@node%d:%d", i%17, 1000+i)) }
	var group sync.WaitGroup
	for part := range 8 {
		c := w.dial()
		group.Go(func() {
			for i := part; i < n; i += 8 {
				path := fmt.Sprintf("%stenants/%04d", uiSpace, i)
				locker := [...]func() holdfast.Locker{
					func() holdfast.Locker { return holdfast.NewMutex(c, path, owner(i), holdfast.WithReason("a batch")) },
					func() holdfast.Locker { return holdfast.NewRWMutex(c, path, owner(i)).RLocker() },
					func() holdfast.Locker { return holdfast.NewSemaphore(c, path, 3, owner(i)).Locker(2) },
					func() holdfast.Locker { return holdfast.NewSlots(c, path, 8, owner(i)).Locker(1) },
					func() holdfast.Locker { return holdfast.NewNodeLock(c, path, owner(i)) },
					func() holdfast.Locker {
						return holdfast.NewMutex(c, path, owner(i), holdfast.WithLayout(layout.Kazoo))
					},
				}[(i/8)%6]()
				if _, err := locker.Lock(w.t.Context()); err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	c := w.dial()
	w.hold(c, "db/migrate", "deploy@web1:4112", "schema 42 of the orders database")
	for i, who := range []string{"deploy@web2:981", "ann@laptop:71", "ci@runner7:5512"} {
		c, _ := w.waiter("db/migrate", who)
		w.hold(c, fmt.Sprintf("app/step%d", i), who, "one step of many")
		w.waiter(fmt.Sprintf("app/step%d", i), fmt.Sprintf("behind@%d:1", i))
	}
	_, err := holdfast.NewElection(c, uiSpace+"leader/scheduler").Campaign(w.t.Context(), []byte("http://sched1:8080"))
	must(w.t, err)
	w.deadlock("app/")
}

// deadlock lets three clients wait for each other.
func (w *uiWorld) deadlock(dir string) {
	var ring []*zk.Client
	for i, name := range []string{"alpha", "beta", "gamma"} {
		c := w.dial()
		w.hold(c, dir+name, fmt.Sprintf("worker-%s@app%d:77", name, i), "moves an account")
		ring = append(ring, c)
	}
	for i, name := range []string{"beta", "gamma", "alpha"} {
		before := len(w.list(dir + name))
		go holdfast.NewMutex(ring[i], uiSpace+dir+name, holdfast.WithOwner(fmt.Sprintf("worker@app%d:77", i))).Lock(w.t.Context())
		for len(w.list(dir+name)) == before {
			pause(w.t.Context(), 5*time.Millisecond)
		}
	}
}

// move lets locks change their holders until stop.
func (w *uiWorld) move() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	for i := range 4 {
		c := w.dial()
		group.Go(func() {
			for ctx.Err() == nil {
				m := holdfast.NewMutex(c, fmt.Sprintf("%sjobs/%c", uiSpace, 'a'+rand.N(6)), holdfast.WithOwner(fmt.Sprintf("batch@node%d:%d", i, 100+i)), holdfast.WithReason("job step"))
				h, err := m.Lock(ctx)
				if err != nil {
					return
				}
				pause(ctx, rand.N(200*time.Millisecond))
				_ = h.Unlock()
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// compare compares all rows of the table with what List says.
func (w *uiWorld) compare(b *browser, base string) {
	w.t.Helper()
	b.goTo(base + "/locks")
	rows := 0
	for {
		var page [][4]string
		must(w.t, json.Unmarshal([]byte(eval[string](b, `JSON.stringify([...document.querySelectorAll("#locks tbody tr")].map((r) => {
			const c = [...r.cells], owner = c[2].querySelector(".who"); return [c[0].querySelector("a").href, owner ? owner.textContent : "", c[4].textContent, c[7].textContent] }))`)), &page))
		for _, r := range page {
			rows++
			u, err := url.Parse(r[0])
			must(w.t, err)
			var layouts []holdfast.Layout
			if layout, err := holdfast.ParseLayout(u.Query().Get("layout")); err == nil {
				layouts = append(layouts, layout)
			}
			entries, err := holdfast.List(w.t.Context(), w.client, u.Query().Get("path"), layouts...)
			must(w.t, err)
			waiters := 0
			for _, e := range entries {
				if !e.Held {
					waiters++
				}
			}
			if len(entries) == 0 || entries[0].Owner != r[1] && !(entries[0].Owner == "" && strings.HasPrefix(r[1], "session ")) || fmt.Sprint(waiters) != r[2] || fmt.Sprint(entries[0].Token) != r[3] {
				w.t.Errorf("the page shows %v; List says %+v", r, entries)
			}
		}
		next := eval[string](b, `document.querySelector("a[rel=next]")?.href ?? ""`)
		if next == "" {
			break
		}
		b.goTo(next)
	}
	if rows < 1000 {
		w.t.Errorf("%d rows", rows)
	}
}
