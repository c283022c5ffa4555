package ui

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/duration"
	"holdfast/internal/htpasswd"
)

// A login is a browser that is logged in.
type login struct {
	name    string
	id      string // for shares: it opens nothing
	account        // without a user: of the one-time URL
	expires time.Time
	ctx     context.Context // ends with the login
	end     context.CancelFunc
	flashes []flash // guarded by Access.mu, the oldest first
}

// names are what a browser counts for, besides its address.
func (l *login) names() []string { return []string{"user " + l.name, "login " + l.id} }

// A flash is a message for the page after an action.
type flash struct{ id, text string }

// loginOf returns the login of a request, or nil.
func (a *Access) loginOf(r *http.Request) *login {
	for _, c := range r.CookiesNamed(a.cookie) { // that of a page below a shorter path can be there, too
		if len(c.Value) > 64 {
			continue
		}
		// The map has hashes, so the time of a look-up says nothing about a secret.
		key := sha256.Sum256([]byte(c.Value))
		a.mu.Lock()
		l := a.sessions[key]
		a.mu.Unlock()
		if l != nil && time.Now().Before(l.expires) {
			return l
		}
	}
	return nil
}

// setCookie sets the cookie of a login, or removes it if maxAge is negative. Without a path, a cookie is for the directory
// of the request, as the browser sees it: a proxy may serve the page below a path that we do not know. All
// requests that set it are for the page's own directory. The name of a cookie for TLS alone begins with
// __Host-, which browsers accept with the path / only.
func (a *Access) setCookie(w http.ResponseWriter, value string, maxAge int) {
	c := &http.Cookie{Name: a.cookie, Value: value, MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if a.cfg.TLS {
		c.Path, c.Secure = "/", true
	}
	http.SetCookie(w, c)
}

// admit logs a browser in. It returns false if the user has had another account since the password was checked.
func (a *Access) admit(w http.ResponseWriter, name string, as account) bool {
	secret := crand.Text()
	now := time.Now()
	l := &login{name: name, id: crand.Text(), account: as, expires: now.Add(sessionLife)}
	a.mu.Lock()
	if a.users != nil && !a.users.has(as) {
		a.mu.Unlock()
		return false
	}
	l.ctx, l.end = context.WithDeadline(context.Background(), l.expires)
	for key, old := range a.sessions {
		if !now.Before(old.expires) {
			a.drop(key)
		}
	}
	if len(a.sessions) >= mostSessions {
		a.dropOldest()
	}
	a.sessions[sha256.Sum256([]byte(secret))] = l
	a.mu.Unlock()
	// Lax: a link to the page from elsewhere needs no other login. A request that acts is a POST, which CrossOriginProtection
	// keeps to the page itself.
	a.setCookie(w, secret, int(sessionLife/time.Second))
	return true
}

// dropOldest ends the oldest login of the user with most. a.mu must be held.
func (a *Access) dropOldest() {
	count := make(map[string]int)
	for _, l := range a.sessions {
		count[l.name]++
	}
	var first *login
	var of [sha256.Size]byte
	for key, l := range a.sessions {
		if first == nil || count[l.name] > count[first.name] || count[l.name] == count[first.name] && l.expires.Before(first.expires) {
			first, of = l, key
		}
	}
	a.drop(of)
}

// drop ends a login. a.mu must be held.
func (a *Access) drop(key [sha256.Size]byte) {
	if l := a.sessions[key]; l != nil {
		l.end()
		delete(a.sessions, key)
	}
}

// exchange swaps the one-time token of a URL for a cookie. It returns false if the request is for its page all the
// same.
func (a *Access) exchange(w http.ResponseWriter, r *http.Request, l *login) bool {
	if r.Method != http.MethodGet || here(r) != "./" { // see setCookie
		return false
	}
	if ahead(r) {
		a.refuse(w, r, http.StatusServiceUnavailable, "the URL is for its user", "Open it in a browser.")
		return true
	}
	target := *r.URL
	q := target.Query()
	given := q.Get(tokenField)
	q.Del(tokenField)
	target.RawQuery = q.Encode()
	if l == nil { // otherwise the token stays for another browser
		a.mu.Lock()
		valid := a.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(a.token)) == 1
		if valid {
			a.token = ""
		}
		a.mu.Unlock()
		if !valid {
			a.refuse(w, r, http.StatusForbidden, "this URL was used before, or is not the one that holdfast printed",
				"Each URL is for one browser. holdfast has printed the next one.")
			return true
		}
		role := Operator
		if a.cfg.ReadOnly {
			role = Viewer
		}
		a.admit(w, a.cfg.Owner, account{role: role})
		a.log.Info("ui: logged in with the one-time URL", "remote", r.RemoteAddr)
		a.renewToken()
	}
	redirect(w, r, local(target.RequestURI()))
	return true
}

