package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/htpasswd"
)

var home = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7480}

// A door is an Access with a page behind it that says who the user is.
type door struct {
	*Access
	http.Handler
	tokens []string // paths that were announced
}

func newDoor(t *testing.T, cfg AccessConfig) *door {
	t.Helper()
	d := &door{}
	if cfg.Addr == nil {
		cfg.Addr = home
	}
	cfg.Owner = "ops@web1:9"
	cfg.Announce = func(path string) { d.tokens = append(d.tokens, path) }
	a, err := NewAccess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.Access = a
	d.Handler = a.protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := userOf(r)
		fmt.Fprintf(w, "page for %s %s from %s", u.Name, u.Role, u.Remote)
	}))
	return d
}

// send sends a request as a browser at the page's own address would. Headers are "Name: value"; one without a
// value is left out.
func send(h http.Handler, method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:7480"+target, body)
	r.RemoteAddr = "127.0.0.1:50000"
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://127.0.0.1:7480")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "Host":
			r.Host = value
		case name == "Remote":
			r.RemoteAddr = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// cookieOf returns the header with the cookie that an answer sets.
func cookieOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if c.Value != "" {
			return "Cookie: " + c.Name + "=" + c.Value
		}
	}
	t.Fatalf("no cookie in the answer %d %s", w.Code, w.Body)
	return ""
}

// enter logs in with the latest one-time token.
func (d *door) enter(t *testing.T) string {
	t.Helper()
	w := send(d, "GET", d.tokens[len(d.tokens)-1], nil)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./" {
		t.Fatalf("%d to %q %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	return cookieOf(t, w)
}

// testUsers have the password "correct horse". The hash is as cheap as a file may say.
var testUsers = sync.OnceValue(func() string {
	var lines []string
	for _, u := range []struct {
		name string
		role Role
	}{{"ann", Operator}, {"vic", Viewer}} {
		line, err := hashPassword(u.name, u.role, "correct horse", htpasswd.LeastCost)
		if err != nil {
			panic(err)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
})

func users(t *testing.T) *Users {
	t.Helper()
	u, err := ParseUsers(testUsers())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (d *door) logIn(name, password string, headers ...string) *httptest.ResponseRecorder {
	return send(d, "POST", "/login", url.Values{"name": {name}, "password": {password}, "next": {"/"}}, headers...)
}

func TestTheOneTimeURLWorksOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{})
	first := d.tokens[0]
	w := send(d, "GET", first+"&path=%2Fa", nil)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./?path=%2Fa" {
		t.Errorf("%d to %q; want the page without the token", w.Code, w.Header().Get("Location"))
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure || c.Path != "" || c.MaxAge <= 0 || !strings.HasSuffix(c.Name, "-7480") {
		t.Errorf("cookie %+v", c)
	}
	if w := send(d, "GET", "/x", nil, cookieOf(t, w)); w.Code != http.StatusOK || w.Body.String() != "page for ops@web1:9 operator from 127.0.0.1:50000" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(d.tokens) != 2 || d.tokens[1] == first {
		t.Errorf("announced %d; want a second one", len(d.tokens))
	}
	// Used before, wrong, empty, a part, or none.
	for _, target := range []string{first, "/?t=WRONG", "/?t=", d.tokens[1][:len(d.tokens[1])-1], "/", "/lock?path=%2Fa"} {
		w := send(d, "GET", target, nil)
		if w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "page for") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	// The second one is still good, and a browser that is logged in does not use it up.
	if w := send(d, "GET", d.tokens[1], nil, cookieOf(t, w)); w.Code != http.StatusSeeOther || len(d.tokens) != 2 {
		t.Errorf("%d, %d tokens", w.Code, len(d.tokens))
	}
	d.enter(t)
}

// A request that a browser or a preview sends ahead of its user does not use the URL up.
func TestPrefetchDoesNotUseTheURL(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{})
	for _, header := range []string{"Sec-Purpose: prefetch;prerender", "Purpose: prefetch", "X-Moz: prefetch", "X-Purpose: preview", "Sec-Fetch-Dest: image", "Sec-Fetch-Dest: iframe"} {
		if w := send(d, "GET", d.tokens[0], nil, header); w.Code == http.StatusSeeOther || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d", header, w.Code)
		}
	}
	if w := send(d, "HEAD", d.tokens[0], nil); len(w.Result().Cookies()) > 0 {
		t.Error("HEAD uses the token up")
	}
	if w := send(d, "POST", d.tokens[0], nil); len(w.Result().Cookies()) > 0 {
		t.Error("POST uses the token up")
	}
	d.enter(t)
}

