// Package ui is a page that shows all locks below a path of a ZooKeeper server, in the layouts of all libraries that
// holdfast knows: who holds them, who waits for whom, and what has happened in the last hour.
//
// [New] returns an http.Handler for a program's own mux; "holdfast ui" serves it alone. All tabs share one session and
// one persistent recursive watch: a change of a lock costs the server one read, or none, however many tabs are open. A
// tab has one event stream, gets a mark after a change, at most once a second, and reads its page again. A page is made
// once for all tabs of a user that show it. A tab that does not read its marks is dropped. Without JavaScript, a page
// reloads itself every five seconds.
//
// The page never shows old data as new: it asks the server once a second, and if there is no answer for three seconds,
// if the session has expired or if events are missing, a banner says so and since when.
//
// The history is in memory, and bounded: the last hour, 512 turns of each lock, 100,000 turns in all (about 30 MB, and 100 MB if all owners and reasons are long), and
// 100 gaps. Beside it, the page keeps a copy of the nodes below the path, with at most 64 KiB of the data of each.
//
// Goroutines: [New] starts two, one that follows the watch and one that asks the server. [UI.Close] ends both, and the
// streams of the tabs.
package ui

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"holdfast/internal/fair"
	"holdfast/zk"
)

// A Config says what to show.
type Config struct {
	// Client is the client to read with. The page leaves it open.
	Client *zk.Client
	// Prefix is the beginning of the paths of the locks to show; "" is "/", the whole server. A prefix that ends with /
	// is a directory.
	Prefix string
	// Namespace is left out of the names of locks on the page; "" is /holdfast/locks.
	Namespace string
	// Server is the value of --server in the commands that the page offers; "" leaves it out.
	Server string
	// Access says who may see the page, and who may break, revoke and end sessions. Its links are absolute, so the page
	// is at the root of its host. Without Access, the program itself has to say who may see the page, and nobody acts.
	Access *Access
}

// A UI is the page. It is an http.Handler, and safe for concurrent use. Its links are relative, so a program can serve
// it below any path that ends with /, with http.StripPrefix.
type UI struct {
	cfg     Config
	state   *state
	handler http.Handler
	stop    context.CancelFunc
	running sync.WaitGroup
	audits  auditCache
	sheets  sheets
	streams *fair.Pool // of events
	started time.Time
}

//go:embed pages assets
var files embed.FS

// templates are parsed at their first use. Most processes that link this package show no page, and parsing took longer
// than all else at their start.
var templates = sync.OnceValue(func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		page := strings.TrimSuffix(strings.TrimPrefix(name, "pages/"), ".html")
		if page == "frame" {
			continue
		}
		all[page] = template.Must(template.New("frame.html").Funcs(functions).ParseFS(files, "pages/frame.html", name))
	}
	return all
})

// New begins to watch the locks, and returns the page. It does not wait for the server: until the locks have been read,
// the page says that they have not. The error says what is wrong with cfg. The caller closes the page.
func New(cfg Config) (*UI, error) {
	if cfg.Client == nil {
		return nil, errors.New("ui: no client")
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "/"
	}
	if cfg.Namespace == "" {
		cfg.Namespace = "/holdfast/locks"
	}
	if !strings.HasPrefix(cfg.Prefix, "/") {
		return nil, fmt.Errorf("ui: the prefix %q does not begin with /", cfg.Prefix)
	}
	u := &UI{cfg: cfg, state: newState(cfg.Client, cfg.Prefix), streams: fair.NewPool(mostTabs), started: time.Now()}
	if err := zk.ValidatePath(u.state.base); err != nil {
		return nil, fmt.Errorf("ui: prefix: %w", err)
	}
	u.handler = headers(u.routes())
	if cfg.Access != nil {
		u.handler = cfg.Access.protect(u.handler)
	}
	ctx, stop := context.WithCancel(context.Background())
	u.stop = stop
	u.running.Go(func() { u.state.follow(ctx) })
	u.running.Go(func() { u.state.probe(ctx) })
	return u, nil
}

// Close ends the streams of the tabs and stops watching. It waits until both have ended, and always returns nil. The
// client stays open.
func (u *UI) Close() error {
	u.state.hub.close()
	u.stop()
	u.running.Wait()
	return nil
}

// ServeHTTP answers a request for a page.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.handler.ServeHTTP(w, r) }

// headers sets the headers that keep a page to itself, also on the mux of a program.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if path.Clean(r.URL.Path) != r.URL.Path { // the mux would redirect to the clean path, and out of that of a proxy
			missing(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (u *UI) routes() http.Handler {
	mux := http.NewServeMux()
	get := func(pattern string, h http.HandlerFunc) { mux.HandleFunc("GET "+pattern, h) }
	get("/{$}", u.page("overview", u.overview))
	get("/locks", u.page("locks", u.locks))
	get("/lock", u.page("lock", u.lock))
	get("/graph", u.page("graph", u.graphPage))
	get("/sessions", u.page("sessions", u.sessions))
	get("/elections", u.page("elections", u.elections))
	get("/audit", u.page("audit", u.audit))
	get("/health", u.page("health", u.health))
	get("/events", u.events)
	mux.HandleFunc("POST /theme", theme)
	if u.cfg.Access != nil {
		(&acts{access: u.cfg.Access, client: u.cfg.Client, prefix: u.cfg.Prefix}).register(mux)
	}
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err)
	}
	mux.HandleFunc("/assets", missing) // otherwise the mux redirects to /assets/
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", cached(http.FileServerFS(assets))))
	mux.HandleFunc("/", missing)
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		show(w, r, http.StatusForbidden, actPage{Title: "Refused", Refused: "the request comes from another site", Hint: "Nothing was done. Use the page itself."})
	}))
	return cross.Handler(mux)
}

// missing answers a request that no page answers.
func missing(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		show(w, r, http.StatusMethodNotAllowed, actPage{Title: "Refused", Refused: "this page takes no " + plain(r.Method), Hint: "Nothing was done. Use the page itself."})
		return
	}
	show(w, r, http.StatusNotFound, actPage{Title: "No such page", Hint: "There is nothing at this address."})
}

func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// themeOf returns the colors that the user has chosen, or "".
func themeOf(r *http.Request) string {
	if c, err := r.Cookie("holdfast_theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// theme remembers the colors that the user has chosen, for the directory of the request: see Access.setCookie.
func theme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	to := r.PostFormValue("theme")
	if to != "light" && to != "dark" {
		to = ""
	}
	http.SetCookie(w, &http.Cookie{Name: "holdfast_theme", Value: to, MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteStrictMode, HttpOnly: true})
	back := r.PostFormValue("back")
	if page, _, _ := strings.Cut(back, "?"); page != "" && templates()[page] == nil {
		back = ""
	}
	if back == "" {
		back = "./"
	}
	w.Header().Set("Location", back) // relative, so it is right below any path
	w.WriteHeader(http.StatusSeeOther)
}
