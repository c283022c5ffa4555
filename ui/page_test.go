package ui

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/zktest"
)

// slowPage is a page that takes time to make.
type slowPage struct {
	u    *UI
	took time.Duration
	made atomic.Int64
}

func newSlowPage(took time.Duration) *slowPage {
	u := &UI{cfg: Config{Prefix: "/"}, state: newState(nil, "/")}
	u.state.contact = contact{Loaded: true, Proven: time.Now()}
	close(u.state.first)
	return &slowPage{u: u, took: took}
}

func (p *slowPage) get(t *testing.T, query string) string {
	w := httptest.NewRecorder()
	p.u.page("elections", func(_ *http.Request, v view, f *frame) {
		time.Sleep(p.took)
		f.Command = fmt.Sprintf("made %d of %d", p.made.Add(1), v.version)
		f.Body = electionsBody{}
	})(w, httptest.NewRequest("GET", "/elections"+query, nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
	return w.Body.String()
}

// change is a change of a lock.
func (p *slowPage) change() {
	p.u.state.mu.Lock()
	defer p.u.state.mu.Unlock()
	p.u.state.version++
	p.u.state.hub.mark()
}

// Tabs that show the same page at the same time need one rendering.
func TestManyTabsNeedOneRendering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(30 * time.Millisecond)
		var tabs sync.WaitGroup
		for range 50 {
			tabs.Go(func() { p.get(t, "") })
		}
		tabs.Wait()
		if n := p.made.Load(); n != 1 {
			t.Errorf("%d renderings for 50 tabs", n)
		}
		p.get(t, "?sort=wait")
		if n := p.made.Load(); n != 2 {
			t.Errorf("%d renderings of two pages", n)
		}
	})
}

// A tab gets no page that was made for another user, for other rights or in other colors.
func TestPagesOfOthersAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		for i, f := range []frame{
			{Page: "elections"}, {Page: "audit"}, {Page: "elections", User: "ann"}, {Page: "elections", User: "bob"},
			{Page: "elections", Acts: true}, {Page: "elections", Theme: "dark"},
		} {
			for range 2 {
				p.u.share(httptest.NewRequest("GET", "/", nil), p.u.state.view(), &f, func(_ *http.Request, _ view, f *frame) {
					p.made.Add(1)
					f.Body = struct {
						electionsBody
						auditBody
					}{}
				})
			}
			if n := p.made.Load(); n != int64(i+1) {
				t.Errorf("%d renderings of %d pages, the last one %+v", n, i+1, f)
			}
		}
	})
}

// A large page is made again after a rest. A tab that got the old page gets a mark then.
func TestAnOldPageIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(500 * time.Millisecond)
		defer p.u.state.hub.close()
		old := p.get(t, "")
		tab, leave, _ := p.u.state.hub.join()
		defer leave()
		<-tab
		p.change()
		<-tab
		if p.get(t, "") != old {
			t.Error("a rendering for each change, without a rest")
		}
		began := time.Now()
		<-tab // there may be no further change
		if rested := time.Since(began); rested != rest*p.took {
			t.Errorf("a mark after %v", rested)
		}
		if p.get(t, "") == old {
			t.Error("still the old page")
		}
		time.Sleep(time.Minute)
		if len(tab) > 0 {
			t.Error("a mark although the page was new")
		}
	})
}

// deadlock returns two locks whose holders wait for each other.
func deadlock() map[string][]*lock {
	one := func(path string, holder, waiter int64) []*lock {
		queue := []locks.Place{{Entry: holdfast.Entry{Path: path + "/1", Session: holder, Held: true, Token: 10 * holder}}, {Entry: holdfast.Entry{Path: path + "/2", Session: waiter}}}
		return []*lock{new(state).complete(locks.Lock{Path: path, Kind: "lock", Dirs: []string{path}, Queue: queue})}
	}
	return map[string][]*lock{"/a": one("/a", 1, 2), "/b": one("/b", 2, 1)}
}

