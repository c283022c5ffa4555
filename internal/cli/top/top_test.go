package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"holdfast"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// topLock returns a lock whose places have the tokens 10, 11 and so on after first. The first place holds it.
func topLock(path string, first int64, owners ...string) see.Lock {
	l := see.Lock{Path: path}
	for i, owner := range owners {
		token := first + int64(i)
		l.Queue = append(l.Queue, locks.Place{Entry: holdfast.Entry{
			Path: fmt.Sprintf("%s/%d", path, token), Owner: owner, Token: token, Session: token, Held: i == 0,
			Since: time.Now().Add(-time.Minute), HeldSince: time.Now().Add(-time.Minute),
		}})
	}
	return l
}

// newTestTop returns a model with a screen. Its actions are only noted.
func newTestTop(width, height int) (*model, *[]string) {
	m := newModel(time.Second, see.Filter{Sort: "name"}, func(path string) string { return strings.TrimPrefix(path, "/l/") })
	m.feed.read = func() tea.Msg { return nil }
	acted := new([]string)
	m.dialog.act = func(a deed.Action, name, path, dir string, places []holdfast.Entry) tea.Cmd {
		*acted = append(*acted, fmt.Sprintf("%s %s %s %d", a.Name, name, path, places[0].Token))
		return nil
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.feed.begin()
	return m, acted
}

// give gives the model the result of a reading that has just ended.
func (m *model) give(locks ...see.Lock) {
	m.Update(listMsg{found: locks, began: time.Now(), ended: time.Now()})
}

// press presses keys. A key is a character, or a name such as <enter>.
func (m *model) press(keys string) (last tea.Cmd) {
	special := map[string]tea.KeyPressMsg{
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "end": {Code: tea.KeyEnd}, "home": {Code: tea.KeyHome}, "pgdown": {Code: tea.KeyPgDown},
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "back": {Code: tea.KeyBackspace},
		"ctrl-c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for keys != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(keys, "<"), ">"); ok && keys[0] == '<' {
			_, last = m.Update(special[name])
			keys = rest
			continue
		}
		r := []rune(keys)[0]
		_, last = m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		keys = keys[len(string(r)):]
	}
	return last
}

// drawn returns what the model shows.
func (m *model) drawn() string { return strings.Join(m.lines(time.Now()), "\n") }

// mustShow fails unless the screen has all texts.
func (m *model) mustShow(t *testing.T, texts ...string) {
	t.Helper()
	screen := m.drawn()
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			t.Errorf("the screen does not show %q:\n%s", text, screen)
		}
	}
}

// The selection is a lock, not a row.
func TestTopKeepsTheSelectedLock(t *testing.T) {
	a, b, c := topLock("/l/a", 10, "ann"), topLock("/l/b", 20, "bob", "bea", "bix"), topLock("/l/c", 30, "cid")
	m, _ := newTestTop(100, 20)
	m.give(a, b, c)
	m.mustShow(t, "> a", "── a is held by ann")
	m.press("j")
	m.mustShow(t, "> b", "── b is held by bob")
	m.give(topLock("/l/0", 5), a, b, c)
	m.mustShow(t, "> b")
	m.give(b, c)
	m.mustShow(t, "> b")
	// In the queue, it is a place.
	m.press("<tab>j")
	m.mustShow(t, "* b", "> 1 ", "bea")
	m.give(see.Lock{Path: "/l/b", Queue: b.Queue[1:]}, c)
	if m.selection.node != "/l/b/21" {
		t.Errorf("selected is the place %s", m.selection.node)
	}
	// If it is gone, the row stays.
	m.press("<esc>")
	m.give(a, c)
	m.mustShow(t, "> a")
	m.press("<end>")
	m.mustShow(t, "> c")
	m.press("jjj<up><up><up>k")
	m.mustShow(t, "> a")
	m.give()
	m.mustShow(t, "no locks")
	m.press("jk<tab>b")
	m.mustShow(t, "no lock is selected")
	m.give(topLock("/l/free", 1))
	m.mustShow(t, "> free", "── free is free")
	m.press("b")
	m.mustShow(t, "free is free: nobody holds it")
}

