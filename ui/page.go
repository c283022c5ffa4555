package ui

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"holdfast/internal/duration"
	"holdfast/internal/locks"
)

// A frame is what all pages have.
type frame struct {
	Page, Title string
	Theme       string
	Back        string // this page, relative
	Now         time.Time
	Contact     contact
	Prefix      string
	Command     string // the command for the same information
	Cycles      int
	Links       []link
	Acts        bool   // the user may break, revoke and end
	User        string // with a login that can end
	Flash       string
	Status      int
	Body        any
}

type link struct {
	Page, Href, Text, Key string
	Here                  bool
	Foot                  bool // in the footer
}

// links are the pages, with the key after g.
var links = []link{
	{Page: "overview", Href: "./", Text: "Overview", Key: "o"},
	{Page: "locks", Href: "locks", Text: "Locks", Key: "l"},
	{Page: "graph", Href: "graph", Text: "Waits", Key: "w"},
	{Page: "sessions", Href: "sessions", Text: "Sessions", Key: "s"},
	{Page: "elections", Href: "elections", Text: "Elections", Key: "e"},
	{Page: "audit", Href: "audit", Text: "Audit", Key: "a"},
	{Page: "health", Href: "health", Text: "Health", Key: "h", Foot: true},
}

// A sheet is a page as it is sent.
type sheet struct {
	status int
	body   []byte
	err    error
}

// A sheetKey names what can be shared between tabs: the same page for the same user. A page with a banner is another page
// than one without.
type sheetKey struct {
	page, query, theme, user string
	acts                     bool
	loaded                   bool // these are of the contact
	stale                    time.Time
	why                      string
}

// A sharedSheet is a sheet that tabs share.
type sharedSheet struct {
	shared[sheet]
	asked time.Time // guarded by sheets.mu
}

const (
	// sheetAlive is how long a page is shown again if nothing has changed, at least. The ages on it are too short by this
	// much, or by the rest of a page that took long.
	sheetAlive = 500 * time.Millisecond
	// mostSheets bounds the pages that are shared, which are kept in memory.
	mostSheets = 64
	// longestQuery bounds the address of a page that is shared.
	longestQuery = 1 << 10
)

// sheets are the pages that the open tabs show. Tabs get their marks together, so many of them need one rendering.
type sheets struct {
	mu  sync.Mutex // guards the fields below
	all map[sheetKey]*sharedSheet
}

// of returns the shared sheet of a key, or one that nobody shares.
func (s *sheets) of(key sheetKey, now time.Time) *sharedSheet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[sheetKey]*sharedSheet)
	}
	one := s.all[key]
	if one == nil {
		one = &sharedSheet{}
		maps.DeleteFunc(s.all, func(_ sheetKey, old *sharedSheet) bool { return now.Sub(old.asked) > 5*markEvery })
		if len(s.all) < mostSheets && len(key.query) <= longestQuery {
			s.all[key] = one
		}
	}
	one.asked = now
	return one
}

// page answers with a page. fill sets its title, its command and its body.
func (u *UI) page(name string, fill func(r *http.Request, v view, f *frame)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f := &frame{Page: name, Prefix: u.cfg.Prefix, Status: http.StatusOK, Back: name, Theme: themeOf(r)}
		if name == "overview" {
			f.Back = ""
		}
		if q := r.URL.RawQuery; q != "" && f.Back != "" {
			f.Back += "?" + q
		}
		if a := u.cfg.Access; a != nil {
			who := userOf(r)
			f.Acts, f.Flash = who.mayAct(), a.flashOf(r)
			if a.cfg.Users != nil {
				f.User = who.Name
			}
		}
		u.state.awaitFirst(r.Context())
		v := u.state.view()
		var s sheet
		if f.Flash != "" { // for this user, and once
			s, _ = u.render(r, v, f, fill)
		} else {
			s = u.share(r, v, f, fill)
		}
		if s.err != nil {
			show(w, r, http.StatusInternalServerError, actPage{Title: "No page", Refused: "the page cannot be made", Hint: "Try again."})
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(s.status)
		_, _ = w.Write(s.body) // the client is gone
	}
}