// Names of other hosts are refused, whatever they begin or end with, and whatever a proxy says.
func TestForeignHostsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{Hosts: []string{"locks.example.com"}})
	cookie := d.enter(t)
	for host, want := range map[string]int{
		"127.0.0.1:7480": 200, "localhost:7480": 200, "LOCALHOST": 200, "[::1]:7480": 200, "[::1]": 200, "127.0.0.1": 200, "127.8.8.8:1": 200,
		"locks.example.com": 200, "Locks.Example.com:7480": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "127.evil.example:7480": 403, "localhost.evil.example": 403, "evillocks.example.com": 403,
		"x.locks.example.com": 403, "locks.example.com.": 403, "locks.example.com:evil": 403, "192.0.2.1:7480": 403, "0.0.0.0:7480": 403, "": 403, "127.0.0.1@evil.example": 403, "2130706433": 403, "0x7f.1": 403,
	} {
		w := send(d, "GET", "/", nil, "Host: "+host, cookie, "X-Forwarded-Host: localhost", "Forwarded: host=localhost")
		if w.Code != want {
			t.Errorf("Host %q: %d; want %d", host, w.Code, want)
		}
	}
	// Before the exchange, too: else a foreign page would read the cookie.
	if w := send(d, "GET", d.tokens[1], nil, "Host: evil.example"); w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
		t.Errorf("%d", w.Code)
	}
	if w := send(d, "GET", "/", nil, "Host: 127.0.0.1", "X-Forwarded-Host: evil.example", "X-Forwarded-For: 192.0.2.66", cookie); !strings.Contains(w.Body.String(), "from 127.0.0.1:50000") {
		t.Errorf("%s", w.Body)
	}
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{})
	cookie := d.enter(t)
	for name, headers := range map[string][]string{
		"cross-site":          {"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
		"another port":        {"Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:9999"},
		"an old browser":      {"Sec-Fetch-Site: ", "Origin: https://evil.example"},
		"an old one, a port":  {"Sec-Fetch-Site: ", "Origin: http://127.0.0.1:9999"},
		"an opaque origin":    {"Sec-Fetch-Site: ", "Origin: null"},
		"says neither":        {"Sec-Fetch-Site: ", "Origin: "},
		"says neither, twice": {"Sec-Fetch-Site: ", "Origin: ", "Referer: http://127.0.0.1:7480/"},
	} {
		for _, path := range []string{"/act/break", "/logout", "/login"} {
			if w := send(d, "POST", path, url.Values{}, append(headers, cookie)...); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "page for") {
				t.Errorf("%s %s: %d", name, path, w.Code)
			}
		}
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "BREW"} {
		if w := send(d, method, "/", nil, cookie); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := send(d, "POST", "/x", url.Values{}, cookie); w.Code != http.StatusOK {
		t.Errorf("our own: %d", w.Code)
	}
	if w := send(d, "POST", "/x", url.Values{}, cookie, "Sec-Fetch-Site: "); w.Code != http.StatusOK {
		t.Errorf("our own, of an old browser: %d", w.Code)
	}
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{})
	cookie := d.enter(t)
	for _, w := range []*httptest.ResponseRecorder{send(d, "GET", "/", nil, cookie), send(d, "GET", "/", nil), send(d, "GET", "/", nil, "Host: evil.example"), send(d, "GET", d.tokens[1], nil)} {
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Access-Control-Allow-Origin": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%d: %s: %q; want %q", w.Code, name, got, want)
			}
		}
	}
}