// The rows move, and the selected one stays visible.
func TestTopScrolls(t *testing.T) {
	var locks []see.Lock
	for i := range 100 {
		locks = append(locks, topLock(fmt.Sprintf("/l/%02d", i), int64(1+i), "ann"))
	}
	m, _ := newTestTop(80, 20)
	m.give(locks...)
	for _, tt := range []struct{ keys, want string }{
		{"", "00"}, {"jjjjj", "05"}, {"<pgdown>", "15"}, {"<end>", "99"}, {"kkkkkkkkkkkkkkk", "84"}, {"<home>", "00"}, {"G", "99"}, {"g", "00"}, {"<up>", "00"},
	} {
		m.press(tt.keys)
		m.mustShow(t, "> "+tt.want)
	}
	m.press("G")
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 8})
	m.mustShow(t, "> 99")
	m.give(locks[:3]...)
	m.mustShow(t, "> 02")
	// The queue has the lines that the locks do not need.
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 20})
	m.give(topLock("/l/a", 1, strings.Fields("ann a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12")...))
	m.mustShow(t, "  12        a12")
}

// However the screen is, no line is too long, and no name does anything to it.
func TestTopFitsTheScreen(t *testing.T) {
	hostile := []string{"\x1b[2J\x1b]0;title\a", "日本語の長い名前日本語の長い名前日本語", strings.Repeat("x", 100_000), "a\nb\rc\tddd", "\xff\xfe", "\u202egnp.exe", "e\u0301e\u0301", "👩\u200d👩"}
	for _, colored := range []bool{false, true} {
		m, _ := newTestTop(1, 1)
		m.screen.colored = colored
		var locks []see.Lock
		for i, s := range hostile {
			l := topLock("/l/"+s, int64(10*(i+1)), s, s, s)
			l.Queue[0].Reason = s
			l.Queue[0].Detached, l.Queue[0].ID = i%2 == 0, s
			locks = append(locks, l)
		}
		locks[1].Permits = &see.Permits{InUse: 1, Limit: 3}
		m.give(locks...)
		for _, state := range []string{"", "?", "?<tab>", "<esc>b", "n/" + hostile[1], "<enter>", "/" + "zzz\x1b", "<esc>rn"} {
			m.press(state)
			for width := 1; width <= 200; width += 1 + width/8 {
				for _, height := range []int{1, 2, 3, 4, 5, 7, 10, 25, 60} {
					m.Update(tea.WindowSizeMsg{Width: width, Height: height})
					lines := m.lines(time.Now())
					if len(lines) != height {
						t.Fatalf("%dx%d: %d lines", width, height, len(lines))
					}
					for _, line := range lines {
						if w := ansi.StringWidth(line); w > width {
							t.Fatalf("%dx%d: a line is %d wide: %q", width, height, w, line)
						}
						for _, r := range ansi.Strip(line) {
							if !term.Printable(r) {
								t.Fatalf("%dx%d: %q in %q", width, height, r, line)
							}
						}
						if !colored && strings.Contains(line, "\x1b") {
							t.Fatalf("a color: %q", line)
						}
					}
				}
			}
		}
	}
}

// A narrow screen has the columns that matter most, a wide one has all.
func TestTopColumns(t *testing.T) {
	l := topLock("/l/db/migrate", 42, "deploy@api-7:41", "deploy@api-9:77")
	l.Queue[0].Reason, l.Queue[1].Shared = "nightly reindex", true
	s := topLock("/l/pool", 50, "ci@h1:1", "ci@h2:2", "ci@h3:3")
	s.Queue[1].Held = true
	s.Permits = &see.Permits{InUse: 2, Limit: 4}
	m, _ := newTestTop(160, 24)
	m.give(l, s)
	m.mustShow(t, "2 locks, 2 held, 2 waiting; by name", "NAME", "STATE", "HOLDER", "HELD-FOR", "WAITERS", "TOKEN", "PERMITS", "WHY",
		"db/migrate", "held", "1m", "42", "nightly reindex", "POSITION", "MODE", "SESSION", "exclusive", "shared", "0x2b", "2/4", "ci@h1:1 +1", "? help")
	m.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	m.mustShow(t, "> db/migra", "held", "deploy@", "WAITERS", "── db/migrate is held by deploy@", "* holder", "1  ")
	if strings.Contains(m.drawn(), "TOKEN") {
		t.Errorf("40 columns have the token:\n%s", m.drawn())
	}
	m.press("?")
	m.mustShow(t, "break: take the lock away")
	m.press("x")
	m.mustShow(t, "> db/migra")
}

