package ui_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/layout"
	"holdfast/ui"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// open serves a page for the test.
func (w *world) open(cfg ui.Config) (*ui.UI, string) {
	w.t.Helper()
	if cfg.Client == nil {
		cfg.Client = w.server.Client()
	}
	u, err := ui.New(cfg)
	w.must(err)
	server := httptest.NewServer(u)
	w.t.Cleanup(func() {
		w.must(u.Close())
		server.Close()
	})
	return u, server.URL + "/"
}

// get returns a page.
func (w *world) get(target string, status int) string {
	w.t.Helper()
	r, err := http.Get(target)
	w.must(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	w.must(err)
	if r.StatusCode != status {
		w.t.Fatalf("%s: status %d; want %d:\n%s", target, r.StatusCode, status, text)
	}
	return string(text)
}

// shown is a row of the table of locks.
type shown struct {
	name, owner string
	token       int64
	waiters     int
}

var (
	rowForm = regexp.MustCompile(`(?s)<tr data-key="[^"]*"><th scope="row"><a href="[^"]*">(.*?)</a>.*?</tr>`)
	tags    = regexp.MustCompile(`<[^>]*>`)
)

func plainText(s string) string {
	return strings.TrimSpace(html.UnescapeString(tags.ReplaceAllString(s, "")))
}

// rows reads the table of locks, of all its pages.
func (w *world) rows(base, query string) (all []shown) {
	w.t.Helper()
	for page := 0; ; page++ {
		text := w.get(base+"locks?page="+strconv.Itoa(page)+"&"+query, http.StatusOK)
		for _, m := range rowForm.FindAllStringSubmatch(text, -1) {
			cells := strings.Split(m[0], "</td>")
			s := shown{name: plainText(m[1])}
			owner, _, _ := strings.Cut(strings.TrimPrefix(cells[1][strings.Index(cells[1], "<td"):], ""), `<span class="quiet">+`)
			s.owner = plainText(owner)
			s.waiters, _ = strconv.Atoi(plainText(cells[3]))
			s.token, _ = strconv.ParseInt(plainText(cells[6]), 10, 64)
			all = append(all, s)
		}
		if !strings.Contains(text, `rel="next"`) {
			return all
		}
	}
}

// listed returns what List says of the locks.
func (w *world) listed(names map[string]holdfast.Layout) (all []shown) {
	w.t.Helper()
	for name, layout := range names {
		entries, err := holdfast.List(w.t.Context(), w.clients[0], space+name, layout)
		w.must(err)
		s := shown{name: name}
		for _, e := range entries {
			switch {
			case !e.Held:
				s.waiters++
			case s.token == 0:
				s.owner, s.token = e.Owner, e.Token
			}
		}
		if len(entries) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b shown) int { return strings.Compare(a.name, b.name) })
	return all
}

var worldNames = map[string]holdfast.Layout{
	"db/migrate": layout.Curator, "cron/nightly": layout.Curator, "app/alpha": layout.Curator,
	"app/beta": layout.Curator, "app/gamma": layout.Curator, "files/index": layout.Curator,
	"pool/render": layout.Curator, "ids/snowflake": layout.Curator, "single": layout.Curator,
	"leader/scheduler": layout.Curator, "other/kazoo": layout.Kazoo, "other/go-zookeeper": layout.GoZookeeper,
}

// agrees waits until the page shows what List says.
func (w *world) agrees(base string) {
	w.t.Helper()
	w.eventually("the page shows what List says", func() bool {
		got, want := w.rows(base, ""), w.listed(worldNames) // a node of a caller that has given up may still be there
		if slices.Equal(got, want) {
			return true
		}
		w.t.Logf("got  %v\nwant %v", got, want)
		return false
	})
}

func TestThePageShowsWhatListSaysWhileLocksMove(t *testing.T) {
	w := newWorld(t)
	_, base := w.open(ui.Config{})
	w.populate()
	w.agrees(base)
	leave := w.wait(space+"db/migrate", holdfast.NewMutex(w.clients[15], space+"db/migrate", holdfast.WithOwner("late@web9:1")))
	w.agrees(base)
	leave()
	w.agrees(base)
	// A page that starts later reads the same.
	_, second := w.open(ui.Config{})
	w.agrees(second)
	w.must(w.clients[0].Close()) // its locks go to the next in line
	w.clients = w.clients[1:]
	w.agrees(base)
	w.agrees(second)
}

