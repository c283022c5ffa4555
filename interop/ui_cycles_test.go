//go:build unix

package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/layout"
	"holdfast/ui"
)

// A uiTab is a tab without a browser: it reads its page again after each mark of the event stream.
type uiTab struct {
	mu    sync.Mutex // guards the fields below
	text  string
	shown chan struct{} // closed when the text changes
}

func openTab(t *testing.T, base, page string) *uiTab {
	tab := &uiTab{shown: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	get := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, resp.Status)
		}
		return resp
	}
	stream := get("/events")
	group.Go(func() {
		defer stream.Body.Close()
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if lines.Text() != "event: change" {
				continue
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+page, nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				continue
			}
			tab.mu.Lock()
			tab.text = string(text)
			close(tab.shown)
			tab.shown = make(chan struct{})
			tab.mu.Unlock()
		}
	})
	return tab
}

// until returns when the tab shows a page without a fault, and the page.
func (tab *uiTab) until(t *testing.T, what string, fault func(page string) string) string {
	t.Helper()
	end := time.After(10 * time.Second)
	for {
		tab.mu.Lock()
		text, shown := tab.text, tab.shown
		tab.mu.Unlock()
		why := fault(text)
		if why == "" {
			return text
		}
		select {
		case <-shown:
		case <-end:
			t.Fatalf("%s: %s, in\n%s", what, why, text)
		}
	}
}

var (
	cycleBox  = regexp.MustCompile(`(?s)<section class="panel cyclebox".*?</section>`)
	rootTable = regexp.MustCompile(`(?s)<h2>Root blockers.*?</section>`)
)

