package ui_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"holdfast"
	"holdfast/ui"
	"holdfast/zktest"
)

// A relayed is a page behind a proxy that serves it below a path.
type relayed struct {
	t     *testing.T
	token string // the path of the one-time URL
}

// newSlowWorld is newWorld with sessions that outlast a busy machine.
func newSlowWorld(t *testing.T) *world {
	w := &world{t: t, server: zktest.NewServer()}
	t.Cleanup(w.server.Close)
	for range 3 {
		w.clients = append(w.clients, w.server.Client())
	}
	return w
}

// below serves a page below a path of mux, as a proxy does that strips the path.
func (w *world) below(mux *http.ServeMux, path string, cfg ui.AccessConfig) *relayed {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	p := &relayed{t: w.t}
	cfg.Addr = l.Addr()
	cfg.Announce = func(path string) { p.token = path }
	access, err := ui.NewAccess(cfg)
	w.must(err)
	page, err := ui.New(ui.Config{Client: w.clients[0], Access: access})
	w.must(err)
	server := access.Server(page)
	go func() { _ = server.Serve(l) }()
	w.t.Cleanup(func() { _ = server.Close(); _ = page.Close() })
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: l.Addr().String()})
	mux.Handle(path+"/", http.StripPrefix(path, proxy))
	return p
}

// A tab is a browser in front of the proxy.
type tab struct {
	t    *testing.T
	http *http.Client
	at   *url.URL
	text string
}

func newTab(t *testing.T) *tab {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tab{t: t, http: &http.Client{Jar: jar}}
}

// open opens an address as a link of the present page does.
func (b *tab) open(href string) *tab {
	b.t.Helper()
	return b.do("GET", href, nil)
}

func (b *tab) do(method, href string, form url.Values) *tab {
	b.t.Helper()
	to, err := url.Parse(href)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.at != nil {
		to = b.at.ResolveReference(to)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", to.Scheme+"://"+to.Host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b.t.Errorf("%s %s: %d %s", method, resp.Request.URL, resp.StatusCode, text)
	}
	b.at, b.text = resp.Request.URL, string(text)
	return b
}

// sees checks that the page has the text.
func (b *tab) sees(text string) *tab {
	b.t.Helper()
	if !strings.Contains(b.text, text) {
		b.t.Errorf("%s has no %q:\n%s", b.at, text, b.text)
	}
	return b
}

var addressed = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// addresses returns the addresses in the page, resolved.
func (b *tab) addresses() (all []*url.URL) {
	for _, m := range addressed.FindAllStringSubmatch(b.text, -1) {
		to, err := url.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, b.at.ResolveReference(to))
	}
	return all
}

// field returns the value of a hidden field.
func (b *tab) field(name string) string {
	b.t.Helper()
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(b.text)
	if m == nil {
		b.t.Fatalf("%s has no field %s:\n%s", b.at, name, b.text)
	}
	return m[1]
}