func TestTheGraphOfThePageIsThatOfTheSurvey(t *testing.T) {
	w := newWorld(t)
	_, base := w.open(ui.Config{})
	w.populate()
	s, err := locks.Read(t.Context(), w.clients[0], locks.Query{Prefix: "/holdfast/"})
	w.must(err)
	g := waitgraph.Analyze(s.Graph()).Blocking()
	if len(g.Cycles) != 1 || len(g.Roots()) == 0 {
		t.Fatalf("%d cycles, %d roots", len(g.Cycles), len(g.Roots()))
	}
	var text string
	w.eventually("the cycle and all waits are shown", func() bool {
		text = w.get(base+"graph", http.StatusOK)
		return strings.Contains(text, "3 clients wait for each other") && strings.Contains(text, fmt.Sprintf(`All waits <span class="quiet">%d</span>`, len(g.Edges)))
	})
	victim := g.Owners[g.Cycles[0].Victim].Sessions[0]
	for _, want := range []string{fmt.Sprintf("<code>0x%x</code>, which holds", uint64(victim)), "Suggested victim", `class="box cycle victim"`, "deploy@web1:4112"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestAllPages(t *testing.T) {
	w := newWorld(t)
	_, base := w.open(ui.Config{Server: "zk://a b/c"})
	w.populate()
	w.agrees(base)
	lock := "lock?path=" + url.QueryEscape(space+"db/migrate")
	for page, wants := range map[string][]string{
		"":          {"Root blockers", "db/migrate"},
		"locks":     {"holdfast ls --server &#39;zk://a b/c&#39; /"},
		lock:        {"schema 42 of the orders database", "2026.11.3", "ann@laptop:71", `class="gantt"`, `"Waits for">deploy@web2:981</td>`, "holdfast status"},
		"graph":     {"Root blockers"},
		"sessions":  {"deploy@web1:4112", "(waits)"},
		"elections": {"leader/scheduler", "http://sched1:8080", "There are no shards"},
		"audit":     {"Nobody has broken or revoked a lock"},
		"health":    {"one persistent recursive watch", "None: every change was seen"},
	} {
		text := w.get(base+page, http.StatusOK)
		for _, want := range append(wants, `<html lang="en">`, `<noscript><meta http-equiv="refresh"`, "Copy as command") {
			if !strings.Contains(text, want) {
				t.Errorf("/%s lacks %q", page, want)
			}
		}
		for _, bad := range []string{"<style", " style=", "<script>", " onclick", "javascript:", "ZgotmplZ"} {
			if strings.Contains(text, bad) {
				t.Errorf("/%s has %q", page, bad)
			}
		}
	}
	w.get(base+"lock?path=/nothing", http.StatusNotFound)
	w.get(base+"lock?path=..%2f", http.StatusNotFound)
	w.get(base+"nothing", http.StatusNotFound)
	for query, want := range map[string]int{
		"q=MIGRATE": 1, "q=renders+a+film": 1, "kind=semaphore": 1, "kind=rwlock": 1, "kind=election": 1, "kind=node": 1,
		"state=waiting": 9, "owner=gpu@r3": 1, "q=nothing+at+all": 0, "page=99": 12,
	} {
		if got := strings.Count(w.get(base+"locks?"+query, http.StatusOK), `<tr data-key=`); got != want {
			t.Errorf("locks?%s: %d rows; want %d", query, got, want)
		}
	}
	if rows := w.rows(base, "sort=wait"); rows[0].name != "db/migrate" || rows[len(rows)-1].waiters != 0 {
		t.Errorf("by wait: %v", rows)
	}
}

func TestHostileTextIsShownAsText(t *testing.T) {
	w := newWorld(t)
	_, base := w.open(ui.Config{})
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "\x1b[31m\u202e\x00"
	long := strings.Repeat("x", 5000) + "THE-END"
	node := space + `a"><script>alert(3)<b>'` + "\u00ad$(reboot)`"
	take := func(path, owner, why string) {
		w.take(holdfast.NewMutex(w.clients[0], path, holdfast.WithOwner(owner), holdfast.WithReason(why), holdfast.WithLabels(map[string]string{evil: evil})))
	}
	take(node, evil, evil)
	take(space+"long", long, long)
	w.wait(node, holdfast.NewMutex(w.clients[1], node, holdfast.WithOwner(evil), holdfast.WithReason(evil)))
	_, err := holdfast.NewElection(w.clients[2], space+"election").Campaign(t.Context(), []byte("\xff\xfe"+evil))
	w.must(err)
	w.must(makeAll(w.clients[0], "/holdfast/audit"))
	_, err = w.clients[0].Set(t.Context(), "/holdfast/audit", []byte(`{"kind":"AuditLog","items":[{"action":"<script>","by":"<script>","reason":"<script>","places":[{"path":"<script>","owner":"<script>"}]}]}`), -1)
	w.must(err)
	w.eventually("the locks are shown", func() bool { return strings.Contains(w.get(base+"locks", 200), "3 of 3 locks") })
	q := url.Values{"path": {node}}.Encode()
	for _, page := range []string{"", "locks", "locks?q=" + url.QueryEscape(evil), "lock?" + q, "lock?path=" + url.QueryEscape(space+"long"), "graph", "sessions", "elections", "audit", "health"} {
		text := w.get(base+page, http.StatusOK)
		for _, bad := range []string{"<script>", "<img", "<b>", "\x1b", "\u202e", "\x00", "THE-END", "ZgotmplZ"} {
			if page == "locks?q="+url.QueryEscape(evil) && (bad == "\x1b" || bad == "\u202e" || bad == "\x00") {
				continue // the user's own text in its input
			}
			if strings.Contains(text, bad) {
				t.Errorf("/%s has %q", page, bad)
			}
		}
	}
	if text := w.get(base+"lock?"+q, 200); !strings.Contains(text, `\x1b[31m\u202e\x00`) || !strings.Contains(text, `$&#39;a&#34;&gt;&lt;script&gt;alert(3)&lt;b&gt;\&#39;\xc2\xad$(reboot)`) {
		t.Error("escaped text or the quoted command is missing:\n" + text)
	}
}

func makeAll(c *zk.Client, path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if _, _, err := c.Create(context.Background(), path[:i], nil, zk.Persistent); err != nil && !strings.Contains(err.Error(), "exist") {
			return err
		}
	}
	return nil
}

func TestOldDataAreSaidToBeOld(t *testing.T) {
	w := newWorld(t)
	client := w.server.Client()
	_, base := w.open(ui.Config{Client: client})
	w.populate()
	w.agrees(base)
	old := func() bool { return strings.Contains(w.get(base+"locks", 200), "Old data: nothing is known after ") }
	if old() {
		t.Fatal("old from the beginning")
	}
	resume := w.server.Stall()
	w.eventually("the page says that its data are old", old)
	if first := w.get(base, 200); !strings.Contains(first, "data-stale") {
		t.Error("the ages go on")
	}
	resume()
	w.eventually("the page is up to date again", func() bool { return !old() })
	w.eventually("locks are shown", func() bool { return slices.Equal(w.rows(base, ""), w.listed(worldNames)) })
	// Its session ends: the page goes on in the next one, and tells the gap.
	s, err := client.Session(t.Context())
	w.must(err)
	w.server.Expire(s.ID())
	w.eventually("the gap is told", func() bool {
		return strings.Contains(w.get(base+"health", 200), "the session of this page has expired")
	})
	w.take(holdfast.NewMutex(w.clients[14], space+"single2"))
	w.eventually("later changes are shown", func() bool { return strings.Contains(w.get(base+"locks", 200), "single2") && !old() })
	// The server restarts: sessions and locks are the same.
	w.server.Restart()
	w.eventually("the page is up to date after the restart", func() bool { return !old() && strings.Contains(w.get(base+"locks", 200), "single2") })
}

// A server that does not hear from its leader proves nothing: the page says that its data may be old, though the server
// answers reads.
func TestAServerThatLagsProvesNothing(t *testing.T) {
	w := newWorld(t)
	client := w.server.Client()
	_, base := w.open(ui.Config{Client: client})
	old := func() bool { return strings.Contains(w.get(base+"locks", 200), "Old data: nothing is known after ") }
	w.eventually("the locks are read", func() bool { return strings.Contains(w.get(base+"locks", 200), "as of <time") })
	var alone atomic.Bool
	w.server.Intercept(zkproto.OpSync, func(string) zktest.Action {
		if alone.Load() {
			return zktest.Throttle
		}
		return zktest.Pass
	})
	alone.Store(true)
	w.eventually("the page says that its data are old", old)
	if _, _, err := client.Exists(t.Context(), "/"); err != nil {
		t.Error(err)
	}
	alone.Store(false)
	w.eventually("the page is up to date again", func() bool { return !old() })
}

// readMark reads the next mark of a stream.
func readMark(r *bufio.Reader) (string, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if what, ok := strings.CutPrefix(line, "event: "); ok {
			return strings.TrimSpace(what), nil
		}
	}
}