// A cookie is good for its time, and for no longer, and not after logout. A stream that is open ends with it.
func TestALoginEnds(t *testing.T) {
	for _, how := range []string{"in time", "by logout"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoor(t, AccessConfig{})
			cookie := d.enter(t)
			var ended atomic.Bool
			stream := d.protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				ended.Store(true)
			}))
			go send(stream, "GET", "/events", nil, cookie)
			time.Sleep(sessionLife - time.Minute)
			synctest.Wait()
			if w := send(d, "GET", "/", nil, cookie); w.Code != http.StatusOK || ended.Load() {
				t.Errorf("%s: %d within the time, stream over: %v", how, w.Code, ended.Load())
			}
			if how == "by logout" {
				if w := send(d, "POST", "/logout", url.Values{}, cookie); w.Code != http.StatusOK {
					t.Errorf("logout: %d", w.Code)
				}
				if w := send(d, "GET", "/logout", nil, d.enter(t)); w.Code != http.StatusMethodNotAllowed {
					t.Errorf("logout by a link: %d", w.Code)
				}
			} else {
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			if w := send(d, "GET", "/", nil, cookie); w.Code != http.StatusUnauthorized || !ended.Load() {
				t.Errorf("%s: %d afterwards, stream over: %v", how, w.Code, ended.Load())
			}
			time.Sleep(sessionLife) // the timers of the logins end
		})
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{})
	first := d.enter(t)
	for range mostSessions {
		d.enter(t)
	}
	if n := len(d.sessions); n != mostSessions {
		t.Errorf("%d sessions; want %d", n, mostSessions)
	}
	if w := send(d, "GET", "/", nil, first); w.Code != http.StatusUnauthorized {
		t.Errorf("the oldest: %d", w.Code)
	}
	if w := send(d, "GET", "/", nil, d.enter(t)); w.Code != http.StatusOK {
		t.Errorf("the latest: %d", w.Code)
	}
	if w := send(d, "GET", "/", nil, "Cookie: "+d.cookie+"="+strings.Repeat("x", 8000)); w.Code != http.StatusUnauthorized {
		t.Errorf("a long cookie: %d", w.Code)
	}
}

// A user who logs in again and again ends only logins of his own.
func TestLoginsOfOneUserEndNoOthers(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{Users: users(t)})
	ann := cookieOf(t, d.logIn("ann", "correct horse"))
	for range 2 * mostSessions {
		d.logIn("vic", "correct horse", "Remote: 127.0.0.2:40000")
	}
	if w := send(d, "GET", "/", nil, ann); w.Code != http.StatusOK {
		t.Errorf("ann: %d", w.Code)
	}
	if n := len(d.sessions); n != mostSessions {
		t.Errorf("%d sessions; want %d", n, mostSessions)
	}
}

