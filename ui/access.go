package ui

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/internal/htpasswd"
)

// A Role says what a user may do.
type Role string

// A Viewer sees everything. An Operator also acts: breaks locks, revokes, and ends sessions.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
)

// A Person is the user of a request.
type Person struct {
	Name   string
	Role   Role   // Viewer if the page is read-only
	Remote string // the address of the connection, without what proxies say
}

// AccessConfig says who may use the page.
type AccessConfig struct {
	// Addr is the address of the listener. Unless it is on the loopback interface, NewAccess wants TLS and Users.
	Addr net.Addr
	TLS  bool // the listener speaks TLS: cookies are for TLS alone
	// Users log in with a password. Nil: whoever has the one-time token is the operator Owner.
	Users    *Users
	Owner    string            // the user with the one-time token, for the audit
	Announce func(path string) // is called with the path of the URL with a one-time token: now, and after each use
	// Admitted is called with each request of a user who is logged in, and the names of the user and the login. If it returns
	// false, they have too many connections, and the request is refused. Nil: nothing.
	Admitted func(r *http.Request, client ...string) bool
	ReadOnly bool         // nobody acts
	Hosts    []string     // names in URLs by which browsers may reach the page, without port
	Logger   *slog.Logger // nil: silent
}

const (
	// mostSessions is how many browsers are logged in at a time. Further ones take the place of the oldest of the user with
	// most.
	mostSessions = 256
	// sessionLife is how long a login lasts.
	sessionLife = 12 * time.Hour
	// mostFlashes is how many messages a session keeps.
	mostFlashes = 8
	// mostForm is the size of a form, in bytes.
	mostForm = 16 << 10
	// tokenField is the field of a URL with the one-time token.
	tokenField = "t"
)

// An Access decides who may see the page, and who may act. It stands before all handlers. It is safe for
// concurrent use, and starts no goroutine.
//
// On the loopback interface, the URL that holdfast ui prints has a token. The first browser that opens it gets a
// cookie, and the token is used up. That GET is the only one with an effect: a page for the exchange with a form in it
// would be one more click, and would need a second secret. A request that a browser, or a preview in a chat, makes
// ahead of its user would use up the token as well. So a request that says that it is a prefetch, a HEAD and a
// request for a part of a page do not use it. If it is used up nevertheless, Announce has the next one.
type Access struct {
	cfg    AccessConfig
	cookie string
	log    *slog.Logger
	cross  *http.CrossOriginProtection
	gate   *htpasswd.Gate

	mu       sync.Mutex // guards the fields below
	users    *Users     // nil as AccessConfig.Users is
	token    string     // the one-time token
	sessions map[[sha256.Size]byte]*login
}