// Deadlocks and root blockers among clients of holdfast, Curator and kazoo are named on the page: every client, the
// locks, the victim, and what each root blocks.
func TestDeadlocksBetweenLibrariesAreNamedOnThePage(t *testing.T) {
	s := newStage(t)
	pages, err := ui.New(ui.Config{Client: dialURL(t, "zk://"+s.addr)})
	must(t, err)
	server := httptest.NewServer(pages)
	t.Cleanup(func() { must(t, pages.Close()); server.Close() })
	tab := openTab(t, server.URL, "/graph")
	tab.until(t, "the first page", func(page string) string {
		if !strings.Contains(page, "Nobody waits for anybody") {
			return "somebody waits"
		}
		return ""
	})
	curator, kazoo := layout.Curator, layout.Kazoo
	our := func(name string, hold, await holdfast.Layout) deadlocked {
		ctx, cancel := context.WithCancel(s.ctx)
		t.Cleanup(cancel)
		c := dialURL(t, "zk://"+s.addr)
		in := func(l holdfast.Layout) func(string) holdfast.Locker {
			return func(dir string) holdfast.Locker {
				return holdfast.NewMutex(c, dir, holdfast.WithLayout(l), holdfast.WithOwner(name))
			}
		}
		return ourOwn{s, ctx, [2]func(string) holdfast.Locker{in(hold), in(await)}}
	}
	java := func() deadlocked { return theirs{s, s.java, s.java.actor(), [2]string{"mutex", "mutex"}} }
	python := func() deadlocked { return theirs{s, s.python, s.python.actor(), [2]string{"lock", "lock"}} }

	var named, rooted []time.Duration
	for round := range 3 {
		root := s.directory(fmt.Sprintf("page%d", round))
		read := func() *waitgraph.Graph {
			found, err := locks.Read(s.ctx, s.admin, locks.Query{Prefix: root + "/"})
			must(t, err)
			return waitgraph.Analyze(found.Graph())
		}
		// Each library has a root blocker: the first of a pair holds a lock, the second waits for it.
		pairs := [][2]deadlocked{
			{java(), our("behind-curator@a:1", curator, curator)},
			{python(), our("behind-kazoo@b:1", kazoo, kazoo)},
			{our("root@c:1", curator, curator), java()},
		}
		for i, p := range pairs {
			p[0].hold(fmt.Sprintf("%s/root%d", root, i))
		}
		sessions := make(map[string]bool)
		for _, o := range read().Owners {
			sessions[fmt.Sprintf("%#x", uint64(o.Sessions[0]))] = true
		}
		if len(sessions) != len(pairs) {
			t.Fatalf("%d sessions hold locks; want %d", len(sessions), len(pairs))
		}
		began := time.Now()
		for i, p := range pairs {
			p[1].await(fmt.Sprintf("%s/root%d", root, i))
		}
		tab.until(t, "the root blockers", func(page string) string {
			table := rootTable.FindString(page)
			for id := range sessions {
				if !strings.Contains(table, "<code>"+id+"</code>") {
					return "no root " + id
				}
			}
			for i := range pairs {
				if lock := fmt.Sprintf("%s/root%d", root, i); !strings.Contains(table, ">"+lock) {
					return "no lock " + lock
				}
			}
			return ""
		})
		rooted = append(rooted, time.Since(began))

		ring := []deadlocked{java(), our("bridge@d:1", curator, kazoo), python(), our("back@e:1", kazoo, curator)}
		dir := func(i int) string { return fmt.Sprintf("%s/ring%d", root, i%len(ring)) }
		for i, p := range ring {
			p.hold(dir(i))
		}
		waits := func() (n int) {
			for _, o := range read().Owners {
				n += len(o.Waits)
			}
			return n
		}
		for i, p := range ring {
			if i == len(ring)-1 {
				if page := tab.until(t, "any page", func(string) string { return "" }); cycleBox.MatchString(page) {
					t.Fatalf("a cycle before the last wait, in\n%s", page)
				}
				began = time.Now()
			}
			p.await(dir(i + 1))
			if i == len(ring)-1 {
				break
			}
			s.await(func() string {
				if n := waits(); n != len(pairs)+i+1 {
					return fmt.Sprintf("%d waiters", n)
				}
				return ""
			})
		}
		box := cycleBox.FindString(tab.until(t, "the cycle", func(page string) string {
			if !cycleBox.MatchString(page) {
				return "no cycle"
			}
			return ""
		}))
		named = append(named, time.Since(began))
		g := read()
		if len(g.Cycles) != 1 {
			t.Fatalf("%d cycles", len(g.Cycles))
		}
		want := []string{fmt.Sprintf("%d clients wait for each other", len(ring)), "bridge@d:1", "back@e:1"}
		for i := range ring {
			want = append(want, ">"+dir(i))
		}
		for _, o := range g.Cycles[0].Owners {
			owner := g.Owners[o]
			text := ""
			for _, l := range g.Locks {
				for _, p := range l.Queue {
					if p.Session == owner.Sessions[0] && p.Owner != "" {
						text = p.Owner
					}
				}
			}
			if text == "" {
				text = fmt.Sprintf("session %#x", uint64(owner.Sessions[0]))
			}
			want = append(want, text)
		}
		victim := g.Owners[g.Cycles[0].Victim].Sessions[0]
		want = append(want, fmt.Sprintf("<code>%#x</code>", uint64(victim)))
		for _, w := range want {
			if !strings.Contains(box, w) {
				t.Errorf("the cycle does not name %s:\n%s", w, box)
			}
		}
		s.end(victim, g)
		tab.until(t, "the end of the cycle", func(page string) string {
			if cycleBox.MatchString(page) {
				return "a cycle"
			}
			return ""
		})
	}
	for what, took := range map[string][]time.Duration{"a cycle": named, "the root blockers": rooted} {
		if slices.Sort(took); took[len(took)/2] > 2*time.Second {
			t.Errorf("%s was named after %v, in the median; want 2 s at most", what, took[len(took)/2])
		}
	}
	measured(t, "from the wait to the page: a cycle %s; root blockers %s", percentiles(named), percentiles(rooted))
}