// Addresses that other machines reach need TLS and users.
func TestOpenAddressesNeedTLSAndUsers(t *testing.T) {
	t.Parallel()
	open := &net.TCPAddr{IP: net.IPv4zero, Port: 7480}
	for name, tt := range map[string]struct {
		cfg AccessConfig
		ok  bool
	}{
		"neither":   {AccessConfig{Addr: open}, false},
		"TLS":       {AccessConfig{Addr: open, TLS: true}, false},
		"users":     {AccessConfig{Addr: open, Users: users(t)}, false},
		"both":      {AccessConfig{Addr: open, TLS: true, Users: users(t)}, true},
		"all":       {AccessConfig{Addr: &net.TCPAddr{Port: 1}}, false},
		"loopback":  {AccessConfig{Addr: home}, true},
		"loopback6": {AccessConfig{Addr: &net.TCPAddr{IP: net.IPv6loopback}}, true},
		"a pattern": {AccessConfig{Addr: home, Hosts: []string{"*"}}, false},
		"a URL":     {AccessConfig{Addr: home, Hosts: []string{"http://x"}}, false},
	} {
		if _, err := NewAccess(tt.cfg); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUsersLogIn(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{Addr: &net.TCPAddr{IP: net.IPv4zero, Port: 7480}, TLS: true, Users: users(t), Hosts: []string{"127.0.0.1"}})
	if len(d.tokens) > 0 || d.token != "" {
		t.Error("there is a one-time token beside the users")
	}
	for _, bad := range [][2]string{{"ann", "wrong horse"}, {"ann", ""}, {"nobody", "correct horse"}, {"", ""}} {
		if w := d.logIn(bad[0], bad[1]); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), bad[1]) && bad[1] != "" {
			t.Errorf("%q: %d %s", bad, w.Code, w.Body)
		}
	}
	w := d.logIn("ann", "correct horse")
	c := w.Result().Cookies()[0]
	if w.Code != http.StatusSeeOther || !c.Secure || !c.HttpOnly || c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("%d %+v", w.Code, c)
	}
	if w := send(d, "GET", "/", nil, cookieOf(t, w)); !strings.Contains(w.Body.String(), "ann operator") {
		t.Errorf("%s", w.Body)
	}
	if w := send(d, "GET", "/", nil, cookieOf(t, d.logIn("vic", "correct horse"))); !strings.Contains(w.Body.String(), "vic viewer") {
		t.Errorf("%s", w.Body)
	}
	// A page leads to the form and back. A program is told.
	if w := send(d, "GET", "/lock?path=%2Fa", nil, "Accept: text/html"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./login?next=%2Flock%3Fpath%3D%252Fa" {
		t.Errorf("%d %s", w.Code, w.Header().Get("Location"))
	}
	if w := send(d, "GET", "/assets/ui.css", nil); w.Body.String() != "page for   from " {
		t.Errorf("the style: %d %s", w.Code, w.Body)
	}
	if w := send(d, "GET", "/events", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
	if w := send(d, "GET", "/login?name=ann&password=correct+horse", nil); len(w.Result().Cookies()) > 0 {
		t.Error("the URL logs in")
	}
	if w := send(d, "POST", "/login?name=ann&password=correct+horse", url.Values{}); len(w.Result().Cookies()) > 0 {
		t.Error("the URL of a POST logs in")
	}
}

// Guesses are refused after a few, however the client calls itself. The right password is then refused as well.
// Others are not affected, and the wait ends.
func TestGuessesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, AccessConfig{Users: users(t)})
		var refused int
		for i := range 20 {
			w := d.logIn("nobody", "guess guess", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i), fmt.Sprintf("X-Real-Ip: 192.0.2.%d", i),
				fmt.Sprintf("Forwarded: for=192.0.2.%d", i), fmt.Sprintf("Remote: 127.0.0.1:%d", 40000+i))
			if w.Code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 20-5 {
			t.Errorf("%d of 20 guesses refused; want %d", refused, 20-5)
		}
		if w := d.logIn("ann", "correct horse"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("the right password: %d", w.Code)
		}
		if w := d.logIn("ann", "correct horse", "Remote: 127.0.0.2:40000"); w.Code != http.StatusSeeOther {
			t.Errorf("another address: %d", w.Code)
		}
		time.Sleep(15 * time.Second)
		if w := d.logIn("ann", "correct horse"); w.Code != http.StatusSeeOther {
			t.Errorf("after the wait: %d", w.Code)
		}
		time.Sleep(sessionLife)
	})
}

// Somebody with an account of his own does not get the guesses back that he has used for others.
func TestALoginForgivesNoGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, AccessConfig{Users: users(t)})
		guesses := 0
		for range 5 {
			for range 5 - 1 {
				if d.logIn("vic", "guess guess").Code != http.StatusTooManyRequests {
					guesses++
				}
			}
			d.logIn("ann", "correct horse")
		}
		if guesses > 5 {
			t.Errorf("%d guesses; want %d at most", guesses, 5)
		}
		time.Sleep(sessionLife)
	})
}