// A deadlock has an action that ends it, on the place of its victim that others wait for.
func TestTheVictimOfADeadlockCanBeBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		s := p.u.state
		defer s.hub.close()
		s.locks = deadlock()
		p.change()
		v := s.view()
		v.graph, _ = s.waits(v)
		cycles := p.u.graphOf(v).Cycles
		if len(cycles) != 1 {
			t.Fatalf("%d cycles", len(cycles))
		}
		want := map[string]string{"0x1": "act/break?kind=lock&layout=&lock=%2Fa&token=10", "0x2": "act/break?kind=lock&layout=&lock=%2Fb&token=20"}[cycles[0].Session]
		if c := cycles[0]; c.Break.Href != want || !slices.Equal(c.End, []string{c.Session}) {
			t.Errorf("victim %s: %+v, end %v; want %s", c.Session, c.Break, c.End, want)
		}
		if at := p.u.cyclesAt(v, "/a"); len(at) != 1 || at[0].Session != cycles[0].Session || len(p.u.cyclesAt(v, "/c")) > 0 {
			t.Errorf("cycles of /a: %+v, and of /c: %+v", at, p.u.cyclesAt(v, "/c"))
		}
		w := httptest.NewRecorder()
		p.u.page("lock", p.u.lock)(w, httptest.NewRequest("GET", "/lock?path=/a", nil))
		if text := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(text, "2 clients wait for each other") || !strings.Contains(text, "<code>"+html.EscapeString(cycles[0].Break.Command)+"</code>") {
			t.Errorf("the page of /a: %d, %s", w.Code, text)
		}
	})
}

// lose says that contact is lost, as the probe does.
func (p *slowPage) lose() {
	p.u.state.mu.Lock()
	defer p.u.state.mu.Unlock()
	p.u.state.stale("no server answers")
}

// A page that took long to make is not shown without the banner after contact was lost.
func TestASlowPageGetsTheBanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(3 * time.Second)
		defer p.u.state.hub.close()
		p.get(t, "")
		p.lose()
		if !strings.Contains(p.get(t, ""), "Old data") {
			t.Error("no banner")
		}
	})
}

// Contact can be lost while a page is made. The mark that follows brings the banner.
func TestContactIsLostWhileAPageIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		s := p.u.state
		defer s.hub.close()
		s.version = 1
		sorted := make(chan struct{})
		go s.sorted.get(0, 0, 0, func() (snapshot, uint64) { <-sorted; return snapshot{}, 0 })
		synctest.Wait()
		go p.get(t, "") // has read the contact, and waits for the locks
		synctest.Wait()
		tab, leave, _ := s.hub.join()
		defer leave()
		<-tab
		p.lose()
		close(sorted)
		<-tab
		if !strings.Contains(p.get(t, ""), "Old data") {
			t.Error("no banner")
		}
	})
}

// After contact was regained, the banner stays until the locks of before are gone.
func TestOldLocksKeepTheBanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState(nil, "/")
		defer s.hub.close()
		s.contact = contact{Loaded: true, Stale: time.Now()}
		s.version = 1
		s.sorted.get(1, 0, 0, func() (snapshot, uint64) {
			time.Sleep(200 * time.Millisecond) // there are many locks
			return snapshot{version: 1, then: s.contact}, 1
		})
		s.contact.Stale, s.version = time.Time{}, 2
		if v := s.view(); v.version != 1 || v.contact.Stale.IsZero() {
			t.Errorf("version %d, stale since %v", v.version, v.contact.Stale)
		}
		time.Sleep(time.Second)
		if v := s.view(); v.version != 2 || !v.contact.Stale.IsZero() {
			t.Errorf("version %d, stale since %v", v.version, v.contact.Stale)
		}
	})
}

// A page with the graph of an older version is made again with the new graph, also if another tab asks for it in
// between.
func TestTheLastMarkBringsTheNewGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		s := p.u.state
		defer s.hub.close()
		p.change()
		time.Sleep(900 * time.Millisecond)
		p.change()
		p.get(t, "?other") // makes the graph
		tab, leave, _ := s.hub.join()
		defer leave()
		<-tab
		s.locks = deadlock()
		p.change()
		p.get(t, "") // has the old graph
		last := ""
		for range 3 {
			select {
			case <-tab:
				last = p.get(t, "")
			case <-time.After(time.Minute):
			}
		}
		if !strings.Contains(last, "title=\"deadlocks\"") {
			t.Error("the tab does not show the deadlock")
		}
	})
}