func TestTabsGetMarks(t *testing.T) {
	w := newWorld(t)
	u, base := w.open(ui.Config{})
	w.eventually("the page is there", func() bool { return strings.Contains(w.get(base, 200), "as of") })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", base+"events", nil)
	w.must(err)
	r, err := http.DefaultClient.Do(req)
	w.must(err)
	defer r.Body.Close()
	marks := bufio.NewReader(r.Body)
	if what, err := readMark(marks); what != "change" || err != nil {
		t.Fatal("the first mark:", what, err)
	}
	// Without changes, the stream is alive.
	for what := ""; what != "alive"; {
		what, err = readMark(marks)
		w.must(err)
	}
	w.take(holdfast.NewMutex(w.clients[0], space+"x"))
	for what := ""; what != "change"; {
		what, err = readMark(marks)
		w.must(err)
	}
	// The end of the page ends its streams.
	w.must(u.Close())
	for err == nil {
		_, err = readMark(marks)
	}
}

func TestASlowTabIsDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	w := newWorld(t)
	u, err := ui.New(ui.Config{Client: w.server.Client()})
	w.must(err)
	defer u.Close()
	slow := &stuck{closed: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.ServeHTTP(slow, httptest.NewRequestWithContext(t.Context(), "GET", "/events", nil))
	}()
	// Meanwhile, others go on.
	w.take(holdfast.NewMutex(w.clients[0], space+"x"))
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the slow tab is still there")
	}
	if slow.writes > 1 {
		t.Errorf("%d writes to a tab that does not read", slow.writes)
	}
}