// Where a login leads is a path of the page, and cannot end the header.
func TestRedirectsStayHere(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/lock?path=%2Fa&layout=kazoo": "/lock?layout=kazoo&path=%2Fa", "/": "/", "": "/", "lock": "/",
		"https://evil.example/": "/", "//evil.example/": "/", `/\evil.example`: "/", "/../evil": "/", "/a/../../evil": "/", "/%2e%2e/evil": "/", "/..": "/", "/a..b": "/a..b", "/%2fevil": "/", "javascript:alert(1)": "/",
		"/\r\nSet-Cookie: a=b": "/", "/a\nb": "/", "/\t/evil.example": "/", "/?a=%0d%0aSet-Cookie:b": "/?a=%0D%0ASet-Cookie%3Ab", "http:evil": "/", "/%5cevil.example": "/%5cevil.example",
	} {
		got := local(target)
		if got != want {
			t.Errorf("%q: %q; want %q", target, got, want)
		}
		if u, err := url.Parse(got); err != nil || u.Host != "" || strings.ContainsAny(got, "\r\n\\") || strings.HasPrefix(got, "//") {
			t.Errorf("%q leads to %q", target, got)
		}
	}
	d := newDoor(t, AccessConfig{})
	token := strings.TrimPrefix(d.tokens[0], "/")
	if w := send(d, "GET", "//evil.example/"+token, nil); strings.Contains(w.Header().Get("Location"), "evil") {
		t.Errorf("to %q", w.Header().Get("Location"))
	}
}

// Names and messages are text, wherever they are shown.
func TestLoginShowsMarkupAsText(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{Users: users(t)})
	for _, w := range []*httptest.ResponseRecorder{
		send(d, "GET", "/login?next="+url.QueryEscape(`/"><script>alert(1)</script>`), nil),
		d.logIn(`"><script>alert(1)</script>`, `"><script>alert(1)</script>`),
	} {
		if strings.Contains(w.Body.String(), "<script") || !strings.Contains(w.Body.String(), "<form") {
			t.Errorf("%s", w.Body)
		}
	}
}

func TestLongFormsAreRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{Users: users(t)})
	if w := d.logIn("ann", strings.Repeat("x", mostForm)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", w.Code)
	}
	if w := d.logIn("ann", strings.Repeat("x", 1025)); w.Code != http.StatusUnauthorized {
		t.Errorf("a long password: %d", w.Code)
	}
	if w := send(d, "POST", "/login", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("an empty form: %d", w.Code)
	}
}

func TestUsersFile(t *testing.T) {
	t.Parallel()
	ann := strings.Split(testUsers(), "\n")[0]
	name, rest, _ := strings.Cut(ann, ":")
	hash, _, _ := strings.Cut(rest, ":")
	for text, want := range map[string]string{
		"# comment\n\n" + ann + "\r\n":              "",
		name + ":" + hash:                           "", // as htpasswd makes it: a viewer
		strings.Replace(ann, "operator", "root", 1): "neither viewer nor operator",
		"ann:operator:" + hash:                      "no hash of bcrypt",
	} {
		_, err := ParseUsers(text)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; want %q", text, err, want)
		case err != nil && strings.Contains(err.Error(), hash[30:]):
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	d := newDoor(t, AccessConfig{Users: users(t)})
	for name, role := range map[string]Role{"ann": Operator, "vic": Viewer} {
		if as, err := d.present().check(t.Context(), d.gate, name, "correct horse", "a"); err != nil || as.role != role {
			t.Errorf("%s: %v %v", name, as.role, err)
		}
	}
	other, err := HashPassword("ann", Operator, "correct horse")
	if err != nil || other == ann || strings.Contains(other, "horse") {
		t.Errorf("%q, %v: no salt", other, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 2000)} {
		if _, err := HashPassword("ann", Operator, bad); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

// A pipe listener is in memory, so that its deadlines are in the time of the test.
type pipeListener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.over) }); return nil }
func (l *pipeListener) Addr() net.Addr { return home }