// The page works below any path of a proxy, without a setting: every link, form, redirect and cookie stays below it.
func TestPageBelowAPathOfAProxy(t *testing.T) {
	line, err := ui.HashPassword("ann", ui.Operator, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	users, err := ui.ParseUsers(line)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "/locks", "/a/b.c/d"} {
		for _, withUsers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%q users=%v", prefix, withUsers), func(t *testing.T) {
				w := newSlowWorld(t)
				h := w.take(holdfast.NewMutex(w.clients[1], space+"db", holdfast.WithOwner("ada")))
				other := w.take(holdfast.NewMutex(w.clients[2], space+"x", holdfast.WithOwner("bob")))
				var mu sync.Mutex
				var outside []string
				mux := http.NewServeMux()
				cfg := ui.AccessConfig{Owner: "ops"}
				if withUsers {
					cfg.Users = users
				}
				page := w.below(mux, prefix, cfg)
				if prefix != "" {
					mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						defer mu.Unlock()
						outside = append(outside, r.URL.String())
						http.NotFound(w, r)
					})
				}
				proxy := httptest.NewServer(mux)
				t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
				b := newTab(t)
				if withUsers {
					b.open(proxy.URL + prefix + "/locks?q=db").sees("Password")
					b.do("POST", b.addressWith("login"), url.Values{"name": {"ann"}, "password": {"correct horse"}, "next": {b.field("next")}})
					if b.at.Path != prefix+"/locks" || b.at.RawQuery != "q=db" {
						t.Errorf("after the login: %s", b.at)
					}
				} else {
					b.open(proxy.URL + prefix + page.token)
					if b.at.Path != prefix+"/" || b.at.RawQuery != "" {
						t.Errorf("after the one-time URL: %s", b.at)
					}
				}
				w.eventually("the page has the locks", func() bool { return strings.Contains(b.open(proxy.URL+prefix+"/locks").text, "ada") })
				// All pages, by their links.
				seen := make(map[string]bool)
				for todo := []string{proxy.URL + prefix + "/"}; len(todo) > 0 && len(seen) < 100; todo = todo[1:] {
					if seen[todo[0]] || strings.HasSuffix(todo[0], "/logout") || strings.HasSuffix(todo[0], "/theme") {
						continue
					}
					seen[todo[0]] = true
					b.at = nil
					b.open(todo[0])
					for _, to := range b.addresses() {
						if !strings.HasPrefix(to.Path, prefix+"/") {
							t.Errorf("%s has the address %s", b.at, to)
						}
						if to.Fragment = ""; to.RawQuery != "" || !strings.Contains(to.Path, "/act/") { // else it is that of a form
							todo = append(todo, to.String())
						}
					}
				}
				for _, part := range []string{"/act/break?", "/act/end?", "/lock?", "/assets/ui.css", "/audit", "/health"} {
					found := false
					for at := range seen {
						found = found || strings.HasPrefix(at, proxy.URL+prefix+part)
					}
					if !found {
						t.Errorf("no link led to %s: %v", part, seen)
					}
				}
				// Break a lock, and end a session.
				b.open(proxy.URL + prefix + "/lock?path=" + url.QueryEscape(space+"db"))
				b.open(b.addressWith("act/break?"))
				b.do("POST", b.addressWith("act/break"), url.Values{"lock": {b.field("lock")}, "layout": {b.field("layout")}, "kind": {b.field("kind")}, "token": {b.field("token")}, "reason": {"stuck"}})
				b.sees("broke " + space + "db")
				if t.Failed() {
					return
				}
				<-h.Lost()
				b.open(proxy.URL + prefix + "/act/end?session=" + fmt.Sprintf("0x%x", uint64(other.SessionID())))
				b.do("POST", b.addressWith("act/end"), url.Values{"session": {b.field("session")}, "seen": {b.field("seen")}, "reason": {"gone"}})
				b.sees("took 1 of 1 places")
				if t.Failed() {
					return
				}
				<-other.Lost()
				b.do("POST", b.addressWith("theme"), url.Values{"theme": {"dark"}, "back": {"locks?q=a"}}).sees(`data-theme="dark"`)
				if b.at.Path != prefix+"/locks" {
					t.Errorf("after the choice of colors: %s", b.at)
				}
				root, err := url.Parse(proxy.URL + "/else/where")
				w.must(err)
				if left := b.http.Jar.Cookies(root); prefix != "" && len(left) > 0 {
					t.Errorf("cookies for other paths: %v", left)
				}
				if withUsers {
					b.do("POST", b.addressWith("logout"), url.Values{}).sees("You are logged out.")
					b.open(b.addressWith("Overview")).sees("Password")
				}
				mu.Lock()
				defer mu.Unlock()
				if len(outside) > 0 {
					t.Errorf("requests outside of %s: %v", prefix, outside)
				}
			})
		}
	}
}

// addressWith returns the address in the page that contains part, or whose link has that text.
func (b *tab) addressWith(part string) string {
	b.t.Helper()
	if m := regexp.MustCompile(`href="([^"]*)">` + regexp.QuoteMeta(part) + `<`).FindStringSubmatch(b.text); m != nil {
		return m[1]
	}
	for _, to := range b.addresses() {
		if strings.Contains(to.String(), part) {
			return to.String()
		}
	}
	b.t.Fatalf("%s has no address with %q:\n%s", b.at, part, b.text)
	return ""
}

// Two pages below two paths of one host, with one name of the cookie, do not log each other out. A page at the root
// does not either.
func TestPagesBelowTwoPathsOfAHost(t *testing.T) {
	w := newSlowWorld(t)
	mux := http.NewServeMux()
	port := func() *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7480} }
	tokens := make(map[string]string)
	for _, path := range []string{"", "/a", "/b"} {
		access, err := ui.NewAccess(ui.AccessConfig{Addr: port(), Owner: "ops", Announce: func(token string) { tokens[path] = token }})
		w.must(err)
		page, err := ui.New(ui.Config{Client: w.clients[0], Access: access})
		w.must(err)
		t.Cleanup(func() { _ = page.Close() })
		mux.Handle(path+"/", http.StripPrefix(path, page))
	}
	proxy := httptest.NewServer(mux)
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	b := newTab(t)
	for path, token := range tokens {
		b.at = nil
		b.open(proxy.URL + path + token).sees("Overview")
	}
	for range 2 {
		for path := range tokens {
			b.at = nil
			b.open(proxy.URL + path + "/locks").sees("Overview")
		}
	}
}

// A path that is not clean is no page. A redirect to the clean one would leave the path of a proxy.
func TestPathsThatAreNotCleanAreNoPages(t *testing.T) {
	w := newSlowWorld(t)
	_, base := w.open(ui.Config{})
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"/locks", "a/../locks", "assets", "assets/", "./locks"} {
		r, err := c.Do(&http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: strings.Trim(strings.TrimPrefix(base, "http://"), "/"), Path: "/" + path}})
		w.must(err)
		_ = r.Body.Close()
		if r.StatusCode != http.StatusNotFound || r.Header.Get("Location") != "" {
			t.Errorf("/%s: %d to %q", path, r.StatusCode, r.Header.Get("Location"))
		}
	}
}