func TestTopFilters(t *testing.T) {
	l := topLock("/l/etl", 40, "dan")
	l.Queue[0].Reason = "Nightly"
	m, _ := newTestTop(100, 20)
	m.give(topLock("/l/Alpha", 10, "ann"), topLock("/l/beta", 20, "bob", "zoe"), topLock("/l/gamma", 30, "cid"), l)
	for _, tt := range []struct{ keys, shown string }{
		{"/alph", "Alpha"}, {"<back><back><back><back>ZO", "beta"}, {"<esc>/nightly<enter>", "etl"}, {"<esc>", "Alpha beta gamma etl"}, {"/q", ""}, {"<back>b<enter>", "beta"},
	} {
		m.press(tt.keys)
		var got []string
		for _, l := range m.selection.shown {
			got = append(got, m.selection.name(l.Path))
		}
		if strings.Join(got, " ") != tt.shown {
			t.Errorf("after %s: %q; want %s", tt.keys, got, tt.shown)
		}
	}
	m.mustShow(t, "4 locks, 4 held, 1 waiting; 1 with b")
	m.give(topLock("/l/new", 50, "bob"), topLock("/l/other", 60, "eve"))
	m.mustShow(t, "> new", "2 locks, 2 held, 0 waiting; 1 with b")
}

// Old data are never shown as new: the screen says so, and why, and no time goes on.
func TestTopOfASlowServerIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newTestTop(100, 20)
		m.mustShow(t, "reading the locks")
		took := func(d time.Duration) {
			m.feed.begin()
			time.Sleep(d)
			m.Update(listMsg{found: []see.Lock{topLock("/l/a", 1, "ann")}, began: m.feed.reading, ended: time.Now()})
		}
		took(2 * time.Second)
		if strings.HasPrefix(m.drawn(), "OLD") {
			t.Errorf("a reading of 2 s is called old:\n%s", m.drawn())
		}
		took(25 * time.Second)
		m.mustShow(t, "OLD: of ", ", 25s ago: the server is slow")
	})
}

func TestTopShowsOldDataAsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newTestTop(100, 20)
		var down time.Time
		m.feed.contact = func() (time.Time, string) { return down, "h:1: connection refused" }
		fresh := func(want string) {
			t.Helper()
			m.mustShow(t, want)
			if strings.HasPrefix(m.drawn(), "OLD") {
				t.Errorf("new data are called old:\n%s", m.drawn())
			}
		}
		l := topLock("/l/a", 1, "ann")
		m.give(l)
		fresh("1m")
		time.Sleep(3 * time.Second)
		fresh("1m3s") // within the interval and the slack
		down = time.Now()
		m.mustShow(t, "OLD: of ", ", 3s ago: no server answers: h:1: connection refused", "1m")
		time.Sleep(time.Minute)
		m.mustShow(t, "OLD: of ", ", 1m3s ago", "1m")
		down = time.Time{}
		m.give(l)
		fresh("2m3s")

		m.feed.begin()
		time.Sleep(20 * time.Second)
		m.mustShow(t, "20s ago: the server is slow: reading for 20s", "2m3s")
		m.Update(listMsg{began: time.Now(), ended: time.Now(), err: errors.New("holdfast: \x1bbroken")})
		m.mustShow(t, `20s ago: \x1bbroken`, "2m3s")
		m.give(l)
		fresh("2m23s")
		time.Sleep(time.Hour)
		m.mustShow(t, "1h ago: top was stopped")
	})
}

// An error that cannot pass ends top, if nothing has been read yet.
func TestTopEndsOnAFaultAtTheBeginning(t *testing.T) {
	m, _ := newTestTop(80, 20)
	m.Update(listMsg{err: zk.ErrConnectionLoss})
	if m.fault != nil {
		t.Fatal(m.fault)
	}
	m.mustShow(t, "connection")
	if m.Update(listMsg{err: zk.ErrNoAuth}); !errors.Is(m.fault, zk.ErrNoAuth) {
		t.Errorf("the fault is %v", m.fault)
	}
}