// A client that sends slowly, or reads slowly, loses its connection.
func TestSlowClientsAreCut(t *testing.T) {
	for name, tt := range map[string]struct {
		sends  string
		within time.Duration
	}{
		"no request":    {"", time.Minute + time.Second},
		"half a header": {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX", 6 * time.Second},
		"half a form":   {"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname=", 11 * time.Second},
		"reads nothing": {"GET /big HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoor(t, AccessConfig{Users: users(t)})
				srv := d.Server(d)
				l := &pipeListener{conns: make(chan net.Conn), over: make(chan struct{})}
				go func() {
					if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
						t.Error(err)
					}
				}()
				theirs, ours := net.Pipe()
				l.conns <- theirs
				began := time.Now()
				if tt.sends != "" {
					if _, err := io.WriteString(ours, tt.sends); err != nil {
						t.Error(err)
					}
				}
				if name == "reads nothing" {
					time.Sleep(tt.within)
				}
				_ = ours.SetReadDeadline(time.Now().Add(10 * time.Minute))
				_, err := io.Copy(io.Discard, bufio.NewReader(ours))
				if took := time.Since(began); errors.Is(err, context.DeadlineExceeded) || took > tt.within {
					t.Errorf("cut after %v (%v); want within %v", took, err, tt.within)
				}
				srv.Close()
				ours.Close()
			})
		})
	}
}

// The login of a user who is gone, or has another password or role, ends at once, and with it an open page. Other
// logins go on.
func TestSetUsersEndsTheLoginsOfChangedUsers(t *testing.T) {
	t.Parallel()
	another, err := hashPassword("ann", Operator, "battery staple", htpasswd.LeastCost)
	if err != nil {
		t.Fatal(err)
	}
	ann, vic, _ := strings.Cut(testUsers(), "\n")
	for name, tt := range map[string]struct {
		now  string
		ends bool
	}{
		"the same":         {ann + "\n" + vic, false},
		"vic goes":         {ann, false},
		"ann goes":         {vic, true},
		"another password": {another, true},
		"another role":     {strings.Replace(ann, ":operator", ":viewer", 1), true},
	} {
		d := newDoor(t, AccessConfig{Users: users(t)})
		cookie := cookieOf(t, d.logIn("ann", "correct horse"))
		opened, ended := make(chan struct{}), make(chan struct{})
		stream := d.protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(opened)
			<-r.Context().Done()
		}))
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:7480/events", nil)
			k, v, _ := strings.Cut(cookie, ": ")
			r.Header.Set(k, v)
			stream.ServeHTTP(httptest.NewRecorder(), r)
		}()
		<-opened
		now, err := ParseUsers(tt.now)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetUsers(now); err != nil {
			t.Error(err)
		}
		if w := send(d, "GET", "/", nil, cookie); (w.Code != http.StatusOK) != tt.ends {
			t.Errorf("%s: %d; the login ends: %v", name, w.Code, tt.ends)
		} else if tt.ends {
			<-ended
		}
		leave()
		<-ended
	}
	d := newDoor(t, AccessConfig{})
	if err := d.SetUsers(users(t)); err == nil {
		t.Error("a page without users gets some")
	}
	d = newDoor(t, AccessConfig{Users: users(t)})
	if err := d.SetUsers(nil); err == nil || d.logIn("ann", "correct horse").Code != http.StatusSeeOther {
		t.Errorf("a page with users loses them: %v", err)
	}
}

// A user is removed after the password was found to be right, and before the login.
func TestUserIsRemovedDuringTheLogin(t *testing.T) {
	t.Parallel()
	d := newDoor(t, AccessConfig{Users: users(t)})
	as, err := d.present().check(t.Context(), d.gate, "ann", "correct horse", "a")
	if err != nil {
		t.Fatal(err)
	}
	_, vic, _ := strings.Cut(testUsers(), "\n")
	now, err := ParseUsers(vic)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetUsers(now); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if d.admit(w, "ann", as) || len(w.Result().Cookies()) > 0 {
		t.Error("ann is logged in")
	}
}