// ahead reports whether a request was made without its user: by a prefetch, or for a part of a page.
func ahead(r *http.Request) bool {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Moz", "X-Purpose"} {
		if v := strings.ToLower(r.Header.Get(name)); strings.Contains(v, "prefetch") || strings.Contains(v, "preview") || strings.Contains(v, "prerender") {
			return true
		}
	}
	dest := r.Header.Get("Sec-Fetch-Dest")
	return dest != "" && dest != "document"
}

// askToLogIn answers a request without a login.
func (a *Access) askToLogIn(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Users == nil {
		a.refuse(w, r, http.StatusUnauthorized, "you are not logged in", "Open the URL that holdfast printed.")
		return
	}
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		redirect(w, r, "/login?"+url.Values{"next": {local(r.URL.RequestURI())}}.Encode())
		return
	}
	a.refuse(w, r, http.StatusUnauthorized, "you are not logged in", "Log in at /login.")
}

// serveLogin shows the form for a name and a password, and logs its user in.
func (a *Access) serveLogin(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Users == nil {
		a.askToLogIn(w, r)
		return
	}
	if r.Method != http.MethodPost {
		show(w, r, http.StatusOK, actPage{Title: "Log in", Login: true, Next: local(r.URL.Query().Get("next"))})
		return
	}
	if !a.readForm(w, r) {
		return
	}
	name, password := r.PostForm.Get("name"), r.PostForm.Get("password")
	as, err := a.present().check(r.Context(), a.gate, name, password, htpasswd.AddressOf(r))
	if wait, ok := errors.AsType[htpasswd.Wait](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(time.Duration(wait)/time.Second)+1))
		a.refuse(w, r, http.StatusTooManyRequests, "too many attempts to log in", "Wait "+duration.Text(time.Duration(wait).Round(time.Second)+time.Second)+".")
		return
	}
	if err != nil || !a.admit(w, name, as) {
		a.log.Warn("ui: login refused", "name", name, "remote", r.RemoteAddr)
		show(w, r, http.StatusUnauthorized, actPage{Title: "Log in", Login: true, Next: local(r.PostForm.Get("next")), Refused: "wrong name or password"})
		return
	}
	a.log.Info("ui: logged in", "name", name, "role", string(as.role), "remote", r.RemoteAddr)
	redirect(w, r, local(r.PostForm.Get("next")))
}

// serveLogout ends the login of a POST.
func (a *Access) serveLogout(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		a.refuse(w, r, http.StatusMethodNotAllowed, "a link cannot log you out", "Use the button.")
		return
	}
	for _, c := range r.CookiesNamed(a.cookie) {
		a.mu.Lock()
		a.drop(sha256.Sum256([]byte(c.Value)))
		a.mu.Unlock()
	}
	a.setCookie(w, "", -1)
	show(w, r, http.StatusOK, actPage{Title: "Logged out", Done: "You are logged out."})
}

// readForm reads the form of a POST. If it cannot, it answers and returns false.
func (a *Access) readForm(w http.ResponseWriter, r *http.Request) bool {
	err := r.ParseForm()
	switch _, long := errors.AsType[*http.MaxBytesError](err); {
	case long:
		a.refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the form is longer than %d bytes", mostForm), "Nothing was done.")
	case errors.Is(err, io.ErrUnexpectedEOF) || err != nil:
		a.refuse(w, r, http.StatusBadRequest, "the form cannot be read", "Nothing was done.")
	default:
		return true
	}
	return false
}

// local returns target if it is a path of this page, else "/". It is fit for a header.
func local(target string) string {
	u, err := url.Parse(target)
	if err != nil || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\\r\n\t\x00") ||
		u.Scheme != "" || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") || slices.Contains(strings.Split(u.Path, "/"), "..") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.Query().Encode()}).String()
}

// here returns the page's own directory, as seen from the page of a request: "./" or "../". Links and redirects begin with
// it, so they are right below the path of a proxy.
func here(r *http.Request) string {
	if n := strings.Count(r.URL.Path, "/") - 1; n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// redirect answers with another page to see. target begins with /, which stands for the page's own directory.
func redirect(w http.ResponseWriter, r *http.Request, target string) {
	w.Header().Set("Location", here(r)+strings.TrimPrefix(target, "/"))
	w.WriteHeader(http.StatusSeeOther)
}

// flash keeps a message for the page that the user is sent to, and returns its id.
func (a *Access) flash(r *http.Request, text string) (id string) {
	v, ok := r.Context().Value(personKey{}).(visit)
	if !ok {
		return ""
	}
	id = crand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	v.login.flashes = append(v.login.flashes, flash{id, text})
	if extra := len(v.login.flashes) - mostFlashes; extra > 0 {
		v.login.flashes = v.login.flashes[extra:]
	}
	return id
}

// flashOf returns the message that the URL's field flash names, or "". Only its user sees it.
func (a *Access) flashOf(r *http.Request) string {
	v, ok := r.Context().Value(personKey{}).(visit)
	id := r.URL.Query().Get("flash")
	if !ok || id == "" {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range v.login.flashes {
		if f.id == id {
			return f.text
		}
	}
	return ""
}