// There is one reading at a time. They begin an interval apart, or more if there are many locks.
func TestTopReadsOneAtATime(t *testing.T) {
	for _, tt := range []struct {
		name        string
		locks       int
		takes, want time.Duration
	}{
		{"fast", 10, time.Millisecond, time.Second},
		{"slow", 10, 3 * time.Second, 6 * time.Second},
		{"many", 10_000, 500 * time.Millisecond, 10500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := newTestTop(80, 20)
				m.feed.reading, m.feed.readings = time.Time{}, 0
				ctx, cancel := context.WithCancel(t.Context())
				msgs := make(chan tea.Msg)
				var begun []time.Time
				under, old := 0, false
				m.feed.read = func() tea.Msg {
					if under++; under > 1 {
						t.Error("two readings at a time")
					}
					began := time.Now()
					begun = append(begun, began)
					time.Sleep(tt.takes)
					under--
					return listMsg{found: make([]see.Lock, tt.locks), began: began, ended: time.Now()}
				}
				var run func(tea.Cmd)
				run = func(cmd tea.Cmd) {
					if cmd == nil {
						return
					}
					go func() {
						msg := cmd()
						if batch, ok := msg.(tea.BatchMsg); ok {
							for _, cmd := range batch {
								run(cmd)
							}
							return
						}
						select {
						case msgs <- msg:
						case <-ctx.Done():
						}
					}()
				}
				run(m.Init())
				after := time.After(time.Minute)
				for over := false; !over; {
					select {
					case msg := <-msgs:
						_, cmd := m.Update(msg)
						run(cmd)
						old = old || strings.Contains(m.lines(time.Now())[0], "OLD")
					case <-after:
						over = true
					}
				}
				if slow := tt.takes > time.Second; old != slow {
					t.Errorf("the data are old: %v", old)
				}
				synctest.Wait()
				for i := 2; i < len(begun); i++ { // the first may have waited for a server
					if apart := begun[i].Sub(begun[i-1]); apart != tt.want {
						t.Fatalf("reading %d begins %v after the one before; want %v", i, apart, tt.want)
					}
				}
				if len(begun) < 5 {
					t.Errorf("%d readings", len(begun))
				}
				// What break asks for does not begin a second one.
				run(m.feed.begin())
				_, cmd := m.Update(doneMsg{action: deed.Breaking})
				run(cmd)
				cancel()
				time.Sleep(time.Minute)
			})
		})
	}
}

// b and r ask. Only y does it, to the token that was shown.
func TestTopAsks(t *testing.T) {
	l := topLock("/l/a", 10, "ann", "bob", "cid")
	for _, tt := range []struct {
		name, keys string
		list       *see.Lock // read after the first key
		then       string
		shows      string
		acted      string
	}{
		{"break", "b", nil, "", "a: ann holds the lock for 1m, token 10, session 0xa\n  2 waiting; next: bob\nIt takes the lock away at once.", ""},
		{"break yes", "b", nil, "y", "break a, token 10 …", "break a /l/a 10"},
		{"break no", "b", nil, "n", "nothing was done", ""},
		{"break Enter", "b", nil, "<enter>y", "", ""},
		{"break Y", "b", nil, "Y", "nothing was done", ""},
		{"revoke yes", "r", nil, "y", "revoke a, token 10 …", "revoke a /l/a 10"},
		{"a waiter", "<tab>jb", nil, "y", "break a, token 11 …", "break a /l/a 11"},
		{"a waiter is shown", "<tab>jb", nil, "", "a: bob waits for 1m, token 11", ""},
		{"the holder has changed", "b", new(topLock("/l/a", 11, "bob", "cid")), "y", "a is held by bob", ""},
		{"the lock is gone", "b", &see.Lock{Path: "/l/b"}, "y", "> b", ""},
		{"one waiter more", "b", new(topLock("/l/a", 10, "ann", "bob", "cid", "dan")), "y", "token 10 …", "break a /l/a 10"},
		{"the waiter holds it now", "<tab>jb", new(topLock("/l/a", 11, "bob", "cid")), "y", "a is held by bob", ""},
		{"two actions at a time", "by", nil, "b", "wait for the last action to end", "break a /l/a 10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := topLock("/l/a", 10, "ann", "bob", "cid")
				m, acted := newTestTop(100, 24)
				m.give(l)
				m.press(tt.keys)
				if tt.list != nil {
					m.give(*tt.list)
				}
				m.press(tt.then)
				m.mustShow(t, tt.shows)
				if got := strings.Join(*acted, "; "); got != tt.acted {
					t.Errorf("did %q; want %q", got, tt.acted)
				}
			})
		})
	}
	m, acted := newTestTop(100, 24)
	m.give(l)
	m.feed.contact = func() (time.Time, string) { return time.Now(), "" }
	m.press("b")
	m.mustShow(t, "no server answers, so nothing can be done now")
	m.press("y")
	if len(*acted) > 0 {
		t.Errorf("did %q", *acted)
	}
}

// The question is visible on small screens, and says how to answer.
func TestTopAsksOnASmallScreen(t *testing.T) {
	m, _ := newTestTop(40, 10)
	m.give(topLock("/l/db/migrate", 42, "deploy@api-7:41", "bob"))
	m.press("b")
	m.mustShow(t, "db/migrate: deploy@api-7:41 holds the", "token 42", "does", "not wait for it to stop", "break it? y: yes; any other key: no")
	m.press("n")
	m.give(topLock("/l/db/migrate", 42, strings.Repeat("a long owner ", 50), "bob"))
	m.press("b")
	m.mustShow(t, "db/migrate: a long owner", "…", "not wait for it to stop", "break it? y: yes; any other key: no")
}