// A stuck writer is a tab that never reads: a write ends at its deadline.
type stuck struct {
	header http.Header
	limit  time.Time
	writes int
	closed chan struct{}
}

func (s *stuck) Header() http.Header {
	if s.header == nil {
		s.header = make(http.Header)
	}
	return s.header
}
func (s *stuck) WriteHeader(int)   {}
func (s *stuck) FlushError() error { return nil }
func (s *stuck) Write([]byte) (int, error) {
	s.writes++
	if s.limit.IsZero() {
		<-s.closed // for ever
	}
	time.Sleep(time.Until(s.limit))
	return 0, &net.OpError{Op: "write", Err: context.DeadlineExceeded}
}
func (s *stuck) SetWriteDeadline(at time.Time) error { s.limit = at; return nil }

func TestCloseLeavesNoGoroutine(t *testing.T) {
	w := newWorld(t)
	client := w.server.Client()
	w.take(holdfast.NewMutex(w.clients[0], space+"x"))
	_, err := client.Session(t.Context())
	w.must(err)
	for range 5 {
		u, err := ui.New(ui.Config{Client: client})
		w.must(err)
		w.eventually("it reads the locks", func() bool {
			r := httptest.NewRecorder()
			u.ServeHTTP(r, httptest.NewRequest("GET", "/locks", nil))
			return strings.Contains(r.Body.String(), "1 of 1 lock")
		})
		w.must(u.Close())
	}
	w.eventually("no goroutine is left", func() bool {
		all := make([]byte, 4<<20)
		all = all[:runtime.Stack(all, true)]
		return !bytes.Contains(all, []byte("holdfast/ui.(*")) && !bytes.Contains(all, []byte("holdfast/internal/lockwatch."))
	})
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	for _, cfg := range []ui.Config{{}, {Client: w.clients[0], Prefix: "x"}, {Client: w.clients[0], Prefix: "/a//b/c"}} {
		if u, err := ui.New(cfg); err == nil {
			_ = u.Close()
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func TestThemeAndHeaders(t *testing.T) {
	w := newWorld(t)
	_, base := w.open(ui.Config{})
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for back, want := range map[string]string{"locks?q=a": "locks?q=a", "": "./", "//evil.example": "./", "https://evil.example/locks": "./"} {
		r, err := c.PostForm(base+"theme", url.Values{"theme": {"dark"}, "back": {back}})
		w.must(err)
		_ = r.Body.Close()
		if got := r.Header.Get("Location"); r.StatusCode != http.StatusSeeOther || got != want || r.Cookies()[0].Value != "dark" {
			t.Errorf("back %q: status %d, to %q; want %q", back, r.StatusCode, got, want)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", base+"locks", nil)
	req.AddCookie(&http.Cookie{Name: "holdfast_theme", Value: "dark"})
	r, err := c.Do(req)
	w.must(err)
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(text), `<html lang="en" data-theme="dark">`) {
		t.Error("the page is not dark")
	}
	if csp := r.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	cross, _ := http.NewRequestWithContext(t.Context(), "POST", base+"theme", strings.NewReader("theme=dark"))
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	if r, err := c.Do(cross); err != nil || r.StatusCode != http.StatusForbidden {
		t.Error("a form of another site is accepted", err)
	}
}