// share returns a page that another tab has rendered a moment ago, or renders it.
func (u *UI) share(r *http.Request, v view, f *frame, fill func(*http.Request, view, *frame)) sheet {
	key := sheetKey{
		page: f.Page, query: r.URL.RawQuery, theme: f.Theme, user: f.User, acts: f.Acts,
		loaded: v.contact.Loaded, stale: v.contact.Stale, why: v.contact.Why,
	}
	s, _, old := u.sheets.of(key, v.now).get(v.version, 0, sheetAlive, func() (sheet, uint64) { return u.render(r, v, f, fill) })
	if !old.IsZero() {
		u.state.hub.markAt(old)
	}
	return s
}

// render makes a page, and returns the version of the state that all of it has.
func (u *UI) render(r *http.Request, v view, f *frame, fill func(*http.Request, view, *frame)) (sheet, uint64) {
	f.Now, f.Contact = v.now, v.contact
	if !f.Contact.Stale.IsZero() && !f.Contact.Proven.IsZero() {
		f.Now, v.now = f.Contact.Proven, f.Contact.Proven // the times of old data stop
	}
	version := v.version
	graph, old := u.state.waits(v)
	if old {
		version-- // so that the page is made again when the graph is
	}
	v.graph, f.Cycles = graph, len(graph.Cycles)
	fill(r, v, f)
	for _, l := range links {
		l.Here = l.Page == f.Page || l.Page == "locks" && f.Page == "lock"
		f.Links = append(f.Links, l)
	}
	var b bytes.Buffer
	err := templates()[f.Page].Execute(&b, f)
	return sheet{f.Status, b.Bytes(), err}, version
}

// maxText is how much of a text of others a page shows, in characters.
const maxText = 120

var functions = template.FuncMap{
	"text":  func(s string) string { return printable(s, maxText) },
	"short": func(s string) string { return printable(s, 40) },
	"tiny":  func(s string) string { return printable(s, 24) },
	"hex":   locks.SessionText,
	"age":   age,
	"took":  duration.Measured,
	"utc":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"date":  dateText,
	"stamp": func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
	"zero":  func(t time.Time) bool { return t.IsZero() },
	"add":   func(a, b int) int { return a + b },
	"ms":    func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) },
	"ago":   func(now, t time.Time) int64 { return max(0, now.Sub(t).Milliseconds()) },
	"num":   func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) },
	"hue":   hue,
	"count": count,
}

func dateText(t time.Time) string { return t.UTC().Format(time.DateTime) }

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// printable returns s with its control characters escaped, and cut.
func printable(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// age returns the time since t.
func age(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.Age(now.Sub(t))
}

// hue returns the class of the color of an owner.
func hue(owner string) string {
	h := uint32(2166136261)
	for i := range len(owner) {
		h = (h ^ uint32(owner[i])) * 16777619
	}
	return "c" + strconv.Itoa(int(h%8))
}

// name returns the name of the lock at path, as the commands take it.
func (u *UI) name(path string) string {
	if name, ok := strings.CutPrefix(path, strings.TrimSuffix(u.cfg.Namespace, "/")+"/"); ok && name != "" {
		return name
	}
	return path
}

// href returns the link to a lock.
func (u *UI) href(k lockKey) string {
	q := url.Values{"path": {k.path}}
	if k.layout != "" {
		q.Set("layout", k.layout)
	}
	if k.kind != "lock" {
		q.Set("kind", k.kind)
	}
	return "lock?" + q.Encode()
}

// command returns a command of holdfast for the shell. The last arguments are operands.
func (u *UI) command(words ...string) string {
	all := []string{"holdfast", words[0]}
	if u.cfg.Server != "" {
		all = append(all, "--server", quote(u.cfg.Server))
	}
	if u.cfg.Namespace != "/holdfast/locks" {
		all = append(all, "--namespace", quote(u.cfg.Namespace))
	}
	for _, w := range words[1:] {
		all = append(all, quote(w))
	}
	return strings.Join(all, " ")
}

// quote quotes a word for a POSIX shell. Words with control characters are for shells with $'…', such as bash.
func quote(word string) string {
	plain := word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-") == ""
	if plain {
		return word
	}
	if strings.IndexFunc(word, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0 {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString("'")
	return b.String()
}