// The end of an action is shown. q waits for it, a second q does not.
func TestTopWaitsForAnAction(t *testing.T) {
	quits := func(cmd tea.Cmd) bool {
		if cmd == nil {
			return false
		}
		_, ok := cmd().(tea.QuitMsg)
		return ok
	}
	m, _ := newTestTop(100, 24)
	m.give(topLock("/l/a", 10, "ann"))
	m.press("by")
	m.Update(doneMsg{deed.Breaking, "a", 10, nil})
	m.mustShow(t, "broke a, token 10")
	m.press("by")
	m.Update(doneMsg{deed.Breaking, "a", 10, errors.New("a: nobody has the token 10 any more\x1b")})
	m.mustShow(t, `break a: a: nobody has the token 10 any more\x1b`)
	m.press("by")
	if quits(m.press("q")) {
		t.Error("q does not wait for the action")
	}
	m.mustShow(t, "ends after: break a")
	if !quits(m.press("q")) {
		t.Error("a second q waits")
	}
	m.leaving = true
	if _, cmd := m.Update(doneMsg{deed.Breaking, "a", 10, nil}); !quits(cmd) {
		t.Error("top does not end after the action")
	}
	m.leaving, m.dialog.doing = false, ""
	for _, key := range []string{"q", "<ctrl-c>", "/x<ctrl-c>"} {
		if m.selection.typing = false; !quits(m.press(key)) {
			t.Errorf("%s does not end top", key)
		}
	}
}

func TestTopOrders(t *testing.T) {
	long, short := topLock("/l/b", 10, "ann"), topLock("/l/a", 20, "bob", "cid")
	long.Queue[0].HeldSince = time.Now().Add(-time.Hour)
	other := topLock("/l/c", 30, "dan", "eve")
	other.Queue[1].Since = time.Now().Add(-time.Hour)
	m, _ := newTestTop(100, 24)
	m.selection.order.Sort = "wait"
	m.give(short, long, other)
	for _, want := range []string{"c a b", "a b c", "b a c", "c a b"} {
		var got []string
		for _, l := range m.selection.shown {
			got = append(got, m.selection.name(l.Path))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %q; want %s", m.selection.order.Sort, got, want)
		}
		m.press("s")
	}
}

// Only what is visible is drawn, however many locks there are.
func TestTopDrawsOnlyWhatIsVisible(t *testing.T) {
	m, _ := newTestTop(100, 30)
	locks := make([]see.Lock, 0, 10_000)
	for i := range 10_000 {
		locks = append(locks, topLock(fmt.Sprintf("/l/%05d", i), int64(1+i), "ann", "bob"))
	}
	m.give(locks...)
	m.press("<end>")
	named := 0
	m.selection.name = func(path string) string { named++; return path }
	if screen := m.drawn(); !strings.Contains(screen, "> /l/09999") {
		t.Errorf("the screen shows\n%s", screen)
	}
	if named > 30 {
		t.Errorf("%d names for 30 lines", named)
	}
	if i := slices.IndexFunc(m.lines(time.Now()), func(l string) bool { return strings.Contains(l, "10000/10000") }); i != 29 {
		t.Errorf("the position is in line %d", i)
	}
}

// The pane of a lock in a deadlock says who waits for whom, and what to type, as far as there is room.
func TestTopTellsADeadlock(t *testing.T) {
	for _, tt := range []struct{ height, lines int }{{24, 2}, {8, 1}, {5, 0}} {
		m, _ := newTestTop(120, tt.height)
		d := &deadlock.Deadlock{Cycle: "ann waits for b, held by bob; bob waits for a, held by ann", End: "to end it: holdfast break --token 1 a (takes it from ann)"}
		locks := []see.Lock{topLock("/l/a", 1, "ann", "bob"), topLock("/l/c", 9, "eve")}
		m.Update(listMsg{found: locks, stuck: map[string]*deadlock.Deadlock{"/l/a": d}, began: time.Now(), ended: time.Now()})
		screen := strings.Join(m.lines(time.Now()), "\n")
		got := 0
		for _, line := range d.Lines() {
			got += strings.Count(screen, "\n"+line+"\n")
		}
		if got < tt.lines {
			t.Errorf("height %d:\n%s", tt.height, screen)
		}
		m.press("<down>")
		if screen := strings.Join(m.lines(time.Now()), "\n"); strings.Contains(screen, "deadlock") {
			t.Errorf("the pane of another lock:\n%s", screen)
		}
	}
}