// NewAccess checks the configuration.
func NewAccess(cfg AccessConfig) (*Access, error) {
	if cfg.Addr == nil {
		return nil, errors.New("ui: no address")
	}
	if !loopback(cfg.Addr) && (!cfg.TLS || cfg.Users == nil) {
		return nil, fmt.Errorf("ui: other machines can reach %s: such an address needs TLS and users", cfg.Addr)
	}
	for _, h := range cfg.Hosts {
		if h == "" || strings.ContainsAny(h, "/:@*? ") {
			return nil, fmt.Errorf("ui: %q is no host name: want a name such as locks.example.com, without port", h)
		}
	}
	a := &Access{cfg: cfg, log: cfg.Logger, cross: http.NewCrossOriginProtection(), gate: htpasswd.NewGate(), users: cfg.Users, sessions: make(map[[sha256.Size]byte]*login)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	// Cookies belong to a host, not to a port: each page of a machine has its own name.
	a.cookie = "holdfast-ui"
	if _, port, err := net.SplitHostPort(cfg.Addr.String()); err == nil {
		a.cookie += "-" + port
	}
	if cfg.TLS {
		a.cookie = "__Host-" + a.cookie
	}
	if cfg.Users == nil {
		a.renewToken()
	}
	return a, nil
}

// SetUsers replaces the users. The logins of users who are gone, or have another password or role, end at once, with
// their open pages. An Access without users stays one, and the other way round: then SetUsers fails and changes nothing.
func (a *Access) SetUsers(u *Users) error {
	if (u == nil) != (a.cfg.Users == nil) {
		return errors.New("ui: a page with users and one without need a restart in between")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if u != nil {
		u.all.Inherit(a.users.all)
	}
	a.users = u
	for key, l := range a.sessions {
		if u != nil && !u.has(l.account) {
			a.drop(key)
		}
	}
	return nil
}

// present returns the users of this moment.
func (a *Access) present() *Users {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.users
}

// loopback reports whether only this machine can reach addr.
func loopback(addr net.Addr) bool {
	switch addr := addr.(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// renewToken makes the next one-time token.
func (a *Access) renewToken() {
	token := crand.Text()
	a.mu.Lock()
	a.token = token
	a.mu.Unlock()
	if a.cfg.Announce != nil {
		a.cfg.Announce("/?" + tokenField + "=" + token)
	}
}

// Server returns the HTTP server for h, a UI with this Access. Its limits end slow requests. A handler of a long response has to
// move its own deadline. The caller serves and closes it.
func (a *Access) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
}

// personKey is the key of a request's loginOf in its context.
type personKey struct{}

// A visit is a request of a user.
type visit struct {
	Person
	login *login
}

// userOf returns the user of a request that has come through protect. Otherwise the Person may nothing: its role is "".
func userOf(r *http.Request) Person {
	v, _ := r.Context().Value(personKey{}).(visit)
	return v.Person
}

// clientOf returns what the browser of a request counts for, besides its address.
func clientOf(r *http.Request) []string {
	if v, ok := r.Context().Value(personKey{}).(visit); ok {
		return v.login.names()
	}
	return nil
}

// loggedOut reports whether the login of a request that has come through protect has ended since.
func loggedOut(r *http.Request) bool {
	v, ok := r.Context().Value(personKey{}).(visit)
	return !ok || v.login.ctx.Err() != nil
}

// mayAct reports whether the user may break, revoke and end.
func (p Person) mayAct() bool { return p.Role == Operator }

// protect lets next answer the requests of users who are logged in, and of nobody else. Their context ends with the
// login.
func (a *Access) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if !a.hostAllowed(r) {
			a.refuse(w, r, http.StatusForbidden, "this name of the host is not allowed",
				"Use the address that holdfast printed, or allow the name with --allow-host.")
			return
		}
		if why := a.foreign(r); why != "" {
			a.refuse(w, r, http.StatusForbidden, why, "Nothing was done. Use the page itself.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		switch r.URL.Path {
		case "/login":
			a.serveLogin(w, r)
			return
		case "/logout":
			a.serveLogout(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/assets/") && r.Method == http.MethodGet {
			next.ServeHTTP(w, r) // the style of the form to log in: files of this program
			return
		}
		l := a.loginOf(r)
		if r.URL.Query().Has(tokenField) && a.cfg.Users == nil && a.exchange(w, r, l) {
			return
		}
		if l == nil {
			a.askToLogIn(w, r)
			return
		}
		if a.cfg.Admitted != nil && !a.cfg.Admitted(r, l.names()...) {
			w.Header().Set("Connection", "close")
			http.Error(w, "too many connections of this user or address", http.StatusServiceUnavailable)
			return
		}
		p := Person{l.name, l.role, r.RemoteAddr}
		if a.cfg.ReadOnly {
			p.Role = Viewer
		}
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), personKey{}, visit{p, l}))
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)() // also ends a stream of events
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// secure sets the headers that keep a page to itself.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// hostAllowed reports whether the request names a host under which the page is meant to be reached. A page of
// somebody else whose name resolves to this address is a page of the same origin for its browser (DNS rebinding).
// Addresses are not names: nobody can make them resolve.
func (a *Access) hostAllowed(r *http.Request) bool {
	host := r.Host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = h
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	for _, name := range a.cfg.Hosts {
		if strings.EqualFold(host, name) {
			return true
		}
	}
	if strings.EqualFold(host, "localhost") {
		return loopback(a.cfg.Addr)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.IsLoopback() && loopback(a.cfg.Addr) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && ip.Unmap() == local.AddrPort().Addr().Unmap()
}

// foreign says why a request that could change something is taken for one of another site, or "". Every browser sends
// Origin or Sec-Fetch-Site with a POST, so a request without both is refused as well.
func (a *Access) foreign(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return ""
	case http.MethodPost:
	default:
		return "this method is not allowed"
	}
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return "the request does not say from which site it comes"
	}
	if err := a.cross.Check(r); err != nil {
		return "the request comes from another site"
	}
	return ""
}

// refuse answers a request that is refused, and logs it.
func (a *Access) refuse(w http.ResponseWriter, r *http.Request, status int, why, hint string) {
	a.log.Warn("ui: request refused", "why", why, "method", r.Method, "path", r.URL.Path, "host", r.Host, "remote", r.RemoteAddr, "user", userOf(r).Name)
	show(w, r, status, actPage{Title: "Refused", Refused: why, Hint: hint})
}