// A page that takes longer than it stays up to date is made once for tabs that ask together, and not for ever.
func TestASlowPageIsNotMadeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(2 * sheetAlive)
		var tabs sync.WaitGroup
		for range 2 {
			tab, leave, _ := p.u.state.hub.join()
			defer leave()
			tabs.Go(func() {
				for {
					select {
					case <-tab:
						p.get(t, "")
					case <-p.u.state.hub.closed:
						return
					}
				}
			})
		}
		time.Sleep(time.Minute)
		p.u.state.hub.close()
		tabs.Wait()
		if n := p.made.Load(); n != 1 {
			t.Errorf("%d renderings", n)
		}
	})
}

// Without a watch, one reading alone makes no deadlock, also if contact is lost after it.
func TestALossOfContactIsNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		s := p.u.state
		defer s.hub.close()
		s.contact.Polls = true
		s.locks = deadlock()
		p.change()
		for range 3 {
			if g, _ := s.waits(s.view()); len(g.Cycles) > 0 {
				t.Error("a deadlock of one reading")
			}
			p.lose()
			time.Sleep(time.Second)
		}
		p.change() // the second reading
		if g, _ := s.waits(s.view()); len(g.Cycles) != 1 {
			t.Errorf("%d deadlocks", len(g.Cycles))
		}
	})
}

// The times on a page go on, also if nothing changes.
func TestAPageGetsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		first := p.get(t, "")
		time.Sleep(sheetAlive)
		if p.get(t, "") == first {
			t.Error("the same page, with the same times")
		}
	})
}

// The pages that are kept for others are bounded, and those that nobody asks for go.
func TestSharedPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPage(0)
		for i := range 2 * mostSheets {
			p.get(t, fmt.Sprintf("?q=%d", i))
		}
		if n := len(p.u.sheets.all); n != mostSheets {
			t.Errorf("%d pages are kept", n)
		}
		time.Sleep(time.Minute)
		p.get(t, "")
		if n := len(p.u.sheets.all); n != 1 {
			t.Errorf("%d pages are kept after a minute", n)
		}
	})
}

// All tabs get their marks at the same moment, at most once a second, and the last change has one.
func TestTabsAreMarkedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		began := time.Now()
		var tabs sync.WaitGroup
		var marks [2][]string
		for i := range marks {
			tab, leave, _ := h.join()
			defer leave()
			<-tab
			tabs.Go(func() {
				for {
					select {
					case <-tab:
						marks[i] = append(marks[i], time.Since(began).String())
					case <-h.closed:
						return
					}
				}
			})
		}
		for range 35 {
			h.mark()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		h.close()
		tabs.Wait()
		for i := range marks {
			if want := []string{"0s", "1s", "2s", "3s", "4s"}; !slices.Equal(marks[i], want) {
				t.Errorf("tab %d has marks at %v; want %v", i, marks[i], want)
			}
		}
	})
}

// The first page waits for the first reading. Without one, it claims nothing about the locks.
func TestPagesBeforeTheFirstReading(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer()
			defer srv.Close()
			c := srv.Client()
			if _, err := c.Session(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !answers {
				defer srv.Stall()()
			}
			u, err := New(Config{Client: c, Prefix: "/locks/", Namespace: "/locks"})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			for _, path := range []string{"/", "/locks", "/elections", "/sessions", "/graph", "/health", "/lock?path=/locks/db"} {
				w := httptest.NewRecorder()
				u.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				text := w.Body.String()
				if strings.Contains(text, "No data yet") == answers {
					t.Errorf("a server that answers: %v; %s: %s", answers, path, text)
				}
				for _, claim := range []string{"No lock is in use", "free", "None", "nobody"} {
					if !answers && strings.Contains(text, claim) {
						t.Errorf("%s claims %q before it has read the locks: %s", path, claim, text)
					}
				}
			}
		})
	}
}
